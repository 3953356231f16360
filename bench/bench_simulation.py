"""Clusters that do not fit on one machine, simulated on the real frontier: politeness, fairness, speed, cost.

bench_simulation.py [--hosts 1000 100000 2000000] [--workers 2000] [--pages 300000] [--backend memory|redis] [--write]

The clock, the workers and the web are made up (skitter.testing.simulation); the frontier is real, and so is what it
costs. Each size is simulated with a delay of one second between requests to a host; the smallest one also without,
where requests in flight to each host are the limit. With --write the table goes to docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from private_redis import redis_at
from report import table, write_section

from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.redis_driver.address import parse_address
from skitter.testing.clock import FakeClock
from skitter.testing.simulation import MEAN_SLOWNESS, SLOW_SHARE, SLOWNESS, Findings, Simulation, World

START_WINDOW_SECONDS = 0.05
TEXT = """\
## A simulated cluster: {backend}

{workers:,} workers with {concurrency} requests in flight each, on the real frontier ({backend}) with a simulated clock
and a simulated web, in which one host of ten is four times as slow as the others. All hosts have work at any moment.
{pages:,} pages in each row.

- Speed: `limit` is what holds the crawl up: the delay of one second, {per_host} requests in flight to each host, or the
  slots of the workers. `of_possible` is the share of it that was reached, after the workers had begun.
- Politeness: `smallest_gap` is between the starts of any two requests to one host, in seconds, by whichever workers.
- Fairness: `pages_of_a_host` are the fewest and the most that any host had. Where the workers are the limit, all have
  the same within one or two; where the hosts are, a slow host has as many as it can answer.
- Cost: `us_per_page` is the frontier's CPU in the first and the last tenth of the pages, {cpu}.
"""


class Setting:
    """A frontier for one world, and what its store uses besides this process."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url

    async def simulate(self, world: World) -> Findings:
        clock = FakeClock()
        store_cpu: Callable[[], float] = lambda: 0.0  # noqa: E731
        if self._url:
            frontier = redis_frontier(self._url, f"simulation-{world.hosts}-{world.delay_seconds:g}", clock=clock)
            store_cpu = cpu_of(await self._pid())
        else:
            frontier = memory_frontier("simulation", MemoryStore(clock.of_store()))
        try:
            return await Simulation(world, frontier, clock, store_cpu).run()
        finally:
            await frontier.close()

    async def _pid(self) -> int:
        server = RedisServer(parse_address(self._url))
        try:
            told = (await server.command("INFO", "server")).decode()
        finally:
            await server.close()
        return int(told.partition("process_id:")[2].split()[0])


def cpu_of(pid: int) -> Callable[[], float]:
    """A clock of the CPU seconds of a process of this machine."""

    def seconds() -> float:
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    return seconds


def limits(world: World) -> dict[str, float]:
    """Pages a second, at most, by what holds a crawl up. A slot is taken from the grant, before the start."""
    window = START_WINDOW_SECONDS if world.delay_seconds else 0.0
    found = {
        "workers": world.workers * world.concurrency / (world.latency_seconds + window / 2),
        "in flight": world.hosts * world.per_host * answers_per_second(world),
    }
    if world.delay_seconds:
        found["delay"] = world.hosts / (world.delay_seconds + window)
    return found


def answers_per_second(world: World) -> float:
    """Of a host that is always asked, on average over fast and slow ones."""
    fast = MEAN_SLOWNESS / world.latency_seconds
    return fast * (1 - SLOW_SHARE) + fast * SLOW_SHARE / SLOWNESS


def row(world: World, found: Findings) -> dict[str, Any]:
    first, last = found.us_per_page[0], found.us_per_page[-1]
    limit, possible = min(limits(world).items(), key=lambda pair: pair[1])
    gap = found.smallest_gap_seconds
    return {
        "hosts": f"{world.hosts:,}",
        "delay": f"{world.delay_seconds:g}",
        "limit": limit,
        "pages_per_second": f"{found.steady_pages_per_second:,.0f}",
        "of_possible": f"{found.steady_pages_per_second / possible:.2f}",
        "smallest_gap": f"{gap:.3f}" if world.delay_seconds and gap < float("inf") else "-",
        "most_in_flight": found.most_in_flight,
        "pages_of_a_host": f"{found.fewest_pages} to {found.most_pages}",
        "calls_per_page": f"{found.calls / found.pages:.2f}",
        "us_per_page": f"{first:.0f} and {last:.0f}",
        "last_to_first": f"{last / first:.2f}",
    }


def worlds(options: argparse.Namespace) -> list[World]:
    shared = {"workers": options.workers, "pages": options.pages, "concurrency": options.concurrency}
    smallest = World(hosts=options.hosts[0], delay_seconds=0.0, **shared)
    return [smallest, *(World(hosts=hosts, delay_seconds=1.0, **shared) for hosts in options.hosts)]


def main() -> None:
    parser = argparse.ArgumentParser(description="a simulated cluster on the real frontier")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 100_000, 2_000_000])
    parser.add_argument("--workers", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--pages", type=int, default=300_000)
    parser.add_argument("--backend", choices=["memory", "redis"], default="memory")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    options = parser.parse_args()
    # The simulated world is in this process too: to walk through millions of hosts is no cost of the frontier's.
    gc.disable()
    rows = []
    with contextlib.ExitStack() as stack:
        setting = Setting(stack.enter_context(redis_at("")) if options.backend == "redis" else "")
        for world in worlds(options):
            rows.append(row(world, asyncio.run(setting.simulate(world))))
            print(json.dumps(rows[-1]), flush=True)
    if options.write:
        about = TEXT.format(
            workers=options.workers,
            concurrency=options.concurrency,
            backend=options.backend,
            pages=options.pages,
            per_host=World().per_host,
            cpu="in one process" if options.backend == "memory" else "the server's and its client's together",
        )
        command = " ".join(["python bench/bench_simulation.py", *sys.argv[1:]])
        write_section(f"simulation-{options.backend}", command, about + "\n" + table(rows))


if __name__ == "__main__":
    main()
