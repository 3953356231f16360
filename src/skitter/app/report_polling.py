"""Reports of a running job: polled for a display, and turned into events where something has changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec

from skitter.errors import FrontierError
from skitter.frontier.contract import Frontier
from skitter.model.job import Report, State
from skitter.observe import events

REPORT_SECONDS = 0.5
OnReport = Callable[[Report], None]


class ReportDiff:
    """Emits an event when the state of the job changes, when its filter is nearly full, and when a sink stops the
    leasing or lets it go on."""

    def __init__(self, on_event: Callable[[events.Event], None]) -> None:
        self._on_event = on_event
        self._state: State | None = None
        self._blocking: set[str] = set()
        self._filter_told = False

    def update(self, report: Report) -> None:
        """Compare with the report before."""
        job = report.job
        if self._state not in (None, job.state):
            event = events.JOB_STATE(state=job.state, before=self._state, reason=job.reason)
            if job.state is State.FINISHED:
                # Whoever sits at the terminal reads it in the summary.
                event = msgspec.structs.replace(event, level=events.Level.INFO)
            self._on_event(event)
        self._state = job.state
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


@contextlib.asynccontextmanager
async def reporting(
    frontier: Frontier, on_report: OnReport, on_event: Callable[[events.Event], None]
) -> AsyncIterator[Callable[[Report], None]]:
    """While the body works, reports are polled and passed on; the body gets a function for the last one."""
    diff = ReportDiff(on_event)

    def pass_on(report: Report) -> None:
        diff.update(report)
        on_report(report)

    async def poll() -> None:
        while True:
            # If the store is in trouble, the workers will say so; a display is no reason to end a crawl.
            with contextlib.suppress(FrontierError):
                pass_on(await frontier.report())
            await asyncio.sleep(REPORT_SECONDS)

    task = asyncio.create_task(poll())
    try:
        yield pass_on
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
