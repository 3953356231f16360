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

from skitter.app.report_polling import Detail
from skitter.cli.job_ref import live_workers
from skitter.cli.printed_lines import PrintedLines
from skitter.cli.progress import STDERR
from skitter.cli.terminal_text import (
    by_class,
    clean,
    clean_block,
    clock,
    count,
    duration,
    figure,
    first_line,
    rate,
    shorten,
    size,
)
from skitter.cli.throughput import ASCII_BLOCKS, BLOCKS, Throughput
from skitter.model.job import FailedRequest, HostSeen, Report, State
from skitter.policy.politeness import PUBLIC_PACE, is_public

REDRAW_SECONDS = 0.25
SIDE_BY_SIDE_COLUMNS = 130
"""The width from which the hosts are beside the counts instead of below them."""
LABEL, VALUE, GAP = 10, 8, 2
"""Columns of a cell: four of them fit a terminal of 80."""
CELL = LABEL + VALUE + GAP
LEFT_COLUMNS = 4 * CELL
STATE, PAGES, BAR_COLUMNS = 13, 8, 40
LARGE_LINES = 30
"""The height from which there is room for more hosts, and for failures."""
FEW_HOSTS, MANY_HOSTS, MANY_FAILURES = 5, 16, 10
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
        self._failures: Sequence[FailedRequest] = ()
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

    def __call__(self, report: Report) -> None:
        self.report(report)

    @property
    def view(self) -> LiveDisplay:
        return self

    def detail(self) -> Detail:
        """Return how many hosts and failures there is room for."""
        return detail_for(self._console.height)

    def show_failures(self, failures: Sequence[FailedRequest]) -> None:
        """Take the newest failures, for the next drawing."""
        self._failures = failures

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
        lines = frame(
            self._report,
            self._throughput,
            elapsed,
            options.max_width - 1,
            console.height - 1,
            blocks,
            self._failures,
        )
        yield Text("\n").join(lines)


def detail_for(height: int) -> Detail:
    """Return what a terminal of so many lines shows: below it there is room for what scrolls by."""
    return Detail(hosts=MANY_HOSTS, failures=MANY_FAILURES) if height >= LARGE_LINES else Detail(hosts=FEW_HOSTS)


def frame(
    report: Report,
    throughput: Throughput,
    elapsed_seconds: float,
    width: int,
    height: int,
    blocks: str = BLOCKS,
    failures: Sequence[FailedRequest] = (),
) -> list[Text]:
    """Return the lines of the display, the most important first, cut to ``height``."""
    lines = [_headline(report, elapsed_seconds), _speed(throughput, width, blocks)]
    lines += _progress(report, throughput.pages_per_second, width, blocks)
    own = (report.job.spec.settings.get(name) for name in ("delay_seconds", "per_host", "target_concurrency"))
    if all(value is None for value in own) and any(is_public(host.key) for host in report.hosts):
        lines.append(Text.assemble(_label("pace"), PUBLIC_PACE))
    is_large = height + 1 >= LARGE_LINES
    hosts = report.hosts[: MANY_HOSTS if is_large else FEW_HOSTS]
    newest = failures[:MANY_FAILURES] if is_large else ()
    if width >= SIDE_BY_SIDE_COLUMNS:
        left = [*_figures(report, LEFT_COLUMNS), *_failures(newest, LEFT_COLUMNS)]
        lines += _beside(left, _hosts(hosts, width - LEFT_COLUMNS - 3))
    else:
        lines += [*_figures(report, width), *_hosts(hosts, width), *_failures(newest, width)]
    for line in lines:
        line.no_wrap, line.overflow = True, "crop"
        line.truncate(max(1, width))
    return lines[: max(1, height)]


def _headline(report: Report, elapsed_seconds: float) -> Text:
    job = report.job
    line = Text.assemble((clean(job.spec.name), "bold"), "  ", (str(job.state), _STATE_STYLES[job.state]))
    # First, because it needs action, and a narrow terminal cuts the end of the line.
    if blocking := [sink.target for sink in report.sinks if sink.blocking]:
        line.append(f", blocked by output {clean(', '.join(blocking))}", "bold red")
    line.append(f"  {clock(elapsed_seconds)}  {count(live_workers(report), 'worker')}")
    if job.run > 1:
        line.append(f"  run {job.run}")
    if job.seeding:
        line.append("  seeding")
    return line


