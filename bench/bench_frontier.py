"""A frontier alone: URLs a second through add, lease and commit, at several queue lengths.

bench_frontier.py [--queued 10000 1000000] [--hosts 1000] [--cycles 20000] [--rounds 3] [--apart] [--clients 1]
                  [--backend sqlite|memory|redis] [--redis-url redis://HOST:PORT]

Each length is filled first; then 64 URLs at a time are added, leased and committed as a worker does it, while the queue
keeps its length: one call commits 64 pages with 64 new links and asks for 64 more. Nine in ten links lead to their
page's own host. With --apart the new URLs come in a call of their own, and with it in a second transaction. The lengths
take turns, so that a noisy machine is noisy for all of them. Prints one JSON object.

--clients: as many processes at once, each with its share of the cycles: what a frontier carries in all.
With redis, each length is a job of its own, removed at the end. Without --redis-url a private server is started.
``memory_bytes_per_url`` is what a queued URL takes of the server's used_memory, the URL itself included, and
``calls_beyond_5_ms`` the share of the script calls that held the server for so long.

``skitter bench frontier`` measures more, on any frontier; this one knows several clients at once, and one queue that
stays while others are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.pool import Pool
from pathlib import Path

from private_redis import redis_at

from skitter.app.frontiers import drop_job
from skitter.bench.bench_frontiers import Store, redis_command
from skitter.bench.frontier_load import Load
from skitter.frontier.contract import Frontier

SLOW_MICROSECONDS = 5000


class Stores:
    """Where the frontiers of one bench live: a job each, and on disk a file each."""

    def __init__(self, backend: str, folder: Path, redis_url: str) -> None:
        self._backend = backend
        self._folder = folder
        self.redis_url = redis_url

    def store(self, name: str) -> Store:
        addresses = {"redis": self.redis_url, "sqlite": f"sqlite:{self._folder / name}.db", "memory": "memory:"}
        return Store(addresses[self._backend], name)

    def frontier(self, name: str) -> Frontier:
        return self.store(name).open()

    async def bytes_of(self, name: str) -> int:
        """On disk, or of the server's memory."""
        return 0 if self._backend == "memory" else await self.store(name).size() or 0

    async def watch(self) -> None:
        """Begin to count the calls that hold the server for long."""
        await self.ask("CONFIG", "SET", "slowlog-log-slower-than", SLOW_MICROSECONDS)
        await self.ask("CONFIG", "SET", "slowlog-max-len", 1_000_000)
        await self.ask("CONFIG", "RESETSTAT")
        await self.ask("SLOWLOG", "RESET")

    async def slow_share(self) -> float:
        """Of the script calls since ``watch``: how many were slow."""
        told = (await self.ask("INFO", "commandstats")).decode().splitlines()
        calls = sum(int(line.partition("calls=")[2].partition(",")[0]) for line in told if "cmdstat_eval" in line)
        return await self.ask("SLOWLOG", "LEN") / max(1, calls)

    async def ask(self, *words: object) -> object:
        return await redis_command(self.redis_url, *words)

    async def forget(self, names: list[str]) -> None:
        if self._backend == "redis":
            for name in names:
                await drop_job(self.redis_url, name)


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[Stores]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        url = stack.enter_context(redis_at(options.redis_url)) if options.backend == "redis" else ""
        yield Stores(options.backend, Path(folder), url)


def one_client(work: tuple[Stores, str, int, bool, int, int]) -> tuple[float, float]:
    """What one of several processes does."""
    stores, name, hosts, apart, client, urls = work

    async def run() -> tuple[float, float]:
        load = Load(stores.frontier(name), hosts, client=client)
        await load.join()
        times = await load.cycle(urls, apart=apart)
        await load.leave()
        await load.frontier.close()
        return times.wall, times.cpu

    return asyncio.run(run())


async def main() -> None:
    parser = argparse.ArgumentParser(description="URLs a second through add, lease and commit")
    parser.add_argument("--queued", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--cycles", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--backend", choices=["sqlite", "memory", "redis"], default="sqlite")
    parser.add_argument("--redis-url", default="", help="default: a private server of its own")
    parser.add_argument("--apart", action="store_true", help="add the new URLs in calls of their own")
    options = parser.parse_args()
    if options.clients > 1 and options.backend == "memory":
        parser.error("memory: belongs to one process")
    with opened(options) as stores:
        print(json.dumps(await measure(options, stores), indent=1))


async def measure(options: argparse.Namespace, stores: Stores) -> dict[str, object]:
    report, loads, redis = [], {}, options.backend == "redis"
    for queued in options.queued:
        name = f"bench-{queued}"
        before = await stores.bytes_of(name)
        loads[name] = Load(stores.frontier(name), options.hosts)
        await loads[name].begin(name)
        seconds = (await loads[name].fill(queued)).wall
        size = await stores.bytes_of(name) - before
        kind = "memory" if redis else "disk"
        report.append({"queued": queued, "fill_us": seconds / queued * 1e6, f"{kind}_bytes_per_url": size / queued})
    if redis:
        await stores.watch()
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in loads}
    with multiprocessing.get_context("spawn").Pool(options.clients) as pool:
        for _ in range(options.rounds):
            for name, load in loads.items():
                if options.clients == 1:
                    times = await load.cycle(options.cycles, apart=options.apart)
                    rounds[name].append((times.wall, times.cpu))
                else:
                    rounds[name].append(together(pool, options, stores, name))
    result: dict[str, object] = {"calls_beyond_5_ms": await stores.slow_share()} if redis else {}
    for load in loads.values():
        await load.frontier.close()
    await stores.forget(list(loads))
    for row, times in zip(report, rounds.values(), strict=True):
        row["urls_per_second"] = options.cycles / statistics.median(wall for wall, _ in times)
        row["cpu_us"] = statistics.median(cpu for _, cpu in times) / options.cycles * 1e6
    slowest = min(row["urls_per_second"] for row in report)
    fastest = max(row["urls_per_second"] for row in report)
    told = {name: getattr(options, name) for name in ("backend", "hosts", "clients", "apart")}
    return told | {"rows": report, "ratio": fastest / slowest} | result


def together(pool: Pool, options: argparse.Namespace, stores: Stores, name: str) -> tuple[float, float]:
    """Wall and CPU seconds of all clients: each had its share of the cycles, at the same time."""
    share = options.cycles // options.clients
    # Each time another number, and with it URLs that are new.
    first = time.monotonic_ns()
    work = [(stores, name, options.hosts, options.apart, first + client, share) for client in range(options.clients)]
    figures = pool.map(one_client, work, chunksize=1)
    return max(wall for wall, _ in figures), sum(cpu for _, cpu in figures)


if __name__ == "__main__":
    asyncio.run(main())
