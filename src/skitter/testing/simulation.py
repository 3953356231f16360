"""Simulation of a large crawl: thousands of workers and millions of hosts on a real frontier.

The frontier is a real one, with its own code and its own store; the clock, the workers and the web are simulated. A
simulated worker behaves like a real one: it starts a lease at a random moment of its start window, commits outcomes in
batches, asks for as many leases as it has free slots, and waits as long as it was told. The simulation measures what a
single worker cannot see: the gaps between two requests to a host, the number of requests in flight there, how evenly
hosts are served, and the cost of a page for the frontier at the beginning and at the end.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.lease import Call, Grant, Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Entry, RequestId
from skitter.policy.polling import pause_seconds
from skitter.settings import Settings
from skitter.testing.clock import FakeClock
from skitter.worker.batching import MOST_OUTCOMES, SOON_SECONDS

T = TypeVar("T")
SLOW_SHARE, SLOWNESS = 0.1, 4.0
"""Share of slow hosts and their factor: one host in ten takes four times as long as the others."""
MEAN_SLOWNESS = 1.0 + SLOW_SHARE * (SLOWNESS - 1.0)
_ADDED_AT_ONCE = 1000


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a simulation."""

    workers: int = 1000
    concurrency: int = 16
    hosts: int = 100_000
    pages: int = 200_000
    """Number of pages after which the simulation ends."""
    delay_seconds: float = 1.0
    per_host: int = 2
    latency_seconds: float = 0.5
    """Average latency; each answer takes a random time around it, and some hosts are always slow."""
    links_per_page: int = 3
    """Number of links per page, to new pages of the same host, so that a host always has work."""
    seed: int = 1


class Findings(msgspec.Struct, kw_only=True):
    """Results of a simulation."""

    pages: int = 0
    seconds: float = 0.0
    """Simulated time from the first request to the last answer."""
    smallest_gap_seconds: float = float("inf")
    """Smallest time between the starts of two requests to one host."""
    most_in_flight: int = 0
    """Maximum number of requests in flight to one host."""
    fewest_pages: int = 0
    most_pages: int = 0
    """Maximum number of pages of a host; all hosts have work at any moment."""
    calls: int = 0
    us_per_page: list[float] = []
    """CPU time of the frontier per page, for each tenth of the pages; a busy machine does not change it."""
    tenth_seconds: list[float] = []
    """Simulated time at the end of each tenth of the pages."""

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.seconds if self.seconds else 0.0

    @property
    def steady_pages_per_second(self) -> float:
        """Return the rate without the first fifth, in which workers start one by one and have to find their pace."""
        begin, end = self.tenth_seconds[1], self.tenth_seconds[-1]
        return self.pages / 10 * (len(self.tenth_seconds) - 2) / (end - begin)


class _Worker:
    """Worker with its requests in flight and its uncommitted outcomes."""

    __slots__ = ("ask_at", "ended", "flush_at", "name", "under_way")

    def __init__(self, name: str) -> None:
        self.name = name
        self.under_way = 0
        self.ended: list[Outcome] = []
        self.flush_at = float("inf")
        self.ask_at = 0.0


