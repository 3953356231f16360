"""Test suite for the sink contract. Needs the extra ``testing``.

A test module provides an empty output (``SinkPlace``) for each test and subclasses the suite::

    from skitter.testing import SinkContract, SinkPlace

    class MyPlace(SinkPlace):
        def sink(self): return my_sink(self.address)
        def records(self): return read_all(self.address)

    @pytest.fixture
    def place(tmp_path):
        return MyPlace(tmp_path)

    class TestMySink(SinkContract): ...

A simulated crash is always the worst case: the items are in the output, and the frontier has not recorded it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.contract import Sink


class SinkPlace:
    """Empty output for each test. Subclass it and return an instance from the fixture ``place``."""

    def sink(self) -> Sink:
        """Return a new sink for the output that is neither taken nor open yet."""
        raise NotImplementedError

    def records(self) -> Sequence[Any]:
        """Return the records in the output, in any order, with at least the fields that were written."""
        raise NotImplementedError


class Delivery:
    """Delivery to an output, with the record of it in the frontier. A crash loses everything except that record."""

    def __init__(self, place: SinkPlace, request_id: int = 7) -> None:
        self.place = place
        self.progress = SinkProgress()
        self._request_id = request_id
        self.sink = place.sink()

    def open(self) -> Delivery:
        """Take and open the sink, like a process that starts or resumes."""
        self.sink = self.place.sink()
        self.sink.take()
        self.progress = SinkProgress(self.progress.position, self.sink.open(self.progress))
        return self

    def write(self, *numbers: int, recorded: bool = True) -> Delivery:
        """Write one item for each number. Without ``recorded`` the process dies before the frontier records it."""
        first = self.progress.position + 1
        items = [
            Item(first + place, self._request_id, first + place, msgspec.msgpack.encode({"n": number}))
            for place, number in enumerate(numbers)
        ]
        mark = self.sink.write(items)
        assert mark, "a mark is never empty"
        if recorded:
            self.progress = SinkProgress(items[-1].position, mark)
        return self

    def crash(self) -> Delivery:
        """End like a killed process: its resources are released, and nothing is recorded."""
        self.sink.close()
        return self

    def complete(self) -> Delivery:
        """End like a finished job."""
        self.sink.finish()
        self.progress = SinkProgress(self.progress.position, self.progress.mark, closed=True)
        self.sink.close(complete=True)
        return self

    def holds(self, *numbers: int) -> None:
        """Assert that the output has these records: each once or, if the sink is not exact, at least once."""
        found = Counter(record["n"] for record in self.place.records())
        if self.sink.exact:
            assert found == Counter(numbers)
        else:
            assert found.keys() == set(numbers)


class SinkContract:
    """Test suite for the sink contract. Each test uses the fixture ``place``, an empty ``SinkPlace``."""

    def test_everything_written_is_in_the_target(self, place: SinkPlace) -> None:
        Delivery(place).open().write(1, 2).write(3).complete().holds(1, 2, 3)

    def test_the_name_of_a_target_stays_the_same(self, place: SinkPlace) -> None:
        assert place.sink().target == place.sink().target != ""

    def test_taking_a_target_changes_nothing(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open().write(1).crash()
        sink = place.sink()
        sink.take()
        sink.close()
        delivery.open().complete().holds(1)

    def test_a_killed_delivery_goes_on_after_what_was_recorded(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open().write(1, 2).crash()
        delivery.open().write(3).complete().holds(1, 2, 3)

    def test_what_was_written_and_not_recorded_comes_again(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open().write(1)
        delivery.write(2, 3, recorded=False).crash()
        delivery.open().write(2, 3).complete().holds(1, 2, 3)

    def test_a_batch_that_comes_again_may_be_longer(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open().write(1)
        delivery.write(2, 3, recorded=False).crash()
        delivery.open().write(2, 3, 4, recorded=False).crash()
        delivery.open().write(2, 3, 4, 5).write(6).complete().holds(1, 2, 3, 4, 5, 6)

    def test_a_first_batch_that_was_not_recorded_comes_again(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open()
        delivery.write(1, 2, recorded=False).crash()
        delivery.open().write(1, 2).complete().holds(1, 2)

    def test_a_crash_before_the_first_batch_costs_nothing(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open().crash()
        delivery.open().write(1).complete().holds(1)

    def test_finishing_may_be_done_again_after_a_crash(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open().write(1)
        delivery.sink.finish()
        delivery.sink.finish()
        delivery.crash()
        delivery.open().complete().holds(1)

    def test_a_completed_target_goes_on_after_what_is_there(self, place: SinkPlace) -> None:
        delivery = Delivery(place).open().write(1).complete()
        delivery.open().write(2).complete().holds(1, 2)

    def test_another_run_adds_to_what_is_there(self, place: SinkPlace) -> None:
        Delivery(place).open().write(1).complete()
        Delivery(place, request_id=8).open().write(2).complete().holds(1, 2)

    def test_closing_may_be_done_twice_and_without_opening(self, place: SinkPlace) -> None:
        delivery = Delivery(place)
        delivery.sink.close()
        delivery.open().write(1).complete()
        delivery.sink.close()
        delivery.holds(1)
