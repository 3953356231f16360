"""The reader of an intake: nothing is acknowledged before it is in the frontier or a dead letter."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from skitter.errors import IntakeError, IntakeUnavailableError, UsageError
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.intakes.contract import Backlog, DeadLetter, Message
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.job import Command, JobSpec, State
from skitter.model.outcome import Ending, Outcome
from skitter.node import intake_reader, intake_record
from skitter.node.intake_reader import IntakeReader, reading_intakes
from skitter.observe.events import Event
from skitter.stop_request import StopRequest
from skitter.testing.clock import FakeClock

SOURCE = "queue:urls"


class Queue:
    """A source in memory. ``fails``: errors that the next calls of a method raise, by its name."""

    source = SOURCE
    shared = True

    def __init__(self, *bodies: bytes, ends: bool = False, ids: bool = True) -> None:
        self._waiting = deque(Message(body, id=str(n) if ids else "") for n, body in enumerate(bodies))
        self._unacked: list[Message] = []
        self._ends = ends
        self.fails: dict[str, list[IntakeError]] = {}
        self.log: list[str] = []
        self.acked: list[bytes] = []
        self.letters: list[tuple[bytes, str]] = []
        self.held_by_others = 0

    def put(self, *bodies: bytes) -> None:
        self._waiting.extend(Message(body, id=f"later {body!r}") for body in bodies)

    @property
    def is_exhausted(self) -> bool:
        return self._ends and not self._waiting

    def _fail(self, name: str) -> None:
        self.log.append(name)
        if self.fails.get(name):
            raise self.fails[name].pop(0)

    def open(self, mark: bytes) -> None:
        self._fail("open")
        self._waiting.extendleft(reversed(self._unacked))
        self._unacked.clear()

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        self._fail("read")
        found = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        self._unacked += found
        return found

    def ack(self, messages: Sequence[Message]) -> bytes:
        self._fail("ack")
        self.acked += [message.body for message in messages]
        del self._unacked[: len(messages)]
        return b"%d" % len(self.acked)

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        self._fail("dead_letter")
        self.letters += [(letter.message.body, letter.reason) for letter in letters]

    def backlog(self) -> Backlog:
        return Backlog(len(self._waiting) + len(self._unacked) + self.held_by_others)

    def close(self) -> None:
        self.log.append("close")


class Rig:
    """A job in memory whose seeding is over, and the events of its readers."""

    def __init__(self, frontier: Frontier, clock: FakeClock) -> None:
        self.frontier = frontier
        self.clock = clock
        self.events: list[Event] = []

    def reader(self, queue: Queue, *, max_queued: int = 1000, until_idle_seconds: float | None = None) -> IntakeReader:
        return IntakeReader(
            self.frontier,
            queue,
            max_queued=max_queued,
            until_idle_seconds=until_idle_seconds,
            stop=StopRequest(),
            on_event=self.events.append,
        )

    @contextlib.asynccontextmanager
    async def reads(self, reader: IntakeReader) -> AsyncIterator[None]:
        async with reading_intakes([reader], StopRequest()):
            yield

    async def seen(self) -> IntakeSeen:
        return next(intake for intake in await self.frontier.intakes() if intake.source == SOURCE)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110  the condition is what another thread does
                await asyncio.sleep(0.01)

    async def until_seen(self, condition: Callable[[IntakeSeen], object]) -> IntakeSeen:
        async with asyncio.timeout(60):
            while not condition(seen := await self.seen()):  # noqa: ASYNC110  as a person would look
                await asyncio.sleep(0.01)
        return seen

    def told(self) -> list[str]:
        return [event.kind.name for event in self.events]


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    for name in ("READ_SECONDS", "CHECK_SECONDS", "BACKLOG_SECONDS", "AWAY_SECONDS"):
        monkeypatch.setattr(intake_reader, name, 0.01)
    monkeypatch.setattr(intake_record, "TELL_SECONDS", 0.01)
    clock = FakeClock()
    frontier = memory_frontier("job", MemoryStore(clock.of_store()))
    await frontier.begin(JobSpec(name="job", spider="", settings={"obey_robots": False, "delay_seconds": 0}))
    (seeding,) = (await frontier.lease("w", 1)).leases
    await frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE)])
    return Rig(frontier, clock)


async def crawl_all(frontier: Frontier) -> int:
    leases = (await frontier.lease("w", 1000)).leases
    await frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE) for lease in leases])
    return len(leases)


async def test_messages_become_requests_and_are_acknowledged_after(rig: Rig) -> None:
    queue = Queue(b"https://a.example/1", b'{"url": "https://a.example/2", "priority": 7}', b"https://a.example/1")
    added: list[int] = []
    add = rig.frontier.add

    async def logged(entries: Sequence[object]) -> int:
        assert queue.acked == []
        added.append(len(entries))
        return await add(entries)  # type: ignore[arg-type]

    rig.frontier.add = logged  # type: ignore[method-assign]
    async with rig.reads(rig.reader(queue)):
        seen = await rig.until_seen(lambda seen: seen.read == 3)
    assert (added, len(queue.acked), seen.added, seen.duplicates, seen.backlog) == ([3], 3, 2, 1, 0)
    leases = (await rig.frontier.lease("w", 10)).leases
    assert [(lease.request.url, lease.request.priority) for lease in leases] == [
        ("https://a.example/2", 7),
        ("https://a.example/1", 0),
    ]
    assert queue.log[-1] == "close"
    assert (await rig.seen()).is_abandoned, "it stays open when its reader stops"


async def test_a_source_with_an_end_is_closed_there_and_the_job_finishes(rig: Rig) -> None:
    queue = Queue(*(b"https://a.example/%d" % n for n in range(2500)), ends=True)
    async with rig.reads(rig.reader(queue, max_queued=10_000)):
        await rig.until_seen(lambda seen: seen.closed)
        while await crawl_all(rig.frontier):
            rig.clock.advance(1)
    assert (await rig.frontier.state()).state is State.FINISHED
    assert (await rig.frontier.counts()).done == 2500
    assert rig.told() == ["intake.opened", "intake.closed"]


async def test_what_cannot_become_a_request_is_a_dead_letter(rig: Rig) -> None:
    poison = [b"nonsense", b'{"url": "https://a.example/", "prio": 1}', b"{", b"\xff", b"ftp://a.example/", b"{}"]
    queue = Queue(*poison, b"https://a.example/", ends=True)
    async with rig.reads(rig.reader(queue)):
        seen = await rig.until_seen(lambda seen: seen.closed)
    assert (seen.read, seen.added, seen.dead_letters) == (7, 1, 6)
    assert [body for body, _ in queue.letters] == poison
    assert len(queue.acked) == 7
    assert queue.log.index("dead_letter") < queue.log.index("ack")
    assert "unknown field: prio" in queue.letters[1][1]


async def test_when_dead_letters_cannot_be_stored_nothing_is_acknowledged_until_they_can(rig: Rig) -> None:
    queue = Queue(b"nonsense", b"https://a.example/", ends=True)
    queue.fails = {"dead_letter": [IntakeError("the disk is full") for _ in range(3)]}
    async with rig.reads(rig.reader(queue)):
        await rig.until_seen(lambda seen: "the disk is full" in seen.trouble)
        assert queue.acked == []
        seen = await rig.until_seen(lambda seen: seen.closed)
    assert (seen.read, seen.added, seen.dead_letters, len(queue.letters)) == (2, 0, 1, 1)
    assert (await rig.frontier.counts()).queued == 1
    assert rig.told() == ["intake.opened", "intake.trouble", "intake.dead_letters", "intake.back", "intake.closed"]


@pytest.mark.parametrize("step", ["read", "ack"])
async def test_a_source_that_is_away_is_opened_again_and_nothing_is_lost(rig: Rig, step: str) -> None:
    queue = Queue(b"https://a.example/1", b"https://a.example/2", ends=True)
    queue.fails = {step: [IntakeUnavailableError("no route")], "open": []}
    reader = rig.reader(queue)
    async with rig.reads(reader):
        queue.fails["open"] = [IntakeUnavailableError("no route"), IntakeUnavailableError("no route")]
        await rig.until_seen(lambda seen: seen.closed)
    assert sorted(queue.acked) == [b"https://a.example/1", b"https://a.example/2"]
    assert (await rig.frontier.counts()).queued == 2
    assert rig.told().count("intake.trouble") == rig.told().count("intake.back") == 1


async def test_a_source_that_cannot_be_opened_at_first_keeps_no_job_from_finishing(rig: Rig) -> None:
    queue = Queue()
    queue.fails = {"open": [IntakeError("no such key")]}
    with pytest.raises(IntakeError, match="no such key"):
        await rig.reader(queue).open()
    assert (await rig.frontier.state()).state is State.FINISHED


async def test_nothing_is_read_beyond_max_queued(rig: Rig) -> None:
    queue = Queue(*(b"https://a.example/%d" % n for n in range(30)))
    async with rig.reads(rig.reader(queue, max_queued=10)):
        seen = await rig.until_seen(lambda seen: seen.paused)
        assert "max_queued=10" in seen.paused
        assert len(queue.acked) == 10
        await crawl_all(rig.frontier)
        await rig.until(lambda: len(queue.acked) > 10)
    assert rig.told()[:3] == ["intake.opened", "intake.paused", "intake.resumed"]


async def test_nothing_is_read_while_the_job_is_paused(rig: Rig) -> None:
    queue = Queue()
    async with rig.reads(rig.reader(queue)):
        await rig.frontier.command(Command.PAUSE)
        await rig.until_seen(lambda seen: "paused" in seen.paused)
        queue.put(b"https://a.example/1")
        reads = queue.log.count("read")
        await rig.until(lambda: queue.log.count("read") > reads + 3)
        assert queue.acked == []
        await rig.frontier.command(Command.RESUME)
        await rig.until(lambda: queue.acked)
    assert (await rig.seen()).paused == ""


async def test_an_idle_source_is_closed_but_not_while_another_reader_holds_messages(rig: Rig) -> None:
    queue = Queue(b"https://a.example/1")
    queue.held_by_others = 1
    async with rig.reads(rig.reader(queue, until_idle_seconds=0.05)):
        await rig.until(lambda: queue.log.count("read") > 20)
        assert not (await rig.seen()).closed
        queue.held_by_others = 0
        await rig.until_seen(lambda seen: seen.closed)


async def test_who_is_idle_leaves_it_to_others_and_takes_over_when_they_are_gone(rig: Rig) -> None:
    queue = Queue()
    await rig.frontier.open_intake(SOURCE, "elsewhere:1:1")
    async with rig.reads(rig.reader(queue, until_idle_seconds=0.05)):
        await rig.until(lambda: "intake.read_elsewhere" in rig.told())
        assert (await rig.seen()).owners == ["elsewhere:1:1"]
        assert queue.log[-1] == "close", "what the source holds for it would be missing to the others"
        queue.put(b"https://a.example/1")
        await rig.frontier.leave_intake(SOURCE, "elsewhere:1:1")
        await rig.until(lambda: queue.acked)
        await rig.until_seen(lambda seen: seen.closed)


async def test_a_reader_that_counts_as_dead_begins_anew_and_nothing_is_counted_twice(rig: Rig) -> None:
    queue = Queue(b"https://a.example/1")
    async with rig.reads(rig.reader(queue)):
        (owner,) = (await rig.until_seen(lambda seen: seen.read == 1)).owners
        await rig.frontier.leave_intake(SOURCE, owner)
        queue.put(b"https://a.example/2")
        seen = await rig.until_seen(lambda seen: seen.read == 2 and seen.owners)
    assert (seen.added, len(queue.acked)) == (2, 2)


async def test_the_mark_is_stored_and_given_to_the_next_reader(rig: Rig) -> None:
    queue = Queue(b"https://a.example/1", b"https://a.example/2")
    async with rig.reads(rig.reader(queue)):
        await rig.until_seen(lambda seen: seen.read == 2)
    assert await rig.frontier.open_intake(SOURCE, "another") == b"2"


async def test_an_unfiltered_message_that_comes_again_is_the_same_request(rig: Rig) -> None:
    body = b'{"url": "https://a.example/", "dont_filter": true}'
    queue = Queue(body, body, ends=True)
    queue.fails = {"ack": [IntakeUnavailableError("gone")]}
    async with rig.reads(rig.reader(queue)):
        seen = await rig.until_seen(lambda seen: seen.closed)
    assert (await rig.frontier.counts()).queued == 2, "two messages are two requests, however often they come"
    assert (seen.read, seen.dead_letters) == (2, 0)
    without_ids = Queue(body, ends=True, ids=False)
    async with rig.reads(rig.reader(without_ids)):
        await rig.until(lambda: without_ids.letters)
    assert "without an id" in without_ids.letters[0][1]


async def test_a_reader_of_this_machine_that_was_killed_is_not_waited_for(rig: Rig) -> None:
    from skitter.cluster.process_identity import worker_id

    node = worker_id().rsplit(":", 2)[0]
    await rig.frontier.open_intake(SOURCE, f"{node}:999999:1")
    await rig.frontier.tell_intake(SOURCE, f"{node}:999999:1", IntakeProgress(mark=b"5", read=5))
    queue = Queue(b"https://a.example/1", ends=True)
    queue.shared = False  # type: ignore[misc]
    async with rig.reads(rig.reader(queue)):
        seen = await rig.until_seen(lambda seen: seen.closed)
    assert seen.read == 6


async def test_when_one_of_two_cannot_be_opened_the_other_is_left_for_the_next_command(rig: Rig) -> None:
    good, bad = Queue(b"https://a.example/1"), Queue()
    bad.source, bad.fails = "queue:other", {"open": [IntakeError("no such key")]}  # type: ignore[misc]
    with pytest.raises(IntakeError, match="no such key"):
        async with reading_intakes([rig.reader(good), rig.reader(bad)], StopRequest()):
            raise AssertionError("nothing is begun")
    assert good.log[-1] == bad.log[-1] == "close"
    seen = {intake.source: intake for intake in await rig.frontier.intakes()}
    assert seen[SOURCE].is_abandoned
    assert seen["queue:other"].closed


async def test_an_idle_reader_leaves_although_messages_are_held_if_another_one_lives(rig: Rig) -> None:
    queue = Queue()
    queue.held_by_others = 1
    await rig.frontier.open_intake(SOURCE, "elsewhere:1:1")
    async with rig.reads(rig.reader(queue, until_idle_seconds=0.05)):
        await rig.until_seen(lambda seen: seen.owners == ["elsewhere:1:1"])
        assert not (await rig.seen()).closed


@pytest.mark.parametrize("step", ["read", "open"])
async def test_a_command_that_only_reads_stops_when_it_is_asked_to(rig: Rig, step: str) -> None:
    queue, stop = Queue(), StopRequest()
    reader = IntakeReader(
        rig.frontier, queue, max_queued=10, until_idle_seconds=None, stop=stop, on_event=rig.events.append
    )
    async with reading_intakes([reader], stop) as tasks:
        if step == "open":
            queue.fails = {
                "read": [IntakeUnavailableError("unavailable")],
                "open": [IntakeUnavailableError("unavailable")] * 1000,
            }
            await rig.until(lambda: "intake.trouble" in rig.told())
        stop.stop()
        await asyncio.wait_for(asyncio.wait(tasks), 60)
    assert (await rig.seen()).is_abandoned


async def test_a_source_that_cannot_be_taken_over_yet_is_tried_again(rig: Rig) -> None:
    queue = Queue(b"https://a.example/1")
    queue.shared, queue.fails = False, {"open": [IntakeError("another process is reading this file")] * 3}  # type: ignore[misc]
    await rig.frontier.open_intake(SOURCE, "elsewhere:1:1")
    async with rig.reads(rig.reader(queue)):
        await rig.until(lambda: "intake.read_elsewhere" in rig.told())
        await rig.frontier.leave_intake(SOURCE, "elsewhere:1:1")
        await rig.until(lambda: queue.acked)
    assert "intake.trouble" in rig.told()


async def test_a_new_run_is_read_from_the_beginning(rig: Rig) -> None:
    queue = Queue(b"https://a.example/1", b"https://a.example/2")
    marks: list[bytes] = []
    opened = queue.open

    def open_at(mark: bytes) -> None:
        marks.append(mark)
        opened(mark)

    queue.open = open_at  # type: ignore[method-assign]
    async with rig.reads(rig.reader(queue)):
        await rig.until_seen(lambda seen: seen.read == 2)
        await rig.frontier.begin((await rig.frontier.job()).spec, fresh=True)
        # It is noticed when something is told.
        queue.put(b"https://a.example/3")
        await rig.until(lambda: len(marks) == 2)
        queue.put(b"https://a.example/4")
        await rig.until(lambda: len(queue.acked) == 4)
        seen = await rig.until_seen(lambda seen: seen.read)
    assert marks == [b"", b""]
    # The message by which the new run is noticed is told to the old one, unless that was noticed before.
    assert seen.read == seen.added
    assert seen.read in (1, 2)
    assert (await rig.frontier.counts()).queued == 2


async def test_an_option_that_is_found_to_be_wrong_late_keeps_no_job_from_finishing(rig: Rig) -> None:
    queue = Queue()
    queue.fails = {"open": [UsageError("not a certificate: typo.pem")]}  # type: ignore[dict-item]
    with pytest.raises(IntakeError, match="not a certificate"):
        await rig.reader(queue).open()
    assert (await rig.seen()).closed
    assert (await rig.frontier.state()).state is State.FINISHED


async def test_a_reader_in_trouble_for_long_counts_as_alive(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_reader, "AWAY_SECONDS", 60.0)
    monkeypatch.setattr(intake_record, "KEEP_SECONDS", 0.05)
    queue = Queue()
    queue.fails = {"read": [IntakeUnavailableError("unavailable")]}
    kept, tell_intake = asyncio.Event(), rig.frontier.tell_intake

    async def counted(*arguments: Any) -> bool:
        is_reader = await tell_intake(*arguments)
        kept.set()
        return is_reader

    monkeypatch.setattr(rig.frontier, "tell_intake", counted)
    async with rig.reads(rig.reader(queue)):
        await rig.until(lambda: "intake.trouble" in rig.told())
        for _ in range(3):
            rig.clock.advance(20)
            kept.clear()
            await kept.wait()
        assert not (await rig.seen()).is_abandoned
