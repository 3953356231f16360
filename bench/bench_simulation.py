"""Clusters that do not fit on one machine, simulated on the real frontier: politeness, fairness, speed, cost.

bench_simulation.py [--hosts 1000 100000 1000000] [--workers 1000] [--pages 200000] [--backend memory|redis] [--write]

Each size is simulated twice: with a delay of one second, where politeness is the limit as long as there are few hosts,
and without one, where the workers are. The clock, the workers and the web are made up (skitter.testing.simulation); the
frontier is real, and so is what it costs. With --write the table goes to docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
from typing import Any

from private_redis import redis_at
from report import table, write_section

from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.redis import redis_frontier
from skitter.testing.clock import FakeClock
from skitter.testing.simulation import Findings, Simulation, World

TEXT = """\
## A simulated cluster

{workers} workers with {concurrency} requests in flight each, on the real frontier ({backend}) with a simulated clock
and web. Hosts always have work. `of_possible` is the share of what delay, hosts and slots allow; `smallest_gap` is
between the starts of two requests to one host; `pages_of_a_host` are the fewest and the most that any had;
`us_per_page` is the frontier's time in the first and the last tenth of {pages} pages.
"""


async def simulate(world: World, redis_url: str) -> Findings:
    clock = FakeClock()
    if redis_url:
        frontier = redis_frontier(redis_url, f"simulation-{world.hosts}-{world.delay_seconds:g}", clock=clock)
    else:
        frontier = memory_frontier("simulation", MemoryStore(clock.of_store()))
    try:
        return await Simulation(world, frontier, clock).run()
    finally:
        await frontier.close()


def possible(world: World) -> float:
    """Pages a second, at most: by delay and start window, by requests in flight to each host, by slots."""
    limits = [world.workers * world.concurrency / world.latency_seconds]
    limits.append(world.hosts * world.per_host / world.latency_seconds)
    if world.delay_seconds:
        limits.append(world.hosts / (world.delay_seconds + 0.05))
    return min(limits)


def row(world: World, found: Findings) -> dict[str, Any]:
    halves = found.us_per_page[:1] + found.us_per_page[-1:]
    return {
        "hosts": world.hosts,
        "delay": world.delay_seconds,
        "pages_per_second": round(found.pages_per_second),
        "of_possible": round(found.pages_per_second / possible(world), 2),
        "smallest_gap": "-" if found.smallest_gap_seconds == float("inf") else round(found.smallest_gap_seconds, 3),
        "most_in_flight": found.most_in_flight,
        "pages_of_a_host": f"{found.fewest_pages} to {found.most_pages}",
        "calls_per_page": round(found.calls / found.pages, 2),
        "us_per_page": " and ".join(f"{value:.0f}" for value in halves),
        "median_us": round(statistics.median(found.us_per_page)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="a simulated cluster on the real frontier")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--backend", choices=["memory", "redis"], default="memory")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    options = parser.parse_args()
    rows = []
    with contextlib.ExitStack() as stack:
        redis_url = stack.enter_context(redis_at("")) if options.backend == "redis" else ""
        for hosts in options.hosts:
            for delay in (1.0, 0.0):
                world = World(workers=options.workers, hosts=hosts, pages=options.pages, delay_seconds=delay)
                rows.append(row(world, asyncio.run(simulate(world, redis_url))))
                print(json.dumps(rows[-1]), flush=True)
    if options.write:
        about = TEXT.format(
            workers=options.workers,
            concurrency=World().concurrency,
            backend=options.backend,
            pages=f"{options.pages:,}",
        )
        write_section(
            f"simulation-{options.backend}", "python bench/bench_simulation.py --write", about + "\n" + table(rows)
        )


if __name__ == "__main__":
    main()
