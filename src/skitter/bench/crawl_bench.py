"""The crawl bench: the bare parts, and skitter with one worker on each frontier, one after the other.

Each round runs all of them, so that a noisy minute of the machine is noisy for all. A crawl that did not bring every
page is an error and never a figure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from skitter.bench.bench_frontiers import Store, names_of, own_store
from skitter.bench.figures import Machine, Spread, rounded, spread, this_machine
from skitter.bench.measured_process import Measured, measured
from skitter.bench.sites import Site
from skitter.errors import SkitterError

BARE = "bare parts"
IN_FLIGHT = 64
OnStep = Callable[[str], None]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one kind of crawl in all rounds."""

    name: str
    pages: int
    """Pages of each round."""
    pages_per_second: Spread
    cpu_ms_per_page: Spread
    """CPU time of all its processes, including start-up."""
    cpu_to_bare_parts: float
    """Median CPU time as a multiple of that of the bare parts."""
    peak_bytes: Spread
    """Peak memory of its largest process, the worker."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the crawl bench."""

    machine: Machine
    site: str
    rounds: int
    rows: list[Row]


def measure(site: Site, addresses: Sequence[str], rounds: int, on_step: OnStep) -> Report:
    """Run all crawls in each round. ``on_step`` is called with the name of each step."""
    crawls: dict[str, Callable[[], Measured]] = {BARE: lambda: _bare(site)}
    for address, name in names_of(addresses).items():
        crawls[name] = partial(_crawl, site, address)
    runs: dict[str, list[Measured]] = {name: [] for name in crawls}
    for number in range(1, rounds + 1):
        for name, crawl in crawls.items():
            on_step(f"round {number} of {rounds}: {name}")
            run = crawl()
            runs[name].append(run)
            check_pages(site, name, run.answer, runs[BARE][0].answer)
    floor = spread(map(_cpu_ms, runs[BARE])).median
    rows = [_row(name, found, floor) for name, found in runs.items()]
    return Report(machine=this_machine(), site=site.description, rounds=rounds, rows=rows)


def _bare(site: Site) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        return measured(["skitter.bench.bare_parts", site.url, str(site.pages)], folder=Path(folder))


def _crawl(site: Site, address: str) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with own_store(address, folder) as store:
            return measured(["skitter", *_command(site, store)], folder=folder)


def _command(site: Site, store: Store) -> list[str]:
    return [
        *("crawl", site.url, "-o", "out.jsonl", "--json", "-q"),
        *("--frontier", store.address, "--job", store.job),
        *("--concurrency", str(IN_FLIGHT), "--per-host", str(IN_FLIGHT), "--delay", "0"),
        *(() if site.is_own else ("--max-pages", str(site.pages))),
    ]


def _row(name: str, found: Sequence[Measured], floor: float) -> Row:
    cpu = spread(map(_cpu_ms, found))
    return Row(
        name=name,
        pages=found[0].answer["pages"],
        pages_per_second=spread(run.answer["pages_per_second"] for run in found),
        cpu_ms_per_page=cpu,
        cpu_to_bare_parts=rounded(cpu.median / floor),
        peak_bytes=spread(run.peak_bytes for run in found),
    )


def _cpu_ms(run: Measured) -> float:
    """Return the CPU milliseconds of a page."""
    pages: int = run.answer["pages"]
    return run.cpu_seconds * 1000 / pages


def check_pages(site: Site, name: str, answer: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    """Check that a crawl has fetched every page: all there are, or as many as the first crawl of an uncounted site.

    Links that lead nowhere are not the crawl's fault there.
    """
    wanted = site.pages if site.is_own else first["pages"]
    pages, failed = answer["pages"], answer.get("failed", 0) if site.is_own else 0
    if pages != wanted or failed or not pages:
        knows = "" if site.is_own else "; the bare parts support neither redirects nor robots.txt"
        raise SkitterError(
            f"a crawl did not fetch every page: {name}: {pages:,} of {wanted:,}",
            hint=f"no result is shown for it{knows}",
        )
