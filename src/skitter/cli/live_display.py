"""The live display: a few lines at the bottom of the terminal, redrawn with each report.

``frame`` is the layout, for any width and height; ``LiveDisplay`` draws it on the terminal.
Events and what workers print scroll by above it, and when the crawl ends it is taken away: the summary follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from skitter.cli.job_ref import live_workers
from skitter.cli.printed_lines import PrintedLines
from skitter.cli.progress import STDERR
from skitter.cli.terminal_text import by_class, clean, clean_block, clock, count, duration, figure, rate, shorten, size
from skitter.cli.throughput import ASCII_BLOCKS, BLOCKS, Throughput
from skitter.model.job import HostSeen, Report, State

REDRAW_SECONDS = 0.25
SIDE_BY_SIDE_COLUMNS = 130
"""The width from which the hosts are beside the counts instead of below them."""
LABEL, VALUE, GAP = 10, 8, 2
"""Columns of a cell: four of them fit a terminal of 80."""
CELL = LABEL + VALUE + GAP
LEFT_COLUMNS = 4 * CELL
_STATE_STYLES = {
    State.RUNNING: "bold green",
    State.PAUSED: "bold yellow",
    State.DRAINING: "bold yellow",
    State.STOPPED: "bold red",
    State.FINISHED: "bold cyan",
}


class LiveDisplay:
    """A display that is drawn at most four times a second, and restores the terminal."""

    def __init__(self, console: Console | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._now = now
        self._throughput = Throughput()
        self._report: Report | None = None
        self._drawn_at = float("-inf")
        # No thread of its own: it is drawn from the loop that also brings the reports.
        self._live = Live(self, console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self.print_fd = STDERR
        self._printed: PrintedLines | None = None

    def __enter__(self) -> Self:
        self._live.start()
        # Printed to the terminal itself, a line would begin in the middle of the display.
        self._printed = PrintedLines(self.event)
        self.print_fd = self._printed.fd
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._printed is not None:
            self._printed.close()
        with suppress(OSError):
            self._live.stop()

    def report(self, report: Report) -> None:
        now = self._now()
        self._throughput.sample(now, report.counts.done)
        self._report = report
        if now - self._drawn_at >= REDRAW_SECONDS:
            self._drawn_at = now
            with suppress(OSError):  # a terminal that was closed
                self._live.refresh()

    def event(self, text: str) -> None:
        with suppress(OSError):
            self._console.print(Text(clean_block(text)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._report is None:
            yield Text("starting")
            return
        blocks = BLOCKS if (options.encoding or "").lower().startswith("utf") else ASCII_BLOCKS
        elapsed = time.time() - self._report.job.started_at
        # The last column and the last line stay free: some terminals scroll when they are filled.
        lines = frame(self._report, self._throughput, elapsed, options.max_width - 1, console.height - 1, blocks)
        yield Text("\n").join(lines)


def frame(
    report: Report, throughput: Throughput, elapsed_seconds: float, width: int, height: int, blocks: str = BLOCKS
) -> list[Text]:
    """Return the lines of the display, the most important first, cut to ``height``."""
    lines = [_headline(report, elapsed_seconds), _speed(throughput, width, blocks)]
    if width >= SIDE_BY_SIDE_COLUMNS:
        lines += _beside(_figures(report, LEFT_COLUMNS), _hosts(report.hosts, width - LEFT_COLUMNS - 3))
    else:
        lines += [*_figures(report, width), *_hosts(report.hosts, width)]
    for line in lines:
        line.no_wrap, line.overflow = True, "crop"
        line.truncate(max(1, width))
    return lines[: max(1, height)]


def _headline(report: Report, elapsed_seconds: float) -> Text:
    job = report.job
    line = Text.assemble((clean(job.spec.name), "bold"), "  ", (str(job.state), _STATE_STYLES[job.state]))
    # First, because it needs action, and a narrow terminal cuts the end of the line.
    if blocking := [sink.target for sink in report.sinks if sink.blocking]:
        line.append(f", blocked by sink {clean(', '.join(blocking))}", "bold red")
    line.append(f"  {clock(elapsed_seconds)}  {count(live_workers(report), 'worker')}")
    if job.run > 1:
        line.append(f"  run {job.run}")
    if job.seeding:
        line.append("  seeding")
    return line


def _speed(throughput: Throughput, width: int, blocks: str) -> Text:
    line = Text.assemble(_label("pages/s"), (rate(throughput.pages_per_second).rjust(VALUE), "bold"), "  ")
    return line.append(throughput.spark(width - len(line.plain), blocks), "cyan")


def _figures(report: Report, width: int) -> list[Text]:
    counts, tally = report.counts, report.tally
    cells = [
        _cell("done", figure(counts.done), "bold"),
        _cell("queued", figure(counts.queued)),
        _cell("in flight", figure(counts.leased)),
        _cell("delayed", figure(counts.delayed)),
        _cell("failed", figure(counts.dead), "bold red" if counts.dead else ""),
        _cell("excluded", figure(counts.excluded)),
        _cell("redirects", figure(counts.redirected)),
        _cell("known", figure(tally.get("duplicates", 0))),
        _cell("items", figure(report.items)),
        _cell("unwritten", figure(report.undelivered)),
        _cell("fetched", size(tally.get("bytes", 0))),
    ]
    per_line = max(1, (width + GAP) // CELL)
    lines = [Text().join(cells[start : start + per_line]) for start in range(0, len(cells), per_line)]
    errors = by_class(report.errors)
    if errors:
        words = "  ".join(f"{clean(name)} {figure(n)}" for name, n in errors)
        lines.append(Text.assemble(_label("errors"), (words, "red")))
    return lines


def _cell(label: str, value: str, style: str = "") -> Text:
    return Text.assemble(_label(label), (value.rjust(VALUE), style), " " * GAP)


def _label(text: str) -> tuple[str, str]:
    return text.ljust(LABEL), "dim"


def _hosts(hosts: Sequence[HostSeen], width: int) -> list[Text]:
    """Return a table of the slowest and most failing hosts."""
    if not hosts:
        return []
    # Four figures, and the class of the last error.
    name_width = max(12, min(width - 36 - 11, max(len(host.key) for host in hosts)))
    head = f"{'slow hosts':<{name_width}}{'latency':>9}{'in flight':>11}{'queued':>8}{'waits':>8}"
    lines = [Text(head, "dim")]
    for host in hosts:
        waits = duration(host.due_seconds) if host.due_seconds >= 0.0005 else "-"
        line = Text(
            f"{shorten(clean(host.key), name_width):<{name_width}}{duration(host.latency_seconds):>9}"
            f"{figure(host.in_flight):>11}{figure(host.queued):>8}{waits:>8}"
        )
        if host.error_class:
            line.append(f"  {clean(host.error_class)}", "red")
        lines.append(line)
    return lines


def _beside(left: Sequence[Text], right: Sequence[Text]) -> list[Text]:
    """Join two blocks of lines side by side."""
    lines = []
    for job_ref in range(max(len(left), len(right))):
        line = left[job_ref].copy() if job_ref < len(left) else Text()
        line.truncate(LEFT_COLUMNS, overflow="ellipsis", pad=True)
        if job_ref < len(right):
            line.append("   ").append_text(right[job_ref])
        lines.append(line)
    return lines
