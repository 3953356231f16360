"""Instructions per page, counted by valgrind: a figure that a busy machine does not change.

    python bench/instructions.py [--frontier sqlite:] [--calls] PYTHON [PYTHON ...]

Each interpreter brings the skitter that is installed for it, so two checkouts with an environment each are compared in
one run. The same synthetic site is crawled with few and with many pages; the difference, divided by the pages between
them, leaves the start out. Repeated counts of the same code differ by about half a percent in memory, and by up to a
tenth with SQLite: how many pages a transaction takes depends on how long the one before it took.

With --calls, the calls of a SQLite frontier alone are counted, 64 pages each, as ``skitter.bench.frontier_load`` makes
them: the same code gives the same figure within a few parts in a thousand.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from skitter.bench.sites import LINKS, PAGE_BYTES
from skitter.testing.web import WebSpec, served

FEW, MANY = 400, 1400
FEW_CALLS, MANY_CALLS = 500, 2500
CALLS = """
import asyncio, sys
from pathlib import Path
from skitter.bench.frontier_load import Load
from skitter.frontier.sqlite import sqlite_frontier

async def main():
    frontier = sqlite_frontier(Path("calls.db"), "calls")
    load = Load(frontier, 1, duplicates=50)
    await load.begin("calls")
    await load.fill(2000)
    await load.cycle(int(sys.argv[1]))
    await frontier.close()

asyncio.run(main())
"""
VALGRIND = "valgrind --tool=cachegrind --cache-sim=no --trace-children=yes --cachegrind-out-file=/dev/null".split()
_REFS = re.compile(rb"I\s+refs:\s+([\d,]+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--frontier", default="memory:", help="memory: (default) or sqlite:")
    parser.add_argument("--calls", action="store_true", help="of the calls of a SQLite frontier alone")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    if options.calls:
        _print_ratios(options, _count_calls, (FEW_CALLS, MANY_CALLS))
        return 0
    spec = WebSpec.plain(hosts=1, pages_per_host=MANY + 100, links_per_page=LINKS, page_bytes=PAGE_BYTES)
    with served(spec) as web:
        _print_ratios(options, lambda python, pages: _count(python, web.urls[0], pages, options.frontier), (FEW, MANY))
    return 0


def _print_ratios(options: argparse.Namespace, count: Callable[[str, int], int], sizes: tuple[int, int]) -> None:
    first = 0.0
    few, many = sizes
    for _ in range(options.rounds):
        for python in options.pythons:
            page = (count(python, many) - count(python, few)) / (many - few)
            first = first or page
            print(f"{page:12,.0f} instructions a page  {page / first:6.3f}  {python}", flush=True)


def _count(python: str, url: str, pages: int, frontier: str) -> int:
    """Of all processes of one crawl."""
    with tempfile.TemporaryDirectory() as folder:
        address = frontier if frontier != "sqlite:" else f"sqlite:{folder}/bench.db"
        command = [
            *VALGRIND,
            *(python, "-P", "-m", "skitter", "crawl", url, "-o", "out.jsonl", "-q", "--frontier", address),
            *("--concurrency", "64", "--per-host", "64", "--delay", "0", "--max-pages", str(pages)),
            # Everything takes fifty times as long: nothing may give up for it.
            *("--set", "timeout_seconds=300", "--set", "lease_seconds=600", "--set", "callback_seconds=300"),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        lines = sum(1 for _ in (Path(folder) / "out.jsonl").open("rb"))
        if done.returncode or lines != pages:
            sys.exit(f"{python}: exit code {done.returncode}, {lines} of {pages} pages\n{done.stderr.decode()[-2000:]}")
        return _instructions(done.stderr)


def _count_calls(python: str, pages: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = [*VALGRIND, python, "-P", "-c", CALLS, str(pages)]
        # Without hashes that differ from process to process, which change what dictionaries cost.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{python}: exit code {done.returncode}\n{done.stderr.decode()[-2000:]}")
        return _instructions(done.stderr)


def _instructions(told: bytes) -> int:
    return sum(int(found.replace(b",", b"")) for found in _REFS.findall(told))


if __name__ == "__main__":
    sys.exit(main())