def _speed(throughput: Throughput, width: int, blocks: str) -> Text:
    line = Text.assemble(_label("pages/s"), (rate(throughput.pages_per_second).rjust(VALUE), "bold"), "  ")
    return line.append(throughput.spark(width - len(line.plain), blocks), "cyan")


def _progress(report: Report, pages_per_second: float, width: int, blocks: str) -> list[Text]:
    """Return a line on what is done of ``max_pages``, or on what is known, and how long the rest may take."""
    counts, limit = report.counts, report.job.spec.settings.get("max_pages")
    rest = limit - counts.done if limit else counts.unfinished
    if rest <= 0 or report.job.state is not State.RUNNING:
        return []
    left = f", about {clock(rest / pages_per_second)} left" if pages_per_second > 0 else ""
    if not limit:
        return [Text.assemble(_label("to do"), f"{figure(rest)} pages found so far{left}, plus new links")]
    bar = max(0, min(BAR_COLUMNS, width - 60))
    full = round(bar * counts.done / limit)
    words = f"{counts.done / limit:>{VALUE}.0%} of {figure(limit)} pages{left}"
    return [
        Text.assemble(_label("progress"), words, "  ", (blocks[-1] * full, "cyan"), (blocks[0] * (bar - full), "dim"))
    ]


def _failures(failures: Sequence[FailedRequest], width: int) -> list[Text]:
    """Return a table of the requests that failed last."""
    if not failures:
        return []
    lines = [Text(), Text("latest failures", "dim")]
    kind_width = max(len(one.error_class) for one in failures)
    for one in failures:
        reason = first_line(one.error)
        room = max(12, width - kind_width - 2)
        # The reason says less than the URL, and has what the URL leaves of a half.
        url_width = max(room // 2, room - len(reason) - 2)
        line = Text.assemble((clean(one.error_class).ljust(kind_width), "red"), "  ")
        line.append(shorten(clean(one.url), url_width)).append(f"  {reason}", "dim")
        lines.append(line)
    return lines


def _figures(report: Report, width: int) -> list[Text]:
    counts, tally = report.counts, report.tally
    cells = [
        _cell("done", figure(counts.done), "bold"),
        _cell("queued", figure(counts.queued)),
        _cell("in flight", figure(counts.leased)),
        _cell("delayed", figure(counts.delayed)),
        _cell("failed", figure(counts.failed), "bold red" if counts.failed else ""),
        _cell("excluded", figure(counts.excluded)),
        _cell("redirects", figure(counts.redirected)),
        _cell("duplicates", figure(tally.get("duplicates", 0))),
        _cell("items", figure(report.items)),
        _cell("undelivered", figure(report.undelivered)),
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
    # Four figures, and its state.
    name_width = max(12, min(width - 36 - STATE, max(len(host.key) for host in hosts)))
    head = f"{'slow hosts':<{name_width}}{'latency':>9}{'in flight':>11}{'queued':>8}{'waits':>8}"
    has_room = width >= name_width + 36 + STATE + PAGES
    lines = [Text((f"{head}{'pages':>{PAGES}}" if has_room else head) + "  state", "dim")]
    for host in hosts:
        waits = duration(host.due_seconds) if host.due_seconds >= 0.0005 else "-"
        line = Text(
            f"{shorten(clean(host.key), name_width):<{name_width}}{duration(host.latency_seconds):>9}"
            f"{figure(host.in_flight):>11}{figure(host.queued):>8}{waits:>8}"
        )
        if has_room:
            line.append(f"{figure(host.pages):>{PAGES}}")
        lines.append(line.append("  ").append(*_state(host)))
    return lines


def _state(host: HostSeen) -> tuple[str, str]:
    """Return what a host is at, and its style."""
    if host.paused or host.given_up:
        return "paused" if host.paused else "given up", "yellow"
    if host.stopped_by:
        return f"stopped ({host.stopped_by})", "yellow"
    if host.error_class:
        return clean(host.error_class) + (f", {host.strikes} in a row" if host.strikes > 1 else ""), "red"
    if host.address_full:
        return "address full", "yellow"
    if host.in_flight:
        return "fetching", "green"
    return ("waits" if host.due_seconds >= 0.0005 else "ready", "dim") if host.queued else ("idle", "dim")


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
