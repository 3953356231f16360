"""Workers on real frontiers, fetching from a synthetic web over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.web import Site as WebSite
from skitter.extract.items import decode_item
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.frontier.clock import StoreClock
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import FailedRequest, JobSpec, State
from skitter.model.page import Page
from skitter.model.url import canonical, host_key
from skitter.settings import Fetch, Settings
from skitter.spiders.base import Spider
from skitter.spiders.site_spider import SiteSpider
from skitter.worker.lease_renewal import renew_while_running
from skitter.worker.loop import Worker

SINK = "out.jsonl"
QUICK = {"retry_delay_seconds": 0.05, "host_backoff_seconds": 0.2, "per_host": 32}


class AheadClock:
    """The time of a store, which a test sets ahead."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def of_store(self) -> StoreClock:
        return StoreClock(lambda: time.time() + self.ahead_seconds, lambda: time.monotonic() + self.ahead_seconds)


class NotingFetcher(CurlFetcher):
    """Notes when requests are at the socket."""

    def __init__(self, settings: Fetch, sent: list[tuple[str, float]]) -> None:
        super().__init__(settings)
        self._sent = sent

    async def fetch(self, request: FetchRequest) -> Page:
        """See ``CurlFetcher``."""
        on_send = request.on_send

        def noted() -> None:
            self._sent.append((host_key(request.url), time.monotonic()))
            if on_send is not None:
                on_send()

        return await super().fetch(msgspec.structs.replace(request, on_send=noted))


class Site:
    """A job on a frontier, with as many workers as a test wants."""

    def __init__(self, frontier: Frontier, reopen: Any, clock: AheadClock) -> None:
        self.clock = clock
        self.sent: list[tuple[str, float]] = []
        """The hosts of requests, and when they were at the socket."""
        self.frontier = frontier
        self.reopen = reopen
        """Another client of the same job, as another process would have."""

    async def begin(
        self, seeds: Iterable[str], spider: Spider | None = None, *, fresh: bool = False, **values: Any
    ) -> None:
        self.spider = spider or SiteSpider()
        self._by_seeds = spider is None
        self.spider.start_urls = list(seeds)
        self.settings = Settings.from_layers([("test", QUICK | values)])
        spec = JobSpec(name="job", spider="", settings=self.settings.job_wide())
        await self.frontier.begin(spec, fresh=fresh, sinks=[SINK])
        self.job = await self.frontier.job()

    @contextlib.asynccontextmanager
    async def worker(self, name: str = "w1") -> AsyncIterator[Worker]:
        """With a frontier client and a fetcher of its own."""
        source, fetcher = self.reopen(), NotingFetcher(self.settings.fetch, self.sent)
        worker = Worker(
            name,
            source=source,
            fetcher=fetcher,
            spider=self.spider,
            job=self.job,
            settings=self.settings,
            by_seeds=self._by_seeds,
        )
        lease_seconds = self.settings.limits.lease_seconds
        renewing = asyncio.create_task(renew_while_running(worker, source, lease_seconds, worker.lost))
        try:
            yield worker
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            await fetcher.close()
            await source.close()

    async def crawl(self, *names: str) -> set[State]:
        """With these workers, to the end."""

        async def run(name: str) -> State:
            async with self.worker(name) as worker:
                return await worker.run()

        async with asyncio.timeout(60):
            return set(await asyncio.gather(*map(run, names or ("w1",))))

    async def records(self) -> list[dict[str, Any]]:
        assert await self.frontier.open_sink(SINK, "test") is not None
        return [decode_item(item.record) for item in await self.frontier.items(SINK, "test", 100_000) or []]

    async def done(self) -> list[str]:
        """The URLs of all records, in canonical form."""
        return [canonical(record["url"]) for record in await self.records()]

    async def failures(self) -> dict[str, FailedRequest]:
        return {canonical(failed.url): failed for failed in await self.frontier.failures(limit=10_000)}


@pytest.fixture(params=["memory", "sqlite"])
async def site(request: Any, tmp_path: Path) -> AsyncIterator[Site]:
    clock = AheadClock()
    if request.param == "memory":
        store = MemoryStore(clock.of_store())
        frontier: Frontier = memory_frontier("job", store)
        site = Site(frontier, lambda: memory_frontier("job", store), clock)
    else:
        path = tmp_path / "job.db"
        frontier = sqlite_frontier(path, "job", clock=clock.of_store())
        site = Site(frontier, lambda: sqlite_frontier(path, "job", create=False, clock=clock.of_store()), clock)
    yield site
    await frontier.close()


@pytest.fixture
def host(make_site: Callable[..., WebSite]) -> WebSite:
    """A web server; ``site`` is the job that crawls it."""
    return make_site()
