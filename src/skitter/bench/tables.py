"""Tables of ``skitter bench``: each kind of report for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.bench import crawl_bench, frontier_bench, profile
from skitter.bench.figures import Machine, Spread
from skitter.cli.terminal_text import figure, number, size, table


def as_text(report: crawl_bench.Report | frontier_bench.Report | profile.Report) -> list[str]:
    """Format a report as lines of text."""
    if isinstance(report, crawl_bench.Report):
        return _crawls(report)
    return _frontiers(report) if isinstance(report, frontier_bench.Report) else _profile(report)


def _crawls(report: crawl_bench.Report) -> list[str]:
    rows = [("", "pages/s", "CPU ms/page", "x bare", "memory")]
    rows += [
        (
            row.name,
            _ranged(row.pages_per_second, 0),
            _ranged(row.cpu_ms_per_page, 3),
            f"{row.cpu_to_bare_parts:.2f}",
            size(row.peak_bytes.median),
        )
        for row in report.rows
    ]
    return [
        report.site,
        f"{_rounds(report.rounds)}{', lowest and highest in brackets' if report.rounds > 1 else ''}",
        "",
        *table(rows, right=(1, 2, 3, 4)),
        "",
        "bare parts: pycurl, selectolax and can_ada in a loop: the upper limit.",
        "CPU: all processes of a crawl, with start-up. memory: peak of its worker.",
        *_caution(report.machine),
        "A web server on the same machine takes a part of the CPU time.",
    ]


def _frontiers(report: frontier_bench.Report) -> list[str]:
    heads = ("", "URLs", "hosts", "dup.", "add/s", "lease/s", "commit/s", "all/s", "us", "B/URL")
    rows: list[Sequence[str]] = [heads]
    for row in report.rows:
        rates = (row.adds_per_second, row.leases_per_second, row.commits_per_second, row.urls_per_second)
        rows.append(
            (
                row.frontier,
                figure(row.requests),
                figure(row.hosts),
                f"{row.duplicates} %",
                *(figure(round(rate.median)) for rate in rates),
                f"{row.microseconds_per_url.median:.1f}",
                "-" if row.bytes_per_url is None else f"{row.bytes_per_url:,.0f}",
            )
        )
    return [
        *table(rows, right=range(1, 10)),
        "",
        f"{_rounds(report.rounds)}{'; --json also has lowest and highest' if report.rounds > 1 else ''}",
        "add: URLs offered, with duplicates. all: as a worker does it, where one call",
        "commits 64 pages with their links and leases 64 more; us: time per URL.",
        "B/URL: bytes per new URL; on disk for sqlite, in memory for the others.",
        *_caution(report.machine),
    ]


def _profile(report: profile.Report) -> list[str]:
    rows = [("", "us/page", "%", "+-", "")]
    rows += [
        (row.part, f"{row.us_per_page:.1f}", f"{row.percent:.1f}", f"{row.plus_or_minus:.1f}", row.meaning)
        for row in report.rows
    ]
    rows.append(("together", f"{report.cpu_us_per_page:.1f}", "100.0", "", ""))
    return [
        report.site,
        f"frontier: {report.frontier}; {number(report.pages)} pages in all, {number(report.samples)} samples",
        "",
        *table(rows, right=(1, 2, 3)),
        "",
        "CPU time of one process that does all the work, without start-up.",
        "+-: standard error; more --pages or --rounds reduce it.",
        *_caution(report.machine),
    ]


def _ranged(figure: Spread, digits: int) -> str:
    """Format the median, with lowest and highest if there were several rounds."""
    low, middle, high = (f"{value:,.{digits}f}" for value in (figure.low, figure.median, figure.high))
    return middle if low == high else f"{middle} ({low}-{high})"


def _rounds(rounds: int) -> str:
    return "one round" if rounds == 1 else f"medians of {rounds} rounds"


def _caution(machine: Machine) -> list[str]:
    where = f"{machine.cores} cores, {machine.system}, Python {machine.python}"
    return [f"Figures of this machine: {where}."]
