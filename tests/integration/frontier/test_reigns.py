"""Stores that are promoted, taken back and promoted again, in any order: a state machine of reigns on the real scripts.

Workers, their memory of URLs and a delivery work at a web in which exactly one link leads to each page: a link that
is lost is a page that is missing. Between any two steps a server may be replaced by one that has everything, or by one
that lacks the newest steps, there and back; run ids return. At the end the file is compared with the web.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.rewound_redis import SETTINGS, RewoundRedis
from rig.servers.redis import OwnRedis
from rig.soak import chance_of
from skitter.model.item import NewItem
from skitter.model.job import JobSpec, State
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.testing.frontiers import open_frontier
from skitter.testing.outputs import Delivery, file_sink
from skitter.testing.redis_jobs import open_spread_frontier
from skitter.worker.commit_queue import CommitQueue, Ended
from skitter.worker.known_urls import KnownUrls
from skitter.worker.url_table import UrlTable, new_table

PAGES, HOSTS, STEPS = 70, 5, 60
STEPS_BY_NAME = "lease extract commit commit deliver deliver reopen kill promote promote lose".split()
SEEDS = 4
"""Seeds of ``make test``; each run of the soak has others."""


def url_of(page: int) -> str:
    return f"http://h{page % HOSTS}.example/{page}"


def links_of(page: int) -> list[str]:
    """One link leads to each page, and one from each page to the first."""
    return [url_of(child) for child in (2 * page + 1, 2 * page + 2) if child < PAGES] + [url_of(0)]


class Worker:
    """The part of a worker that talks to the store: it leases, leaves out links that it knows, and commits."""

    def __init__(self, name: str, frontier: Any, fingerprinter: Fingerprinter, table: int) -> None:
        self._fingerprinter = fingerprinter
        self._known = KnownUrls(UrlTable(table, b"a secret of the job", 1), shared=True)
        self.queue = CommitQueue(name, frontier, self._known)
        self.name = name

    async def lease(self, limit: int) -> State:
        grant = await self.queue.lease(limit)
        self.queue.meet(grant)
        self.queue.held.update((lease.epoch, lease) for lease in grant.leases)
        return grant.state

    def extract(self) -> None:
        """Run the callbacks of all pages that are held: what is known by now is not sent."""
        for lease in self.queue.held.values():
            if all(lease is not outcome.lease for outcome, _ in self.queue.outcomes):
                self.queue.outcomes.append(self._ended(lease))

    def _ended(self, lease: Lease) -> Ended:
        if lease.work is Work.SEED:
            return Outcome(lease=lease, ending=Ending.DONE, links=[self._fingerprinter.entry(Request(url_of(0)))]), []
        page = int(lease.request.url.rpartition("/")[2])
        urls = self._known.unknown(links_of(page))
        links = [self._fingerprinter.entry(Request(url)) for url in urls]
        item = msgspec.msgpack.encode({"page": page})
        return Outcome(lease=lease, ending=Ending.DONE, links=links, items=[NewItem(item)]), urls

    async def commit(self) -> None:
        if batch := self.queue.take_outcomes():
            await self.queue.commit(batch, 0)


@dataclass
class Crawl:
    """A job, two workers of one node, and a delivery to a file."""

    servers: list[RewoundRedis]
    frontier: Any
    target: Path
    chance: random.Random
    trace: list[str] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    served: int = 0

    async def begin(self) -> None:
        settings = {"obey_robots": False, "delay_seconds": 0.0, "per_host": 4, "max_outbox_items": 25}
        await self.frontier.begin(JobSpec(name="job", spider="", settings=settings), sinks=[str(self.target)])
        self._fingerprinter = Fingerprinter((await self.frontier.job()).secret)
        self._table = new_table(1000)
        self.workers = [self._new_worker() for _ in range(2)]
        await self._open_delivery()

    async def _open_delivery(self) -> None:
        sink = file_sink(str(self.target), overwrite=False, job="job")
        self.delivery = Delivery(self.frontier, [sink], "me", batch=3)
        await self.delivery.open()

    def _new_worker(self) -> Worker:
        self.served += 1
        return Worker(f"w{self.served}", self.frontier, self._fingerprinter, self._table)

    async def step(self, *, may_lose: bool) -> None:
        """One random step."""
        worker = self.chance.choice(self.workers)
        name = self.chance.choice(
            "lease extract commit commit deliver deliver reopen kill promote promote lose".split()
        )
        server, lost, moves = self.chance.choice(self.servers), 0, self.chance.random() < 0.7
        match name:
            case "lease":
                await worker.lease(self.chance.randint(1, 6))
            case "extract":
                worker.extract()
            case "commit":
                worker.extract()
                await worker.commit()
            case "deliver":
                await self.delivery.step()
            case "kill":
                self.workers[self.workers.index(worker)] = self._new_worker()
                await self.frontier.release_worker(worker.name)
            case "promote":
                server.promote(moves=moves)
            case "reopen" if not may_lose:
                # A writer that dies before the pages that a store has lost come again writes them twice.
                await self.delivery.close()
                await self._open_delivery()
            case "lose" if may_lose:
                server.promote(lost := self.chance.randint(1, 12), moves=moves)
        self.trace.append(f"{name} {worker.name} {self.servers.index(server)} {lost} {moves}")
        for one in self.servers:
            one.remember()

    async def end(self) -> None:
        """Work until the job is finished and everything is delivered."""
        for worker in self.workers:
            await self.frontier.release_worker(worker.name)
        worker = self._new_worker()
        for _ in range(50 * PAGES):
            for name in (seen.id for seen in await self.frontier.workers() if seen.id != worker.name):
                await self.frontier.release_worker(name)
            if await worker.lease(10) is State.FINISHED:
                break
            worker.extract()
            await worker.commit()
            await self.delivery.step()
        else:
            pytest.fail(f"it stands still: {await self.frontier.counts()}, {await self.frontier.sinks()}")
        await self.delivery.finish()

    def written(self) -> Counter[int]:
        return Counter(json.loads(line)["page"] for line in self.target.read_text().splitlines())


@pytest.fixture
def rewound(own_redis: Callable[..., OwnRedis]) -> Iterator[Callable[[int], list[RewoundRedis]]]:
    with contextlib.ExitStack() as stack:

        def make(count: int) -> list[RewoundRedis]:
            pairs = [[own_redis(*SETTINGS), own_redis(*SETTINGS)] for _ in range(count)]
            return [stack.enter_context(RewoundRedis(pair)) for pair in pairs]

        yield make


@contextlib.asynccontextmanager
async def crawled(
    servers: Sequence[RewoundRedis], target: Path, seed: str, url: str = "", *, may_lose: bool
) -> AsyncIterator[Crawl]:
    """A crawl whose store is replaced in between, and that is then worked to its end."""
    for server in servers:
        server.reset()
    frontier: Any = open_frontier(url, "job") if url else open_spread_frontier([one.url for one in servers], "job")
    crawl = Crawl(list(servers), frontier, target, chance_of(seed))
    try:
        await crawl.begin()
        for server in servers:
            server.remember()
        for _ in range(STEPS):
            await crawl.step(may_lose=may_lose)
        await crawl.end()
        yield crawl
    except BaseException as error:
        error.add_note("\n  ".join([f"seed {seed}:", *crawl.trace]))
        raise
    finally:
        await frontier.close()


@pytest.fixture(params=[SEEDS, pytest.param(150, marks=pytest.mark.soak)])
def seeds(request: pytest.FixtureRequest) -> Sequence[int]:
    return range(request.param)


async def test_a_store_that_loses_its_newest_steps_loses_and_doubles_no_page(
    rewound: Callable[[int], list[RewoundRedis]], tmp_path: Path, seeds: Sequence[int]
) -> None:
    servers = rewound(1)
    for seed in seeds:
        target = tmp_path / f"{seed}.jsonl"
        async with crawled(servers, target, f"one {seed}", servers[0].url, may_lose=True) as crawl:
            assert crawl.written() == Counter(range(PAGES))
            assert (await crawl.frontier.check_consistency()).findings == []


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_store_that_is_promoted_with_everything_loses_and_doubles_no_page(
    rewound: Callable[[int], list[RewoundRedis]], tmp_path: Path, seeds: Sequence[int], shards: int
) -> None:
    servers = rewound(shards)
    url = servers[0].url if shards == 1 else ""
    for seed in seeds:
        target = tmp_path / f"{seed}.jsonl"
        async with crawled(servers, target, f"{shards} shards {seed}", url, may_lose=False) as crawl:
            assert crawl.written() == Counter(range(PAGES))
            assert (await crawl.frontier.check_consistency()).findings == []
            assert not (await crawl.frontier.report()).tally.get("lost_links")


async def test_shards_that_lose_their_newest_steps_double_no_page_and_say_which_links_are_gone(
    rewound: Callable[[int], list[RewoundRedis]], tmp_path: Path, seeds: Sequence[int]
) -> None:
    servers = rewound(3)
    for seed in seeds:
        target = tmp_path / f"{seed}.jsonl"
        async with crawled(servers, target, f"lossy shards {seed}", may_lose=True) as crawl:
            written = crawl.written()
            assert max(written.values(), default=1) == 1
            found = {finding.code for finding in (await crawl.frontier.check_consistency()).findings}
            lost_links = (await crawl.frontier.report()).tally.get("lost_links", 0)
            if len(written) < PAGES:
                assert lost_links
                assert found == {"lost_links"}
