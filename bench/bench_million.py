"""A million URLs in one job, one worker: does a page cost at the end what it cost at the beginning?

bench_million.py [--pages 1000000] [--frontier sqlite|redis]... [--write]

A synthetic web in a process of its own: a hundred hosts, small pages of twenty links. Two of them are new at best; all
others are drawn at random from the whole host, and one in ten from another host, which is the worst that a cache of
URLs can meet: no link is likelier to come again than another. Results go to a file. The crawl is looked at twice
a second: pages by the frontier's counts, CPU and memory of the worker by /proc. Wall-clock speed suffers from whatever
else the machine does, CPU much less: both are given, each tenth by itself. Prints one JSON object a frontier; with
--write, the table and its plot go to docs/benchmarks.md as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from private_redis import redis_at
from report import plot, table, write_section

from skitter.errors import SkitterError
from skitter.frontier.contract import Frontier
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.sqlite import sqlite_frontier
from skitter.redis_driver.address import parse_address
from skitter.testing.web import WebSpec, served

HOSTS = 100
LINKS = 20
LOOK_SECONDS = 0.5
FEWEST_PAGES = 20_000
JOB = "million"
TICKS = os.sysconf("SC_CLK_TCK")
TEXT = """\
## A million URLs in one job

Small pages on {hosts} hosts, {links} links each, drawn at random from all pages of their host: a link that is known may
have been seen long ago. One worker; results go to a file. `last_to_first` compares the last tenth of the crawl with the
first; where `load`, the median load average of the machine, is far above what the crawl makes itself (about 2), pages a
second say how busy the machine was, and only CPU can be compared. In the first tenths most URLs are found, and each
costs more than a link that is known. Memory is the worker's, and its growth is the most it had after the first tenth,
to what it had then. `stopped_in_worker` is the share of the duplicate links that the worker knew by itself; the others
were sent to the frontier and found there.
"""


class Moment(msgspec.Struct):
    """What is known at one moment of a crawl."""

    time: float
    pages: int
    cpu_seconds: float
    rss_bytes: int
    load: float
    """Of the whole machine: how many processes wanted a core."""


class Store:
    """The frontier of the crawl, seen from outside."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._file = folder / "job.db" if url.startswith("sqlite:") else None

    def open(self) -> Frontier:
        return sqlite_frontier(self._file, JOB, create=False) if self._file else redis_frontier(self.url, JOB)

    async def bytes(self) -> int:
        if self._file:
            return sum(file.stat().st_size for file in self._file.parent.glob(f"{self._file.name}*"))
        server = RedisServer(parse_address(self.url))
        try:
            told = (await server.command("INFO", "memory")).decode()
        finally:
            await server.close()
        return int(told.partition("used_memory:")[2].split()[0])


async def crawl(store: Store, seeds: tuple[str, ...], folder: Path) -> tuple[list[Moment], dict[str, Any]]:
    """One crawl to its end: what was seen of it, and its figures as a whole."""
    empty = 0 if store.url.startswith("sqlite:") else await store.bytes()
    command = [sys.executable, "-m", "skitter", "crawl", *seeds, "-q", "--json", "--job", JOB, "-o", "pages.jsonl"]
    command += ["--frontier", store.url]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)  # noqa: ASYNC220 - nothing else runs here
    try:
        moments = await look(process, store)
    finally:
        out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"the crawl failed: exit code {process.returncode}")
    frontier = store.open()
    try:
        tally = (await frontier.report()).tally
    finally:
        await frontier.close()
    whole = json.loads(out)
    return moments, whole | {"tally": tally, "store_bytes": await store.bytes() - empty}


async def look(process: subprocess.Popen[bytes], store: Store) -> list[Moment]:
    """The crawl, twice a second, as long as its worker lives."""
    moments: list[Moment] = []
    frontier: Frontier | None = None
    try:
        while process.poll() is None:
            await asyncio.sleep(LOOK_SECONDS)
            # Before the file, or the job in it, is there; and when the worker has gone.
            with contextlib.suppress(SkitterError, OSError, IndexError):
                frontier = frontier or store.open()
                worker = worker_of(process.pid)
                moments.append(moment(worker, (await frontier.counts()).done))
    finally:
        if frontier is not None:
            await frontier.close()
    return moments


def worker_of(supervisor: int) -> int:
    return int(Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0])


