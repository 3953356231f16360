"""Instructions per page, counted by valgrind: a figure that a busy machine does not change.

    python bench/instructions.py [--frontier sqlite:] PYTHON [PYTHON ...]

Each interpreter brings the skitter that is installed for it, so two checkouts with an environment each are compared in
one run. The same synthetic site is crawled with few and with many pages; the difference, divided by the pages between
them, leaves the start out. Repeated counts of the same code differ by about half a percent (batches, wake-ups).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from skitter.bench.sites import LINKS, PAGE_BYTES
from skitter.testing.web import WebSpec, served

FEW, MANY = 400, 1400
_REFS = re.compile(rb"I\s+refs:\s+([\d,]+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--frontier", default="memory:", help="memory: (default) or sqlite:")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    first = 0.0
    spec = WebSpec.plain(hosts=1, pages_per_host=MANY + 100, links_per_page=LINKS, page_bytes=PAGE_BYTES)
    with served(spec) as web:
        for _ in range(options.rounds):
            for python in options.pythons:
                few, many = (_count(python, web.urls[0], pages, options.frontier) for pages in (FEW, MANY))
                page = (many - few) / (MANY - FEW)
                first = first or page
                print(f"{page:12,.0f} instructions a page  {page / first:6.3f}  {python}", flush=True)
    return 0


def _count(python: str, url: str, pages: int, frontier: str) -> int:
    """Of all processes of one crawl."""
    with tempfile.TemporaryDirectory() as folder:
        address = frontier if frontier != "sqlite:" else f"sqlite:{folder}/bench.db"
        command = [
            *("valgrind", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes"),
            "--cachegrind-out-file=/dev/null",
            *(python, "-P", "-m", "skitter", "crawl", url, "-o", "out.jsonl", "-q", "--frontier", address),
            *("--concurrency", "64", "--per-host", "64", "--delay", "0", "--max-pages", str(pages)),
            # Everything takes fifty times as long: nothing may give up for it.
            *("--set", "timeout_seconds=300", "--set", "lease_seconds=600", "--set", "callback_seconds=300"),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        lines = sum(1 for _ in (Path(folder) / "out.jsonl").open("rb"))
        if done.returncode or lines != pages:
            sys.exit(f"{python}: exit code {done.returncode}, {lines} of {pages} pages\n{done.stderr.decode()[-2000:]}")
        return sum(int(found.replace(b",", b"")) for found in _REFS.findall(done.stderr))


if __name__ == "__main__":
    sys.exit(main())
