"""A frontier alone: URLs a second through add, lease and commit, at several queue lengths.

bench_frontier.py [--queued 10000 1000000] [--hosts 1000] [--cycles 20000] [--rounds 3]
                  [--backend sqlite|memory|redis] [--redis-url redis://HOST:PORT] [--apart]

Each length is filled first; then 64 URLs at a time are added, leased and committed as a worker does it, while the queue
keeps its length: one call commits 64 pages with 64 new links and asks for 64 more. With --apart the new URLs come in
a call of their own, and with it in a second transaction. The lengths take turns, so that a noisy machine is noisy for
all of them. Prints one JSON object.

With redis, each length is a job of its own, removed at the end. Without --redis-url a private server is started.
``memory_bytes_per_url`` is what a queued URL takes of the server's used_memory, the URL itself included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skitter.frontier.contract import Frontier
from skitter.frontier.memory import memory_frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import JobSpec
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.settings import Settings

BATCH = 64


class Load:
    """One frontier with a queue of a certain length."""

    def __init__(self, frontier: Frontier, hosts: int, *, apart: bool) -> None:
        self.frontier = frontier
        self._hosts = hosts
        self._apart = apart
        self._number = 0
        self._leases: list[Lease] = []

    async def begin(self, queued: int, *, job: str = "bench") -> float:
        settings = Settings.from_layers([("bench", {"obey_robots": False, "per_host": BATCH})])
        await self.frontier.begin(JobSpec(name=job, spider="", settings=settings.job_wide()))
        self._fingerprinter = Fingerprinter((await self.frontier.job()).secret)
        began = time.perf_counter()
        while self._number < queued:
            await self.frontier.add(self._entries())
        return time.perf_counter() - began

    async def cycle(self, urls: int) -> tuple[float, float]:
        """Wall and CPU seconds for so many URLs through add, lease and commit."""
        wall, cpu, done = 0.0, 0.0, 0
        while done < urls:
            # Making the URLs and their identities is the worker's cost, not the frontier's.
            entries = self._entries()
            apart = self._apart or len(self._leases) < BATCH
            outcomes = [
                Outcome(
                    lease=lease,
                    ending=Ending.DONE,
                    status=200,
                    news=HostNews(answered=True, latency_seconds=0.1),
                    links=[] if apart else [entry],
                )
                for lease, entry in zip(self._leases, entries, strict=False)
            ]
            began, began_cpu = time.perf_counter(), time.process_time()
            if apart:
                await self.frontier.add(entries)
            answer = await self.frontier.commit("bench", outcomes, want=BATCH)
            wall += time.perf_counter() - began
            cpu += time.process_time() - began_cpu
            assert answer.grant is not None
            done += len(outcomes)
            self._leases = [lease for lease in answer.grant.leases if lease.work is Work.PAGE]
        return wall, cpu

    def _entries(self) -> list[Entry]:
        numbers = range(self._number, self._number + BATCH)
        self._number += BATCH
        return [
            self._fingerprinter.entry(
                Request(
                    f"http://host{number % self._hosts}.example/catalogue/section-{number % 97}/page-{number}.html",
                    depth=3,
                    referrer="http://host0.example/catalogue/index.html",
                )
            )
            for number in numbers
        ]


class Stores:
    """Where the frontiers of one bench live."""

    def __init__(self, backend: str, folder: Path, redis_url: str) -> None:
        self._backend = backend
        self._folder = folder
        self.redis_url = redis_url
        self._services: subprocess.Popen[str] | None = None
        if backend == "redis" and not redis_url:
            script = Path(__file__).resolve().parents[1] / "scripts" / "services"
            command = [sys.executable, str(script), "redis"]
            self._services = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self._services.stdout is not None
            self.redis_url = json.loads(self._services.stdout.readline())["redis"]["url"]

    def frontier(self, name: str) -> Frontier:
        if self._backend == "redis":
            from skitter.frontier.redis import redis_frontier

            return redis_frontier(self.redis_url, name)
        return (
            sqlite_frontier(self._folder / f"{name}.db", name) if self._backend == "sqlite" else memory_frontier(name)
        )

    async def bytes_of(self, name: str) -> int:
        """On disk, or of the server's memory."""
        if self._backend == "redis":
            from skitter.frontier.redis.address import parse_address
            from skitter.frontier.redis.server import RedisServer

            server = RedisServer(parse_address(self.redis_url))
            told = (await server.command("INFO", "memory")).decode()
            await server.close()
            return int(next(line for line in told.splitlines() if line.startswith("used_memory:")).partition(":")[2])
        path = self._folder / f"{name}.db"
        return path.stat().st_size if path.exists() else 0

    async def close(self, names: list[str]) -> None:
        if self._backend == "redis":
            from skitter.frontier.redis import drop_job

            for name in names:
                await drop_job(self.redis_url, name)
        if self._services is not None:
            self._services.communicate()


async def main() -> None:
    parser = argparse.ArgumentParser(description="URLs a second through add, lease and commit")
    parser.add_argument("--queued", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--cycles", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend", choices=["sqlite", "memory", "redis"], default="sqlite")
    parser.add_argument("--redis-url", default="", help="default: a private server of its own")
    parser.add_argument("--apart", action="store_true", help="add the new URLs in calls of their own")
    options = parser.parse_args()
    report = []
    with tempfile.TemporaryDirectory() as folder:
        stores = Stores(options.backend, Path(folder), options.redis_url)
        loads = {}
        for queued in options.queued:
            name = f"bench-{queued}"
            before = await stores.bytes_of(name)
            loads[queued] = Load(stores.frontier(name), options.hosts, apart=options.apart)
            seconds = await loads[queued].begin(queued, job=name)
            size = await stores.bytes_of(name) - before
            kind = "memory" if options.backend == "redis" else "disk"
            report.append({"queued": queued, "fill_us": seconds / queued * 1e6, f"{kind}_bytes_per_url": size / queued})
        rounds: dict[int, list[tuple[float, float]]] = {queued: [] for queued in options.queued}
        for _ in range(options.rounds):
            for queued in options.queued:
                rounds[queued].append(await loads[queued].cycle(options.cycles))
        for load in loads.values():
            await load.frontier.close()
        await stores.close([f"bench-{queued}" for queued in options.queued])
    for row in report:
        times = rounds[row["queued"]]
        row["urls_per_second"] = options.cycles / statistics.median(wall for wall, _ in times)
        row["cpu_us"] = statistics.median(cpu for _, cpu in times) / options.cycles * 1e6
    slowest = min(row["urls_per_second"] for row in report)
    fastest = max(row["urls_per_second"] for row in report)
    result = {
        "backend": options.backend,
        "hosts": options.hosts,
        "apart": options.apart,
        "rows": report,
        "ratio": fastest / slowest,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    asyncio.run(main())
