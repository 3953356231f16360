"""The consistency check of a job in Redis that is larger than one piece, while others work at it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.redis import consistency, redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import prefixes_of
from skitter.model.job import JobSpec
from skitter.model.lease import Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.redis_driver.address import parse_address

HOSTS = 600
"""More than a hash or a set has in one piece, however small the pieces are."""
QUEUE = 700
"""Requests of one of them."""


class Store:
    """The job, and a connection to its Redis."""

    def __init__(self, url: str) -> None:
        self.shards = parse_address(url).shards or 1
        self.frontier: Frontier = redis_frontier(url, "large")
        self.server = RedisServer(parse_address(url))
        self.entries: list[Entry] = []

    async def fill(self) -> None:
        await self.server.command("FLUSHALL")
        await self.frontier.begin(JobSpec(name="large", spider="", settings={"obey_robots": False, "delay_seconds": 0}))
        entry = Fingerprinter((await self.frontier.job()).secret).entry
        urls = [f"http://h{number}.example/" for number in range(HOSTS)]
        self.entries = [entry(Request(url)) for url in [*urls, *(f"http://h0.example/{n}" for n in range(QUEUE))]]
        (seeding,) = (await self.frontier.lease("w", 1)).leases
        await self.frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE, links=self.entries)])

    async def crawl(self, worker: str, *, pages: float = math.inf) -> None:
        """Lease and commit, as a worker does; every page has a link to another one."""
        entry = Fingerprinter((await self.frontier.job()).secret).entry
        ended = 0
        while ended < pages:
            outcomes = []
            for lease in (await self.frontier.lease(worker, 10)).leases:
                assert lease.work is Work.PAGE
                links = [entry(Request(f"{lease.request.url}{worker}"))]
                ending = Ending.RETRY if lease.id % 7 == 0 else Ending.DONE
                news = HostNews(answered=True)
                outcomes.append(Outcome(lease=lease, ending=ending, links=links, news=news, retry_seconds=0.01))
            ended += len(outcomes)
            await self.frontier.commit(worker, outcomes)

    async def close(self) -> None:
        await self.frontier.close()
        await self.server.close()


@pytest_asyncio.fixture(params=["", "?shards=3"])
async def store(request: Any, services: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr(consistency, "PIECE", 40)
    monkeypatch.setattr(consistency, "_KEYS_AT_ONCE", 16)
    store = Store(services.need("redis")["url"] + request.param)
    await store.fill()
    yield store
    await store.close()


async def test_every_piece_is_looked_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "COUNTED_AT_ONCE", 1)
    await store.crawl("w", pages=300)
    report = await store.frontier.check_consistency()
    counts = await store.frontier.counts()
    assert (report.findings, report.unchecked) == ([], [])
    assert report.checked["hosts"] == HOSTS
    assert report.checked["requests"] == counts.seen
    looked_at = report.checked["queued requests"] + report.checked["records of requests"]
    assert looked_at == counts.queued + counts.delayed + counts.failed


async def test_a_fault_deep_in_a_queue_is_found_and_mended(store: Store) -> None:
    for number in (200, HOSTS + 300):
        removed = 0
        for prefix in prefixes_of("large", store.shards):
            for key in await store.server.command("KEYS", f"{prefix}1:seen:*"):
                removed += await store.server.command("SREM", key, store.entries[number].id)
        assert removed == 1
    report = await store.frontier.check_consistency()
    assert report.counts == {"not_seen": 2}
    assert (await store.frontier.check_consistency(repair=True)).mended == 2
    assert (await store.frontier.check_consistency()).findings == []


async def test_nothing_is_found_while_others_work_at_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be counted at one instant is named, and is no finding."""
    monkeypatch.setattr(consistency, "COUNTED_AT_ONCE", 20)
    working = [asyncio.create_task(store.crawl(worker)) for worker in ("one", "two")]
    for _ in range(2):
        before = (await store.frontier.counts()).done
        report = await store.frontier.check_consistency()
        assert report.findings == []
        assert set(report.unchecked) <= {"counts of requests: the job changed all the while"}
        assert (await store.frontier.counts()).done > before
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    report = await store.frontier.check_consistency()
    assert (report.findings, report.unchecked) == ([], [])
