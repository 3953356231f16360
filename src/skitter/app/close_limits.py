"""Limits that stop a whole job: after so many items, errors or seconds. Each node looks at every report for them."""

from __future__ import annotations

import time
from collections.abc import Callable

from skitter.errors import SkitterError
from skitter.frontier.contract import Frontier
from skitter.model.job import Command, Report, State, StopReason
from skitter.observe import events


class CloseLimits:
    """Stops the job when a limit is reached; what is in flight ends, so there may be some more than that.

    The values are those of the report: they may change while the job runs.
    """

    def __init__(self, frontier: Frontier, on_event: Callable[[events.Event], None]) -> None:
        self._frontier = frontier
        self._on_event = on_event
        self._began = time.monotonic()
        self._stopped_run = 0

    async def check(self, report: Report) -> None:
        """Compare a report with the limits, and stop the job by the first that is reached."""
        job = report.job
        if job.state is not State.RUNNING or job.run == self._stopped_run:
            return
        for limit, reached in self._reached(report):
            allowed = job.spec.settings.get(limit.value)
            if allowed is None or reached < allowed:
                continue
            try:
                await self._frontier.command(Command.STOP, limit)
            except SkitterError:
                # The store is unavailable, or this node may not: the next report, or another node, will do.
                return
            self._stopped_run = job.run
            self._on_event(events.JOB_LIMIT(limit=limit.value, reached=round(reached), allowed=round(allowed)))
            return

    def _reached(self, report: Report) -> list[tuple[StopReason, float]]:
        # What a hook drops on purpose is no error.
        errors = report.counts.failed - report.errors.get("dropped", 0)
        return [
            (StopReason.CLOSE_AFTER_ITEMS, report.items),
            (StopReason.CLOSE_AFTER_ERRORS, errors),
            (StopReason.CLOSE_AFTER_SECONDS, time.monotonic() - self._began),
        ]


class PeriodicStats:
    """Emits an event every so many seconds: pages and items per minute, and what was counted."""

    def __init__(self, seconds: float | None, on_event: Callable[[events.Event], None]) -> None:
        self._seconds = seconds
        self._on_event = on_event
        self._before: tuple[float, int, int] | None = None

    def update(self, report: Report) -> None:
        """Take a report; it is told if it is time."""
        if self._seconds is None:
            return
        now, pages, items = time.monotonic(), report.counts.done, report.items
        if self._before is None:
            self._before = (now, pages, items)
        since, pages_before, items_before = self._before
        if now - since < self._seconds:
            return
        self._before = (now, pages, items)
        minutes = (now - since) / 60
        self._on_event(
            events.JOB_STATS(
                pages=pages,
                items=items,
                failed=report.counts.failed,
                pages_per_minute=round(max(0, pages - pages_before) / minutes),
                items_per_minute=round(max(0, items - items_before) / minutes),
                stats=report.stats,
            )
        )
