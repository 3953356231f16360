"""Test suite for the intake contract. Needs the extra ``testing``.

A test module provides an empty source (``IntakePlace``) for each test and subclasses the suite::

    from skitter.testing import IntakeContract, IntakePlace

    class MyPlace(IntakePlace):
        def intake(self): return my_intake(self.address)
        def put(self, *bodies): send_all(self.address, bodies)
        def dead_letters(self): return read_dead_letters(self.address)

    @pytest.fixture
    def place(tmp_path):
        return MyPlace(tmp_path)

    class TestMyIntake(IntakeContract): ...

A simulated crash is always the worst case: messages were read, and this was not recorded anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from skitter.intakes.contract import DeadLetter, Intake, Message

WAIT_SECONDS = 60.0
"""Time limit for messages that exist. A source that redistributes its messages may need some seconds."""
_BODIES = [b"https://example.com/%d" % number for number in range(10)]


class IntakePlace:
    """Empty source of messages for each test. Subclass it and return an instance from the fixture ``place``."""

    ids_are_stable = True
    """Whether messages have ids. If False, no message has one."""

    def intake(self) -> Intake:
        """Return a new intake of the source that is not open yet."""
        raise NotImplementedError

    def put(self, *bodies: bytes) -> None:
        """Append messages to the source."""
        raise NotImplementedError

    def dead_letters(self) -> Sequence[tuple[bytes, str]]:
        """Return the body and the reason of each dead letter."""
        raise NotImplementedError

    def kill(self, intake: Intake) -> None:
        """End an intake as if its process were killed, and let the time elapse after which it counts as dead."""
        raise NotImplementedError


class Reading:
    """Reader of a source, with the record of it in the frontier. A crash loses everything except that record."""

    def __init__(self, place: IntakePlace) -> None:
        self.place = place
        self.mark = b""
        self.intake = place.intake()

    def open(self) -> Reading:
        """Open the intake, like a process that starts or resumes."""
        self.intake = self.place.intake()
        self.intake.open(self.mark)
        return self

    def read(self, number: int) -> list[Message]:
        """Read the expected number of messages, with as many calls as needed."""
        found: list[Message] = []
        until = time.monotonic() + WAIT_SECONDS
        while len(found) < number and time.monotonic() < until:
            found += self.intake.read(number - len(found), 1.0)
        assert len(found) == number, f"{len(found)} messages of {number} came"
        return found

    def ack(self, messages: Sequence[Message]) -> Reading:
        self.mark = self.intake.ack(messages) or self.mark
        return self

    def is_empty(self) -> None:
        """Assert that no message arrives."""
        assert self.intake.read(10, 0.5) == []

    def crash(self) -> Reading:
        self.place.kill(self.intake)
        return self

    def close(self) -> None:
        self.intake.close()


def bodies(messages: Sequence[Message]) -> list[bytes]:
    return sorted(message.body for message in messages)


class IntakeContract:
    """Test suite for the intake contract. Each test uses the fixture ``place``, an empty ``IntakePlace``."""

    def test_every_message_is_read_once(self, place: IntakePlace) -> None:
        place.put(*_BODIES)
        reading = Reading(place).open()
        first = reading.read(4)
        reading.ack(first)
        rest = reading.read(6)
        reading.ack(rest)
        assert bodies([*first, *rest]) == _BODIES
        reading.is_empty()
        reading.close()
        reading.open().is_empty()
        reading.close()

    def test_what_is_put_later_is_read(self, place: IntakePlace) -> None:
        reading = Reading(place)
        place.put(_BODIES[0])
        reading.open()
        reading.ack(reading.read(1))
        reading.close()
        place.put(_BODIES[1])
        reading.open()
        found = reading.read(1)
        assert bodies(found) == [_BODIES[1]]
        reading.ack(found).close()

    def test_no_more_than_the_limit_is_read(self, place: IntakePlace) -> None:
        place.put(*_BODIES)
        reading = Reading(place).open()
        assert reading.intake.read(0, 0.1) == []
        found = reading.read(1)
        while len(found) < 10:
            more = reading.intake.read(3, 1.0)
            assert 0 < len(more) <= 3
            found += more
        assert bodies(found) == _BODIES
        reading.close()

    def test_what_was_read_and_not_acknowledged_comes_again_after_a_crash(self, place: IntakePlace) -> None:
        place.put(*_BODIES)
        reading = Reading(place).open()
        reading.ack(reading.read(3))
        lost = reading.read(4)
        reading.crash().open()
        again = reading.read(7)
        assert set(bodies(lost)) <= set(bodies(again))
        reading.ack(again).is_empty()
        reading.close()

    def test_what_was_acknowledged_does_not_come_again_after_a_crash(self, place: IntakePlace) -> None:
        place.put(*_BODIES)
        reading = Reading(place).open()
        reading.ack(reading.read(10)).crash().open()
        reading.is_empty()
        reading.close()

    def test_what_was_not_acknowledged_is_handed_back_when_it_is_closed(self, place: IntakePlace) -> None:
        place.put(*_BODIES)
        reading = Reading(place).open()
        reading.ack(reading.read(2))
        reading.read(3)
        reading.close()
        reading.open()
        found = reading.read(8)
        reading.ack(found).close()

    def test_opened_again_it_delivers_what_was_not_acknowledged(self, place: IntakePlace) -> None:
        """This happens after an error of the server or of the dead letters."""
        place.put(*_BODIES)
        reading = Reading(place).open()
        reading.ack(reading.read(2))
        reading.read(3)
        reading.intake.open(reading.mark)
        found = reading.read(8)
        assert len(set(bodies(found))) == 8
        reading.ack(found).is_empty()
        reading.close()

    def test_the_id_of_a_message_stays_the_same(self, place: IntakePlace) -> None:
        place.put(*_BODIES)
        reading = Reading(place).open()
        before = {message.body: message.id for message in reading.read(10)}
        reading.crash().open()
        again = reading.read(10)
        assert {message.body: message.id for message in again} == before
        if place.ids_are_stable:
            assert len(set(before.values())) == 10
            assert all(before.values())
        else:
            assert set(before.values()) == {""}
        reading.ack(again).close()

    def test_a_message_comes_as_it_was_sent(self, place: IntakePlace) -> None:
        sent = [
            b'{"url": "https://example.com/", "meta": {"n": 1}}',
            "https://example.com/ü".encode(),
            b"\xff\xfe bytes",
        ]
        place.put(*sent)
        reading = Reading(place).open()
        found = reading.read(3)
        assert bodies(found) == sorted(sent)
        reading.ack(found).close()

    def test_an_empty_source_is_waited_for_no_longer_than_asked(self, place: IntakePlace) -> None:
        reading = Reading(place).open()
        began = time.monotonic()
        assert reading.intake.read(10, 0.2) == []
        assert time.monotonic() - began < WAIT_SECONDS
        reading.close()

    def test_dead_letters_have_the_message_and_the_reason(self, place: IntakePlace) -> None:
        place.put(*_BODIES[:3])
        reading = Reading(place).open()
        found = sorted(reading.read(3), key=lambda message: message.body)
        letters = [DeadLetter(found[0], "no url"), DeadLetter(found[2], "not a URL: ü")]
        reading.intake.dead_letter(letters)
        assert sorted(place.dead_letters()) == [(_BODIES[0], "no url"), (_BODIES[2], "not a URL: ü")]
        reading.intake.dead_letter(letters)
        assert set(place.dead_letters()) == {(_BODIES[0], "no url"), (_BODIES[2], "not a URL: ü")}
        reading.close()

    def test_the_backlog_is_what_is_not_acknowledged(self, place: IntakePlace) -> None:
        place.put(*_BODIES)
        reading = Reading(place).open()
        found = reading.read(10)
        assert reading.intake.backlog().messages in (10, None)
        reading.ack(found)
        assert reading.intake.backlog().messages in (0, None)
        reading.close()

    def test_two_readers_share_the_messages(self, place: IntakePlace) -> None:
        if not place.intake().shared:
            pytest.skip("one process at a time reads this source")
        first, second = Reading(place).open(), Reading(place).open()
        place.put(*_BODIES)
        found: list[Message] = []
        until = time.monotonic() + WAIT_SECONDS
        while len(found) < 10 and time.monotonic() < until:
            for reading in (first, second):
                if some := reading.intake.read(2, 0.2):
                    reading.ack(some)
                    found += some
        assert bodies(found) == _BODIES
        for reading in (first, second):
            reading.is_empty()
            reading.close()

    def test_the_name_of_a_source_stays_the_same(self, place: IntakePlace) -> None:
        assert place.intake().source == place.intake().source != ""

    def test_closing_may_be_done_twice_and_without_opening(self, place: IntakePlace) -> None:
        place.intake().close()
        reading = Reading(place).open()
        reading.close()
        reading.close()
