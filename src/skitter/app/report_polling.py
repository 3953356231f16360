"""Reports of a running job, and the room that its store has: polled, and turned into events where something changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from skitter.app.close_limits import CloseLimits, PeriodicStats
from skitter.errors import FrontierError
from skitter.frontier.contract import DistantSource, Frontier
from skitter.model.job import FailedRequest, JobSpec, Report, State
from skitter.model.store_capacity import StoreCapacity
from skitter.model.worker import WaitsFor
from skitter.observe import events
from skitter.settings import settings_text

REPORT_SECONDS = 0.5
DISTANT_REPORT_SECONDS = 2.0
"""Of a frontier behind a network, which may serve many nodes."""
CAPACITY_SECONDS = 60.0
"""Between two looks at how much room the store has left."""
FAILURE_SECONDS = 2.0
"""Between two reads of the newest failures, if there are others than before."""
STANDSTILL_SECONDS = 60.0
"""Without a page that ends, while workers wait for a full outbox that no output is the reason of."""
NEWEST_FAILURES = 50
"""Requests that are read to find those that failed last: a store lists them in the order they were added."""
MAX_FAILURES = 5_000
"""Failures of a job beyond which they are not read any more: a store may have to count up to the newest."""
OnReport = Callable[[Report], None]


class Detail(NamedTuple):
    """What a display has room for."""

    hosts: int = 5
    failures: int = 0


@runtime_checkable
class DetailedView(Protocol):
    """Optional for whoever is given reports: more hosts in them, and the newest failures."""

    def __call__(self, report: Report) -> None: ...

    def detail(self) -> Detail:
        """Return what is wanted now."""
        ...

    def show_failures(self, failures: Sequence[FailedRequest]) -> None:
        """Take the requests that failed last, the newest first."""
        ...


class ReportDiff:
    """Emits an event when the state or a setting of the job changes, when its filter is nearly full, and when a sink
    stops the leasing or lets it go on."""

    def __init__(self, on_event: Callable[[events.Event], None]) -> None:
        self._on_event = on_event
        self._state: State | None = None
        self._spec: JobSpec | None = None
        self._blocking: set[str] = set()
        self._filter_told = False

    def update(self, report: Report) -> None:
        """Compare with the report before."""
        job = report.job
        if self._state not in (None, job.state):
            event = events.JOB_STATE(state=job.state, before=self._state, reason=job.reason)
            if job.state in (State.FINISHED, State.STOPPED):
                # Whoever sits at the terminal reads it in the summary.
                event = msgspec.structs.replace(event, level=events.Level.INFO)
            self._on_event(event)
        self._state = job.state
        if self._spec is not None and self._spec.settings != job.spec.settings:
            before, after = self._spec.settings, job.spec.settings
            changed = {name: value for name, value in after.items() if before.get(name) != value}
            self._on_event(events.JOB_SETTINGS_CHANGED(settings=settings_text(changed)))
        self._spec = job.spec
        if report.dedup is not None and report.dedup.is_nearly_full and not self._filter_told:
            self._filter_told = True
            self._on_event(events.JOB_FILTER_NEARLY_FULL(items=report.dedup.items, capacity=report.dedup.capacity))
        for sink in report.sinks:
            if sink.blocking and sink.target not in self._blocking:
                self._blocking.add(sink.target)
                told = {"target": sink.target, "undelivered": sink.undelivered, "owner": sink.owner}
                self._on_event(events.SINK_BLOCKING(**told))
            elif not sink.blocking and sink.target in self._blocking:
                self._blocking.discard(sink.target)
                self._on_event(events.SINK_CAUGHT_UP(target=sink.target, undelivered=sink.undelivered))


class Standstill:
    """Emits an event when workers have waited for a full outbox for a minute, and no output is to blame."""

    def __init__(self, on_event: Callable[[events.Event], None]) -> None:
        self._on_event = on_event
        self._ended = -1
        self._since = 0.0
        self._told = False

    def update(self, report: Report, now: float) -> None:
        """Compare with the report before; ``now``: seconds of any clock."""
        counts = report.counts
        ended = counts.done + counts.redirected + counts.failed + counts.excluded
        blamed = any(sink.blocking or sink.trouble for sink in report.sinks)
        waits = (worker.heartbeat.waits_for for worker in report.workers if worker.heartbeat is not None)
        if ended != self._ended or blamed or report.job.state is not State.RUNNING or WaitsFor.SINK not in waits:
            self._ended, self._since, self._told = ended, now, False
        elif not self._told and now - self._since >= STANDSTILL_SECONDS:
            self._told = True
            self._on_event(events.JOB_STANDSTILL(seconds=round(now - self._since), queued=counts.queued))


class NewestFailures:
    """Reads the newest failures for a view that wants some, now and then."""

    def __init__(self, frontier: Frontier, view: DetailedView) -> None:
        self._frontier = frontier
        self._view = view
        self._known = 0
        self._read_at = float("-inf")

    async def update(self, report: Report, wanted: int) -> None:
        """Read them if there are others than before."""
        failed, now = report.counts.failed, asyncio.get_running_loop().time()
        if not wanted or failed == self._known or failed > MAX_FAILURES or now - self._read_at < FAILURE_SECONDS:
            return
        self._known, self._read_at = failed, now
        found = await self._frontier.failures(limit=NEWEST_FAILURES, newest=True)
        self._view.show_failures(sorted(found, key=lambda one: one.ended_at, reverse=True)[:wanted])


class CapacityDiff:
    """Emits an event when a place that the job is stored on becomes nearly full; again only after there was room."""

    def __init__(self, on_event: Callable[[events.Event], None]) -> None:
        self._on_event = on_event
        self._told: set[str] = set()

    def update(self, capacities: Sequence[StoreCapacity]) -> None:
        """Compare with what was told before."""
        for one in capacities:
            if not one.is_nearly_full:
                self._told.discard(one.place)
            elif one.place not in self._told:
                self._told.add(one.place)
                told = {"place": one.place, "free_bytes": one.free_bytes, "total_bytes": one.total_bytes}
                self._on_event(events.FRONTIER_NEARLY_FULL(**told))


@contextlib.asynccontextmanager
async def reporting(
    frontier: Frontier,
    on_report: OnReport,
    on_event: Callable[[events.Event], None],
    *,
    stats_seconds: float | None = None,
) -> AsyncIterator[Callable[[Report], None]]:
    """While the body works, reports are polled and passed on; the body gets a function for the last one.

    ``stats_seconds``: how often the speed of the job is told; None: never.
    """
    diff, capacity = ReportDiff(on_event), CapacityDiff(on_event)
    standstill = Standstill(on_event)
    limits, stats = CloseLimits(frontier, on_event), PeriodicStats(stats_seconds, on_event)

    def pass_on(report: Report) -> None:
        diff.update(report)
        stats.update(report)
        on_report(report)

    pause = DISTANT_REPORT_SECONDS if isinstance(frontier, DistantSource) else REPORT_SECONDS

    view = on_report if isinstance(on_report, DetailedView) else None
    newest = NewestFailures(frontier, view) if view is not None else None

    async def poll() -> None:
        while True:
            detail = view.detail() if view is not None else Detail()
            # If the store is in trouble, the workers will say so; a display is no reason to end a crawl.
            with contextlib.suppress(FrontierError):
                report = await frontier.report(detail.hosts)
                pass_on(report)
                if newest is not None:
                    await newest.update(report, detail.failures)
                standstill.update(report, asyncio.get_running_loop().time())
                await limits.check(report)
            await asyncio.sleep(pause)

    async def poll_capacity() -> None:
        while True:
            with contextlib.suppress(FrontierError):
                capacity.update(await frontier.capacity())
            await asyncio.sleep(CAPACITY_SECONDS)

    tasks = [asyncio.create_task(poll()), asyncio.create_task(poll_capacity())]
    try:
        yield pass_on
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
