"""Progress output of a running crawl: none, a plain line every ten seconds, or the live display."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from skitter.cli.terminal_text import clean, clean_block, clock, number, rate, size
from skitter.cli.throughput import Throughput

if TYPE_CHECKING:
    from skitter.app.report_polling import OnReport
    from skitter.model.job import Report

STDERR = 2
LINE_SECONDS = 10.0


class Progress(Protocol):
    """A context manager that shows reports and events while a crawl runs."""

    print_fd: int
    """File descriptor that worker processes print to, from ``__enter__`` on."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def report(self, report: Report) -> None: ...

    def event(self, text: str) -> None: ...

    @property
    def view(self) -> OnReport:
        """What a node gives its reports to: ``report``, or an object that also tells what it has room for."""
        ...


def choose_progress(*, quiet: bool, prints_items: bool) -> Progress:
    """Choose the progress output. Items on the same terminal would break a live display."""
    if quiet:
        return Silent()
    items_in_view = prints_items and sys.stdout.isatty()
    if sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "") and not items_in_view:
        from skitter.cli.live_display import LiveDisplay

        return LiveDisplay()
    return PlainLines()


class Silent:
    """No progress output, for -q."""

    print_fd = STDERR

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def report(self, report: Report) -> None:
        pass

    def event(self, text: str) -> None:
        pass

    @property
    def view(self) -> OnReport:
        return self.report


class TimedReports(Silent):
    """A progress output that shows a report every ten seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._throughput = Throughput()
        self._shown_at = now()

    def report(self, report: Report) -> None:
        now = self._now()
        self._throughput.sample(now, report.counts.done)
        if now - self._shown_at >= LINE_SECONDS:
            self._shown_at = now
            self.show(report, self._throughput.pages_per_second)

    def show(self, report: Report, pages_per_second: float) -> None:
        raise NotImplementedError


class PlainLines(TimedReports):
    """Plain progress lines, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._stream = stream or sys.stderr

    def show(self, report: Report, pages_per_second: float) -> None:
        self._print(plain_line(report, pages_per_second, time.time() - report.job.started_at))

    def event(self, text: str) -> None:
        self._print(clean_block(text))

    def _print(self, line: str) -> None:
        # A closed pipe (2>&1 | head) must not end a crawl.
        with suppress(OSError):
            print(line, file=self._stream, flush=True)


def plain_line(report: Report, pages_per_second: float, elapsed_seconds: float) -> str:
    """Format the progress of the crawl as one line."""
    counts, tally = report.counts, report.tally
    parts = [
        f"{clock(elapsed_seconds)} {report.job.state}: {number(counts.done)} pages",
        f"{rate(pages_per_second)} pages/s",
        f"{number(counts.queued + counts.delayed)} queued",
        f"{number(counts.leased)} in flight",
        f"{number(counts.failed)} failed",
        f"{number(counts.excluded)} excluded",
        f"{number(tally.get('items', 0))} items",
        size(tally.get("bytes", 0)),
    ]
    if unchanged := tally.get("unchanged"):
        parts.insert(1, f"{number(unchanged)} unchanged")
    if blocking := [sink.target for sink in report.sinks if sink.blocking]:
        parts.append(f"blocked by output: {clean(', '.join(blocking))}")
    return ", ".join(parts)
