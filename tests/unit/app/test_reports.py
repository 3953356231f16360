"""From reports to events: each change is told once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.app import report_polling
from skitter.app.report_polling import CapacityDiff, Detail, NewestFailures, ReportDiff, Standstill, reporting
from skitter.model.job import Counts, FailedRequest, Job, JobSpec, Report, SinkSeen, State
from skitter.model.store_capacity import ROOM_BYTES, StoreCapacity
from skitter.model.worker import WorkerHeartbeat, WorkerSeen
from skitter.observe.events import Event, Level


def report(state: State = State.RUNNING, *, blocking: bool = False, **fields: Any) -> Report:
    spec = JobSpec(name="j", spider="")
    job = Job(spec=spec, state=state, run=1, secret=b"", seeding=False, started_at=0.0, **fields)
    sink = SinkSeen(target="out.jsonl", undelivered=7, owner="", blocking=blocking)
    return Report(job=job, counts=Counts(), tally={}, errors={}, undelivered=7, sinks=[sink], workers=[], hosts=[])


def told(*reports: Report) -> list[Event]:
    events: list[Event] = []
    watching = ReportDiff(events.append)
    for one in reports:
        watching.update(one)
    return events


def test_the_first_report_is_no_change() -> None:
    assert told(report(State.PAUSED)) == []


def test_a_change_of_state_is_told_once() -> None:
    (event,) = told(report(), report(State.DRAINING, reason="command"), report(State.DRAINING, reason="command"))
    assert event.kind.name == "job.state"
    assert event.fields == {"state": "draining", "before": "running", "reason": "command"}
    assert event.level is Level.NOTICE


def test_the_end_is_for_the_log_because_the_summary_tells_it_at_the_terminal() -> None:
    for state in (State.FINISHED, State.STOPPED):
        (event,) = told(report(), report(state))
        assert event.level is Level.INFO
        assert event.text == f"the job is {state}"


def test_changed_settings_are_told_once() -> None:
    def with_delay(seconds: float) -> Report:
        one = report()
        spec = JobSpec(name="j", spider="", settings={"delay_seconds": seconds, "max_pages": None, "per_host": 8})
        return msgspec.structs.replace(one, job=msgspec.structs.replace(one.job, spec=spec))

    (event,) = told(with_delay(0.5), with_delay(2.0), with_delay(2.0))
    assert (event.kind.name, event.fields) == ("job.settings_changed", {"settings": "delay_seconds=2"})


def test_a_sink_that_blocks_and_goes_on_is_told_once_each() -> None:
    events = told(report(), *[report(blocking=True)] * 3, *[report()] * 3, report(blocking=True))
    assert [event.kind.name for event in events] == ["sink.blocking", "sink.caught_up", "sink.blocking"]
    assert msgspec.to_builtins(events[0].fields) == {"target": "out.jsonl", "undelivered": 7, "owner": ""}


def test_workers_that_wait_for_a_full_outbox_that_no_output_fills_are_told_once() -> None:
    def standing(waits_for: str = "sink", *, done: int = 9, **fields: Any) -> Report:
        seen = WorkerSeen(id="w", silent_seconds=0.0, leased=0, heartbeat=WorkerHeartbeat(waits_for=waits_for))
        return msgspec.structs.replace(report(**fields), counts=Counts(done=done, queued=5), workers=[seen])

    def told(*reports: Report) -> list[str]:
        events: list[Event] = []
        watching = Standstill(events.append)
        for minute, one in enumerate(reports):
            watching.update(one, 60.0 * minute)
        return [event.text.partition(":")[0] for event in events]

    assert told(*[standing()] * 4) == ["no page has ended for 60 s"]
    assert told(standing(), standing(done=10), standing(done=11)) == []
    assert told(*[standing("host delay")] * 3) == []
    assert told(*[standing(blocking=True)] * 3) == []
    assert told(*[standing(state=State.PAUSED)] * 3) == []


def room(free_bytes: int, total_bytes: int = 1000, *, is_disk: bool = False) -> StoreCapacity:
    return StoreCapacity(place="there", total_bytes=total_bytes, free_bytes=free_bytes, is_disk=is_disk)


def test_a_store_that_is_nearly_full_is_told_once_until_there_is_room_again() -> None:
    events: list[Event] = []
    watching = CapacityDiff(events.append)
    for free_bytes in (500, 99, 50, 99, 101, 99):
        watching.update([room(free_bytes)])
    assert [event.kind.name for event in events] == ["frontier.nearly_full"] * 2
    assert events[0].fields == {"place": "there", "free_bytes": 99, "total_bytes": 1000}
    assert events[0].level is Level.WARNING


def test_a_large_disk_is_not_nearly_full_while_gigabytes_are_left() -> None:
    disk = 100 * ROOM_BYTES
    assert not room(ROOM_BYTES, disk, is_disk=True).is_nearly_full
    assert room(ROOM_BYTES - 1, disk, is_disk=True).is_nearly_full
    assert room(ROOM_BYTES, disk).is_nearly_full, "of the memory of a server the share counts"


class Lister:
    """A frontier whose requests fail one after the other; what has the lowest number was added first."""

    def __init__(self) -> None:
        self.failed = 0
        self.asked: list[tuple[int, bool]] = []
        self.hosts: list[int] = []

    async def report(self, hosts: int = 5) -> Report:
        self.hosts.append(hosts)
        return msgspec.structs.replace(report(), counts=Counts(failed=self.failed))

    async def capacity(self) -> list[StoreCapacity]:
        return []

    async def failures(
        self, error_class: str = "", limit: int = 1000, after: int = 0, *, newest: bool = False
    ) -> list[FailedRequest]:
        self.asked.append((limit, newest))
        numbers = range(self.failed)[::-1][after : after + limit]
        rest = {"error_class": "dns", "error": "", "status": 0, "attempts": 1, "losses": 0, "referrer": None}
        return [FailedRequest(id=n, url="", ended_at=float(-n if n % 2 else n), **rest) for n in numbers]


class View:
    def __init__(self) -> None:
        self.shown: list[list[int]] = []
        self.reports = asyncio.Event()

    def __call__(self, _report: Report) -> None:
        self.reports.set()

    def detail(self) -> Detail:
        return Detail(hosts=16, failures=3)

    def show_failures(self, failures: Sequence[FailedRequest]) -> None:
        self.shown.append([one.id for one in failures])


async def test_the_newest_failures_are_read_when_there_are_others_and_not_for_ever() -> None:
    frontier, view = Lister(), View()
    newest = NewestFailures(frontier, view)  # type: ignore[arg-type]
    for failed in (0, 9, 9, 120, report_polling.MAX_FAILURES + 1):
        frontier.failed = failed
        newest._read_at = float("-inf")
        await newest.update(await frontier.report(), 3)
    assert frontier.asked == [(50, True), (50, True)]
    assert view.shown == [[8, 6, 4], [118, 116, 114]]
    newest._known = 0
    await newest.update(await frontier.report(), 0)
    assert len(frontier.asked) == 2, "nobody wants them"


async def test_a_view_says_how_many_hosts_it_has_room_for() -> None:
    frontier, view = Lister(), View()
    async with reporting(frontier, view, lambda _: None):  # type: ignore[arg-type]
        await view.reports.wait()
    assert frontier.hosts == [16]
    view.reports.clear()
    async with reporting(frontier, view.__call__, lambda _: None):  # type: ignore[arg-type]
        await view.reports.wait()
    assert frontier.hosts[1] == 5
