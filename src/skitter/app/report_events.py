"""From reports to events: what has changed between two looks at a job."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from skitter.model.job import Report, State
from skitter.observe import events


class ReportDiff:
    """Says so once, when the state of the job changes and when a sink stops the leasing or lets it go on."""

    def __init__(self, on_event: Callable[[events.Event], None]) -> None:
        self._on_event = on_event
        self._state: State | None = None
        self._blocking: set[str] = set()

    def look(self, report: Report) -> None:
        """Take a report in."""
        job = report.job
        if self._state not in (None, job.state):
            event = events.JOB_STATE(state=job.state, before=self._state, reason=job.reason)
            if job.state is State.FINISHED:
                # Whoever sits at the terminal reads it in the summary.
                event = msgspec.structs.replace(event, level=events.Level.INFO)
            self._on_event(event)
        self._state = job.state
        for sink in report.sinks:
            if sink.blocking and sink.target not in self._blocking:
                self._blocking.add(sink.target)
                told = {"target": sink.target, "undelivered": sink.undelivered, "owner": sink.owner}
                self._on_event(events.SINK_BLOCKING(**told))
            elif not sink.blocking and sink.target in self._blocking:
                self._blocking.discard(sink.target)
                self._on_event(events.SINK_CAUGHT_UP(target=sink.target, undelivered=sink.undelivered))