def moment(worker: int, pages: int) -> Moment:
    user, system = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[11:13]
    rss_pages = int(Path(f"/proc/{worker}/statm").read_text().split()[1])
    cpu_seconds = (int(user) + int(system)) / TICKS
    rss_bytes = rss_pages * os.sysconf("SC_PAGE_SIZE")
    return Moment(time.perf_counter(), pages, cpu_seconds, rss_bytes, os.getloadavg()[0])


def figures(name: str, moments: list[Moment], whole: dict[str, Any]) -> dict[str, Any]:
    """The crawl in tenths, and as a whole."""
    pages = whole["pages"]
    edges = [next(m for m in moments if m.pages >= pages * part // 10) for part in range(10)] + [moments[-1]]
    tenths = [
        {
            "pages_per_second": (end.pages - begin.pages) / (end.time - begin.time),
            "cpu_us_per_page": (end.cpu_seconds - begin.cpu_seconds) / (end.pages - begin.pages) * 1e6,
            "rss_mb": end.rss_bytes / 1e6,
        }
        for begin, end in pairwise(edges)
    ]
    tally = whole["tally"]
    duplicates, sent = tally.get("duplicates", 0), tally.get("duplicates_sent", 0)
    later = [m.rss_bytes for m in moments if m.pages >= edges[1].pages]
    return {
        "frontier": name,
        "pages": pages,
        "seconds": whole["seconds"],
        "failed": whole["failed"],
        "duplicates": duplicates,
        "duplicates_sent": sent,
        "stopped_in_worker": 1 - sent / duplicates,
        "memory_growth": max(later) / edges[1].rss_bytes,
        "load": statistics.median(m.load for m in moments),
        "store_bytes_per_url": whole["store_bytes"] / pages,
        "tenths": tenths,
    }


def row(found: dict[str, Any]) -> dict[str, Any]:
    tenths = found["tenths"]
    first, last = tenths[0], tenths[-1]

    def pair(name: str) -> str:
        return f"{first[name]:,.0f} and {last[name]:,.0f}"

    return {
        "frontier": found["frontier"],
        "pages": f"{found['pages']:,}",
        "load": f"{found['load']:.0f}",
        "pages_per_second": pair("pages_per_second"),
        "last_to_first": f"{last['pages_per_second'] / first['pages_per_second']:.2f}",
        "cpu_us_per_page": pair("cpu_us_per_page"),
        "cpu_last_to_first": f"{last['cpu_us_per_page'] / first['cpu_us_per_page']:.2f}",
        "memory_mb": " / ".join(f"{tenths[place]['rss_mb']:.0f}" for place in (0, 4, 9)),
        "memory_growth": f"{found['memory_growth']:.2f}",
        "store_bytes_per_url": round(found["store_bytes_per_url"]),
        "duplicates": f"{found['duplicates']:,}",
        "stopped_in_worker": f"{found['stopped_in_worker']:.3%}",
    }


def write(found: list[dict[str, Any]]) -> None:
    lines = {one["frontier"]: [tenth["cpu_us_per_page"] for tenth in one["tenths"]] for one in found}
    picture = plot("million", "Worker CPU, us a page", range(1, 11), lines, x_title="tenths of the crawl")
    about = TEXT.format(hosts=HOSTS, links=LINKS)
    text = f"{about}\n{table([row(one) for one in found])}\n\n{picture}\n"
    write_section("million", "python bench/bench_million.py --write", text)


async def main() -> None:
    parser = argparse.ArgumentParser(description="a million URLs in one job")
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--frontier", choices=["sqlite", "redis"], action="append")
    parser.add_argument("--write", action="store_true", help="put the table and its plot into docs/benchmarks.md")
    options = parser.parse_args()
    if options.pages < FEWEST_PAGES:
        parser.error(f"fewer than {FEWEST_PAGES} pages end before their tenths can be told apart")
    spec = WebSpec.plain(hosts=HOSTS, pages_per_host=options.pages // HOSTS, links_per_page=LINKS, page_bytes=1024)
    found = []
    for name in options.frontier or ["sqlite", "redis"]:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = "sqlite:job.db" if name == "sqlite" else stack.enter_context(redis_at())
            web = stack.enter_context(served(spec))
            moments, whole = await crawl(Store(url, folder), web.urls, folder)
        found.append(figures(name, moments, whole))
        print(json.dumps(found[-1] | {"summary": row(found[-1])}, indent=1), flush=True)
    if options.write:
        write(found)


if __name__ == "__main__":
    asyncio.run(main())
