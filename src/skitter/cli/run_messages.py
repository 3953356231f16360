"""Output of ``crawl`` and ``worker`` on standard error besides events, in text or JSON.

With ``--log-format json`` and no log file, standard error is for a program: the job, warnings, progress, summary, hints
and errors are event lines there like any other.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from skitter.cli import output
from skitter.cli.event_log import is_json_on_stderr
from skitter.cli.printed_lines import PrintedLines
from skitter.cli.progress import Progress, Silent, TimedReports, choose_progress
from skitter.observe import events
from skitter.observe.log_lines import json_line

if TYPE_CHECKING:
    from skitter.model.job import Report
    from skitter.settings import Logging


class RunOutput:
    """A printer of the notes, warnings, errors and summary of one command."""

    def __init__(self, settings: Logging, *, job: str, quiet: bool) -> None:
        self._job = job
        self._quiet = quiet
        self.is_json = is_json_on_stderr(settings)

    def note(self, text: str) -> None:
        """Print a note, unless quiet."""
        if self._quiet:
            return
        if self.is_json:
            self._write(events.COMMAND_NOTE(text=text))
        else:
            output.note(text)

    def warn(self, text: str) -> None:
        if self._quiet:
            return
        if self.is_json:
            self._write(events.COMMAND_WARNING(text=text))
        else:
            output.warn(text)

    def error(self, message: str, hint: str, exit_code: int) -> None:
        """Print an error, also when quiet."""
        if self.is_json:
            self._write(events.COMMAND_FAILED(error=message, hint=hint, exit_code=exit_code))
        else:
            output.error(message, hint)

    def summary(self, lines: Sequence[str], fields: dict[str, Any]) -> None:
        if self._quiet:
            return
        if self.is_json:
            text = "; ".join(line.strip() for line in lines)
            self._write(events.JOB_SUMMARY(text=text, summary=fields))
        else:
            for line in lines:
                output.note(line)

    def progress(self, *, prints_items: bool) -> Progress:
        """Return the progress output: lines of JSON, lines of text, or the live display."""
        if self.is_json:
            return Silent() if self._quiet else JsonProgress(self._write)
        return choose_progress(quiet=self._quiet, prints_items=prints_items)

    @contextmanager
    def errors_in_form(self, arguments: Sequence[str]) -> Iterator[None]:
        """Print an error that ends the command as JSON; in text mode ``cli.main`` prints it."""
        try:
            yield
        except Exception as error:
            if not self.is_json:
                raise
            from skitter.cli import described

            message, hint, code = described(error, arguments)
            self.error(message, hint, code)
            raise SystemExit(code) from error

    def _write(self, event: events.Event) -> None:
        # A closed pipe must not end a crawl.
        with suppress(OSError):
            print(json_line(event, self._job), file=sys.stderr, flush=True)


class JsonProgress(TimedReports):
    """Progress as one JSON event every ten seconds; what worker processes print are events too."""

    def __init__(self, write: Callable[[events.Event], None]) -> None:
        super().__init__()
        self._write = write
        self._printed: PrintedLines | None = None

    def __enter__(self) -> Self:
        self._printed = PrintedLines(self._write_printed)
        self.print_fd = self._printed.fd
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._printed is not None:
            self._printed.close()

    def _write_printed(self, text: str) -> None:
        for line in text.split("\n"):
            self._write(events.log_line(line, "print", events.Level.INFO))

    def show(self, report: Report, pages_per_second: float) -> None:
        counts = report.counts
        self._write(
            events.JOB_PROGRESS(
                state=report.job.state,
                seconds=round(time.time() - report.job.started_at, 1),
                pages=counts.done,
                unchanged=report.tally.get("unchanged", 0),
                pages_per_second=round(pages_per_second, 1),
                queued=counts.queued + counts.delayed,
                in_flight=counts.leased,
                failed=counts.failed,
                excluded=counts.excluded,
                items=report.items,
                bytes=report.tally.get("bytes", 0),
                blocked_by=[sink.target for sink in report.sinks if sink.blocking],
            )
        )