class Simulation:
    """Run of a world on a frontier whose clock is ``clock``."""

    def __init__(
        self, world: World, frontier: Frontier, clock: FakeClock, store_cpu: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Prepare a run; ``store_cpu`` returns the CPU seconds that the frontier used in other processes (a server)."""
        self.found = Findings()
        self._store_cpu = store_cpu
        self._world = world
        self._frontier = frontier
        self._clock = clock
        self._call = Call(slots=world.concurrency)
        self._chance = random.Random(world.seed)
        self._workers = [_Worker(f"w{number}") for number in range(world.workers)]
        self._now = 0.0
        self._began = clock()
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], Awaitable[None] | None]]] = []
        self._next_page: dict[str, int] = {}
        self._last_start: dict[str, float] = {}
        self._in_flight: dict[str, int] = {}
        self._served: dict[str, int] = {}
        self._granted = 0
        self._frontier_seconds = 0.0
        self._tenth_began = 0.0

    async def run(self) -> Findings:
        world, found = self._world, self.found
        await self._fill()
        self._frontier_seconds, self._tenth_began = 0.0, self._store_cpu()
        for worker in self._workers:
            # Workers start at different moments, as in every real cluster.
            self._at(self._chance.random(), self._asking(worker))
        while self._events and found.pages < world.pages:
            self._now, _, happens = heapq.heappop(self._events)
            self._clock.advance(self._began + self._now - self._clock())
            awaited = happens()
            if awaited is not None:
                await awaited
        found.seconds = self._now
        counts = self._served.values()
        found.most_pages = max(counts, default=0)
        found.fewest_pages = min(counts, default=0) if len(self._served) == world.hosts else 0
        return found

    async def _fill(self) -> None:
        world = self._world
        settings = Settings.from_layers(
            [
                (
                    "simulation",
                    {
                        "obey_robots": False,
                        "per_host": world.per_host,
                        "delay_seconds": world.delay_seconds,
                        "lease_seconds": 3600.0,
                    },
                )
            ]
        )
        await self._frontier.begin(JobSpec(name="simulation", spider="", settings=settings.job_wide()))
        grant = await self._frontier.lease("seeder", 1)
        for first in range(0, world.hosts, _ADDED_AT_ONCE):
            keys = [f"http://h{number}.sim" for number in range(first, min(first + _ADDED_AT_ONCE, world.hosts))]
            # Two requests per host, so that one waits while the first is in flight.
            await self._frontier.add([self._entry(key) for key in keys for _ in range(2)])
        seeded = [Outcome(lease=lease, ending=Ending.DONE) for lease in grant.leases if lease.work is Work.SEED]
        await self._frontier.commit("seeder", seeded)

    def _entry(self, host_key: str) -> Entry:
        number = self._next_page.get(host_key, 0)
        self._next_page[host_key] = number + 1
        url = f"{host_key}/{number}"
        return Entry(RequestId(self._chance.getrandbits(63)), host_key, 0, url.encode())

    # ---- workers

    def _at(self, when: float, happens: Callable[[], Awaitable[None] | None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens))

    def _asking(self, worker: _Worker) -> Callable[[], Awaitable[None] | None]:
        def ask() -> Awaitable[None] | None:
            # Another answer may have come first and changed the time at which this worker asks.
            return self._ask(worker) if worker.ask_at <= self._now or worker.flush_at <= self._now else None

        return ask

    async def _ask(self, worker: _Worker) -> None:
        """Commit ended requests and lease new ones."""
        outcomes, worker.ended, worker.flush_at = worker.ended, [], float("inf")
        want = self._world.concurrency - worker.under_way
        if outcomes:
            answer = await self._timed(self._frontier.commit(worker.name, outcomes, want, self._call))
            assert all(answer.accepted), "nobody was lost, so nothing is refused"
            self._count(len(outcomes))
            grant = answer.grant
        else:
            grant = await self._timed(self._frontier.lease(worker.name, want, self._call))
        if grant is not None:
            self._take(worker, grant)

    async def _timed(self, call: Awaitable[T]) -> T:
        began = time.process_time()
        answer = await call
        self._frontier_seconds += time.process_time() - began
        self.found.calls += 1
        return answer

    def _count(self, pages: int) -> None:
        found, tenth = self.found, max(1, self._world.pages // 10)
        before = found.pages // tenth
        found.pages += pages
        if found.pages // tenth > before:
            used = self._frontier_seconds + self._store_cpu()
            found.us_per_page.append((used - self._tenth_began) / tenth * 1e6)
            self._tenth_began = used
            found.tenth_seconds.append(self._now)

    def _take(self, worker: _Worker, grant: Grant) -> None:
        for lease in grant.leases:
            worker.under_way += 1
            start = self._now + self._chance.random() * (lease.start_seconds or 0.0)
            self._at(start, self._starting(worker, lease))
        if worker.under_way < self._world.concurrency:
            worker.ask_at = self._now + pause_seconds(grant.ask_again_seconds, grant.workers, self._chance.random())
            self._at(worker.ask_at, self._asking(worker))
        else:
            worker.ask_at = float("inf")

    def _starting(self, worker: _Worker, lease: Lease) -> Callable[[], None]:
        def start() -> None:
            key, found = lease.host_key, self.found
            if key in self._last_start:
                found.smallest_gap_seconds = min(found.smallest_gap_seconds, self._now - self._last_start[key])
            self._last_start[key] = self._now
            self._in_flight[key] = self._in_flight.get(key, 0) + 1
            found.most_in_flight = max(found.most_in_flight, self._in_flight[key])
            self._at(self._now + self._latency(key), self._ending(worker, lease))

        return start

    def _latency(self, key: str) -> float:
        slow = SLOWNESS if zlib.crc32(key.encode()) % 100 < 100 * SLOW_SHARE else 1.0
        return self._chance.expovariate(1.0) * self._world.latency_seconds * slow / MEAN_SLOWNESS

    def _ending(self, worker: _Worker, lease: Lease) -> Callable[[], Awaitable[None] | None]:
        def end() -> Awaitable[None] | None:
            key = lease.host_key
            self._in_flight[key] -= 1
            self._served[key] = self._served.get(key, 0) + 1
            worker.under_way -= 1
            links = [self._entry(key) for _ in range(self._world.links_per_page)]
            news = HostNews(answered=True, latency_seconds=self._world.latency_seconds)
            worker.ended.append(Outcome(lease=lease, ending=Ending.DONE, links=links, news=news))
            if len(worker.ended) >= min(MOST_OUTCOMES, max(1, worker.under_way)):
                return self._ask(worker)
            if worker.flush_at == float("inf"):
                worker.flush_at = self._now + SOON_SECONDS
                self._at(worker.flush_at, self._asking(worker))
            return None

        return end
