"""The permit of a node with a coordinator: no starts while it is suspended, and nothing in flight after its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from skitter.cluster.clock import now_seconds
from skitter.model.worker import WaitsFor
from skitter.spiders.base import Spider
from skitter.worker.start_permit import StartPermit, new_permit


class Pages(Spider):
    start_urls = ("http://a.example/0", "http://b.example/1")

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}


@pytest.fixture
def sides() -> Iterator[tuple[StartPermit, StartPermit]]:
    """The node's view of a permit, and a worker's."""
    descriptor = new_permit()
    yield StartPermit(descriptor), StartPermit(descriptor)
    os.close(descriptor)


def test_a_worker_begins_with_a_valid_permit_and_only_then(sides: Any) -> None:
    node, worker = sides
    assert not worker.begin()
    assert worker.has_ended
    node.extend(now_seconds() + 60)
    assert worker.begin()
    assert worker.is_valid
    assert not worker.has_ended


def test_a_suspended_permit_starts_nothing_and_is_valid_again_with_the_next_renewal(sides: Any) -> None:
    node, worker = sides
    node.extend(now_seconds() + 60)
    worker.begin()
    node.suspend()
    assert not worker.is_valid
    assert not worker.has_ended
    node.extend(now_seconds() + 60)
    assert worker.is_valid


@pytest.mark.parametrize("how", ["by its node", "by the clock"])
def test_a_permit_that_has_ended_never_comes_back_for_its_worker(sides: Any, how: str) -> None:
    """Others may have its leases: whoever goes on under its name could lose those that are new as well."""
    node, worker = sides
    node.extend(now_seconds() + 60)
    worker.begin()
    if how == "by its node":
        node.end()
    else:
        node.extend(now_seconds() - 0.001)
        assert worker.has_ended
    node.extend(now_seconds() + 60)
    assert worker.has_ended
    assert not worker.is_valid
    assert worker.begin(), "but for the next one it does"
    assert worker.is_valid


async def test_a_worker_without_a_coordinator_leases_nothing_until_it_is_back(crawl: Any, sides: Any) -> None:
    node, permit = sides
    node.extend(now_seconds() + 60)
    permit.begin()
    await crawl.begin(Pages())
    crawl.fetcher.answers |= {"/0": 200, "/1": 200}
    worker = crawl.worker(permit=permit)
    node.suspend()
    running = crawl.start(worker)
    await crawl.until(lambda: worker.heartbeat().waits_for == WaitsFor.COORDINATOR)
    for _ in range(20):
        await crawl.elapse(1.0)
    assert (await crawl.frontier.counts()).leased == 0
    assert not crawl.fetcher.requests
    node.extend(now_seconds() + 60)
    await running
    assert sorted(crawl.fetcher.paths) == ["/0", "/1"]


async def test_at_the_end_of_the_permit_a_worker_breaks_off_and_hands_back_without_a_loss(
    crawl: Any, sides: Any
) -> None:
    node, permit = sides
    node.extend(now_seconds() + 60)
    permit.begin()
    await crawl.begin(Pages(), shutdown_seconds=1000)
    broken_off = []

    async def endless(request: Any) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            broken_off.append(request.url)
        return 200

    crawl.fetcher.answers |= {"/0": endless, "/1": endless}
    worker = crawl.worker(permit=permit)
    running = crawl.start(worker)
    await crawl.until(lambda: crawl.fetcher.in_flight == 2)
    node.end()
    await asyncio.wait_for(running, 60)
    assert len(broken_off) == 2
    assert worker.cut_off
    assert worker.why_it_ended() == "its node has lost the coordinator"
    counts = await crawl.frontier.counts()
    assert (counts.leased, counts.queued) == (0, 2)
    crawl.fetcher.answers |= {"/0": 200, "/1": 200}
    await crawl.elapse(5.0)
    await crawl.run(crawl.worker("w2"))
    assert (await crawl.frontier.counts()).done == 2
