"""How long a crawl takes to begin and to end: one page, from the start of the process to its end.

bench_start.py [--rounds 10] [--write]

A web of one page notes when it was asked. Each round starts an empty Python and a crawl on each frontier, one after
another, so that a busy moment of the machine touches them alike. ``to_first_page`` is from the start of the command to
the arrival of its first request for a page (robots.txt is read before that), less the whole life of an empty Python of
that round; ``after_the_page`` is from there to the end of the command: reading the page, committing it, seeing that
nothing is left, and the end of two processes. ``cpu`` is that of the whole command with its worker, which a busy
machine changes much less. Prints one JSON object; with --write, the table goes to docs/benchmarks.md as well.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from private_redis import redis_at
from report import table, write_section

from skitter.testing.web import ServedWeb, WebSpec, served

TEXT = """\
## Start and end

A crawl of one page, on a web in another process: from the start of the command to the arrival of its request, beyond
what an empty Python takes ({empty:.0f} ms), and from there to the end of the command; `cpu` is that of all its
processes. Seconds; the median of {rounds} rounds, and the fastest and the slowest.
"""


def environment() -> dict[str, str]:
    """As for an installed package, with compiled modules: without them every start compiles all of it (70 ms)."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def empty_start() -> float:
    """Seconds of a Python that does nothing."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True, env=environment())
    return time.monotonic() - began


def one_page(web: ServedWeb, frontier: str, job: str) -> tuple[float, float, float]:
    """Seconds from the start of a crawl to its page's request, from there to its end, and of CPU."""
    command = [sys.executable, "-m", "skitter", "crawl", *web.urls, "-q", "--job", job, "--frontier", frontier]
    with tempfile.TemporaryDirectory() as folder:
        used = children_cpu()
        began = time.monotonic()
        subprocess.run(command, check=True, cwd=folder, env=environment())
        ended = time.monotonic()
        used = children_cpu() - used
    asked = [hit.at for hit in web.log() if hit.at >= began and hit.path == "/"]
    if len(asked) != 1:
        raise SystemExit(f"the page was asked for {len(asked)} times")
    return asked[0] - began, ended - asked[0], used


def children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="how long a crawl takes to begin and to end")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    options = parser.parse_args()
    empty: list[float] = []
    begin: dict[str, list[float]] = {}
    end: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    spec = WebSpec.plain(hosts=1, pages_per_host=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_at() as redis_url,
        served(spec, Path(folder) / "hits") as web,
    ):
        frontiers = {"memory": "memory:", "sqlite": "sqlite:start.db", "redis": redis_url}
        for number in range(options.rounds + 1):
            nothing = empty_start()
            taken = {name: one_page(web, url, f"start-{number}") for name, url in frontiers.items()}
            if number == 0:
                # It compiles the modules, and the machine reads them from its disk.
                continue
            empty.append(nothing)
            for name, (to_page, to_end, used) in taken.items():
                begin.setdefault(name, []).append(to_page - nothing)
                end.setdefault(name, []).append(to_end)
                cpu.setdefault(name, []).append(used)
    rows = [
        {
            "frontier": name,
            "to_first_page": spread(begin[name]),
            "after_the_page": spread(end[name]),
            "cpu": spread(cpu[name]),
        }
        for name in frontiers
    ]
    print(json.dumps({"empty_python_seconds": round(statistics.median(empty), 4), "frontiers": rows}, indent=1))
    if options.write:
        about = TEXT.format(empty=statistics.median(empty) * 1000, rounds=options.rounds)
        write_section("start", "python bench/bench_start.py --write", about + "\n" + table(rows))


if __name__ == "__main__":
    main()
