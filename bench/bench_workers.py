"""Pages a second with more and more workers on one Redis.

bench_workers.py [--workers 1 2 4 8] [--seconds 20] [--links 20] [--rounds 3] [--write] [--redis-url redis://HOST:PORT]

A synthetic web answers every request after 100 ms, and each worker has ten requests in flight: a worker could do 100
pages a second at best, and eight of them stay within what two cores carry. The number of pages follows the number of
workers, and figures are taken between a tenth and nine tenths of a crawl. CPU is that of the worker processes;
frontier time is how long the scripts held the Redis. The numbers of workers take turns, and each figure is the median
of its rounds. Prints one JSON object; with --write, the table and its plot go to docs/benchmarks.md as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import report
from private_redis import redis_at

from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.redis_driver.address import parse_address
from skitter.testing.web import WebSpec, served

LATENCY_SECONDS = 0.1
IN_FLIGHT = 10
HOSTS = 16
TICKS = os.sysconf("SC_CLK_TCK")


class Moment(msgspec.Struct):
    """What is known at one moment of a crawl."""

    time: float
    pages: int
    worker_cpu: float
    redis_seconds: float


class Crawl:
    """One crawl with a number of workers, and a look at it now and then."""

    def __init__(self, redis_url: str, workers: int, pages: int, number: int) -> None:
        self._redis_url = redis_url
        self._job = f"workers-{workers}-{number}"
        self._workers = workers
        self._pages = pages

    async def run(self, seeds: Sequence[str]) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "skitter", "crawl", *seeds, "-q", "--job", self._job, "--fresh"]
            command += ["--frontier", self._redis_url, "--workers", str(self._workers)]
            command += ["--concurrency", str(IN_FLIGHT), "--per-host", "1000", "--set", "obey_robots=false"]
            process = subprocess.Popen(command, cwd=folder)  # noqa: ASYNC220 - nothing else runs here
            try:
                first = await self._at(process, self._pages // 10)
                last = await self._at(process, self._pages * 9 // 10)
            finally:
                process.wait()
        pages, seconds = last.pages - first.pages, last.time - first.time
        return {
            "workers": self._workers,
            "pages_per_second": pages / seconds,
            "cpu_us_per_page": (last.worker_cpu - first.worker_cpu) / pages * 1e6,
            "frontier_us_per_page": (last.redis_seconds - first.redis_seconds) / pages * 1e6,
        }

    async def _at(self, process: subprocess.Popen[bytes], pages: int) -> Moment:
        """The first moment with so many pages."""
        frontier, server = redis_frontier(self._redis_url, self._job), RedisServer(parse_address(self._redis_url))
        try:
            while True:
                done = 0
                if await server.command("EXISTS", f"skitter:{{{self._job}:0}}:job"):
                    done = (await frontier.counts()).done
                if done >= pages:
                    told = (await server.command("INFO", "commandstats")).decode()
                    return Moment(time.perf_counter(), done, cpu_of(process.pid), script_seconds(told))
                if process.poll() is not None:
                    raise SystemExit(f"the crawl ended with {done} pages: exit code {process.returncode}")
                await asyncio.sleep(0.05)
        finally:
            await frontier.close()
            await server.close()


def cpu_of(supervisor: int) -> float:
    """Seconds that the worker processes have used."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    times = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13] for child in children]
    return sum(int(user) + int(system) for user, system in times) / TICKS


def script_seconds(told: str) -> float:
    """How long scripts have held the server, of INFO commandstats."""
    lines = [line for line in told.splitlines() if line.startswith("cmdstat_eval")]
    return sum(int(line.partition("usec=")[2].partition(",")[0]) for line in lines) / 1e6


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(row[name] for row in rounds) for name in rounds[0]}


def table_of(rows: list[dict[str, float]]) -> list[dict[str, Any]]:
    base = rows[0]
    return [
        {
            "workers": row["workers"],
            "pages_per_second": round(row["pages_per_second"], 1),
            "of_linear": round(
                row["pages_per_second"] / base["pages_per_second"] / row["workers"] * base["workers"], 3
            ),
            "cpu_us_per_page": round(row["cpu_us_per_page"]),
            "cpu_to_first": round(row["cpu_us_per_page"] / base["cpu_us_per_page"], 3),
            "frontier_us_per_page": round(row["frontier_us_per_page"], 1),
            "frontier_to_first": round(row["frontier_us_per_page"] / base["frontier_us_per_page"], 3),
        }
        for row in rows
    ]


def write(figures: list[dict[str, Any]], rounds: int) -> None:
    workers = [row["workers"] for row in figures]
    linear = [figures[0]["pages_per_second"] / workers[0] * count for count in workers]
    lines = {"linear": linear, "measured": [row["pages_per_second"] for row in figures]}
    text = f"""## More workers

A web that answers each request after 100 ms, one Redis, ten requests in flight in each worker. CPU is that of the
workers, frontier time is how long scripts held the Redis. Medians of {rounds}.

{report.table(figures)}

{report.plot("workers", "Pages a second", workers, lines, x_title="workers")}
"""
    report.write_section("workers", "python bench/bench_workers.py --write", text)


async def main() -> None:
    parser = argparse.ArgumentParser(description="pages a second with more and more workers")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=20.0, help="about how long each crawl takes")
    parser.add_argument("--links", type=int, default=20, help="on a page")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table and its plot into docs/benchmarks.md")
    parser.add_argument("--redis-url", default="", help="default: a private server of its own")
    options = parser.parse_args()
    rows: dict[int, list[dict[str, float]]] = {workers: [] for workers in options.workers}
    with redis_at(options.redis_url) as url:
        for workers in options.workers * options.rounds:
            pages = int(options.seconds * workers * IN_FLIGHT / LATENCY_SECONDS)
            spec = WebSpec.plain(
                hosts=HOSTS,
                pages_per_host=pages // HOSTS,
                links_per_page=options.links,
                latency_seconds=LATENCY_SECONDS,
            )
            with served(spec) as web:
                rows[workers].append(
                    await Crawl(url, workers, pages // HOSTS * HOSTS, len(rows[workers])).run(web.urls)
                )
    figures = table_of([medians(rounds) for rounds in rows.values()])
    print(json.dumps(figures, indent=1))
    if options.write:
        write(figures, options.rounds)


if __name__ == "__main__":
    asyncio.run(main())
