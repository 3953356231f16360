"""``dedup=bloom`` and ``dedup_seconds``, on every frontier that has them: what a filter costs, what is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rig.contract_stores import MemoryContractStore, UrlContractStore
from skitter.errors import JobError, UsageError
from skitter.model.job import Begun
from skitter.model.outcome import Ending
from skitter.model.request import Fingerprinter, Request
from skitter.testing.contract import Client, ContractStore
from skitter.testing.contract.client import url_of
from skitter.testing.frontiers import drop_job, open_frontier

CARELESS = {"dedup": "bloom", "dedup_capacity": 10, "dedup_error_rate": 0.99}
"""Half of what is new is taken for known."""
KIND = {"dedup": "bloom", "dedup_capacity": 1000}


@pytest_asyncio.fixture(params=["memory", "redis", "shards"])
async def store(request: pytest.FixtureRequest, services: Any) -> AsyncIterator[ContractStore]:
    if request.param == "memory":
        store: ContractStore = MemoryContractStore()
    else:
        url = services.need("redis")["url"] + ("?shards=3" if request.param == "shards" else "")
        await drop_job(url, "job")
        store = UrlContractStore(url)
    yield store
    await store.close()


async def end_all(client: Client) -> None:
    while leases := await client.lease(limit=100):
        for lease in leases:
            await client.end(lease)


def names(start: str, number: int) -> list[str]:
    return [f"h{each % 7}/{start}{each}" for each in range(number)]


async def added(client: Client, some: list[str], **fields: Any) -> int:
    """Without the check of the counts, which takes every entry for new."""
    return await client.frontier.add(await client.entries(some, **fields))


# ---- bloom


async def test_a_filter_takes_new_pages_for_known_at_no_more_than_its_rate(store: ContractStore) -> None:
    client = store.client()
    await client.seeded(*names("old", 300), per_host=1000, dedup="bloom", dedup_capacity=300, dedup_error_rate=0.1)
    await end_all(client)
    new = await added(client, names("new", 2000))
    assert 0.9 * 2000 < new < 2000
    assert await added(client, names("old", 300)) == 0


async def test_what_is_not_done_is_known_exactly(store: ContractStore) -> None:
    client = store.client()
    await client.seeded(*names("a", 200), per_host=1000, **CARELESS)
    assert await client.add(*names("b", 200)) == 200, "nothing is done, so nothing is in the filter"
    assert await client.add(*names("b", 200)) == 0
    leases = await client.lease(limit=50)
    for lease in leases:
        await client.end(lease, Ending.FAILED, error_class="test")
    assert await client.add(*names("b", 200), *names("a", 200)) == 0
    assert await client.frontier.revive() == 50


async def test_seeds_and_unfiltered_requests_are_never_taken_for_known_and_known_exactly(store: ContractStore) -> None:
    client = store.client()
    await client.seeded(*names("a", 300), per_host=1000, **CARELESS)
    await end_all(client)
    assert await added(client, names("link", 300)) < 290, "this filter is careless"
    fingerprinter = Fingerprinter((await client.frontier.job()).secret)
    unfiltered = [fingerprinter.entry(Request(url_of("h1/x"), dont_filter=True), 7, place) for place in range(300)]
    assert await client.frontier.add(await client.entries(names("seed", 300), seed=True)) == 300
    assert await client.frontier.add(unfiltered) == 300
    for _ in range(2):
        assert await client.frontier.add(await client.entries(names("seed", 300), seed=True)) == 0
        assert await client.frontier.add(unfiltered) == 0
        while leases := (await client.frontier.lease("w", 100)).leases:
            await client.frontier.commit("w", [await client.outcome(lease, Ending.DONE) for lease in leases])
    assert await added(client, names("seed", 300)) == 0, "nor as a link"


async def test_people_are_told_what_the_filter_has_and_that_it_may_be_wrong(store: ContractStore) -> None:
    client = store.client()
    await client.seeded(*names("a", 30), per_host=1000, **KIND)
    stats = (await client.frontier.report()).dedup
    assert stats is not None
    assert (stats.items, stats.fill, stats.implied_error_rate, stats.error_rate) == (0, 0.0, 0.0, 0.0001)
    assert 1000 <= stats.capacity <= 1002
    await end_all(client)
    stats = (await client.frontier.report()).dedup
    assert stats is not None
    assert stats.items == 30
    assert stats.fill > 0
    assert (await client.trace("h0/a0")).state == "maybe-seen"
    assert (await client.frontier.trace(await client.id("h0/a0"))).state == "maybe-seen"
    assert await client.frontier.trace(await client.id("h0/b")) is None


async def test_an_exact_job_has_no_filter(store: ContractStore) -> None:
    client = store.client()
    await client.seeded("a/1")
    assert (await client.frontier.report()).dedup is None


async def test_the_dedup_of_a_run_cannot_change_before_it_is_over(store: ContractStore) -> None:
    client = store.client()
    await client.seeded("a/1", **KIND)
    with pytest.raises(JobError, match=r"its dedup cannot change: dedup=bloom, dedup_capacity=1000, "):
        await client.begin()
    with pytest.raises(JobError, match="its dedup cannot change"):
        await client.begin(dedup="bloom", dedup_capacity=2000)
    assert await client.begin(**KIND) is Begun.RESUMED
    assert await client.begin(fresh=True) is Begun.RERUN
    assert (await client.frontier.report()).dedup is None


async def test_a_new_run_has_an_empty_filter(store: ContractStore) -> None:
    client = store.client()
    await client.seeded("a/1", "b/1", **KIND)
    await end_all(client)
    await client.begin(**KIND)
    assert await client.add("a/1", "b/1") == 2


# ---- for a while


async def test_a_page_is_forgotten_some_time_after_it_was_done(store: ContractStore) -> None:
    client = store.client()
    await client.seeded("a/1", "stays/1", dedup_seconds=80, lease_seconds=10_000)
    page = next(lease for lease in await client.lease() if lease.host_key == "http://a.example")
    await store.elapse(500)
    assert await added(client, ["a/1"]) == 0, "its time begins when it ends"
    await client.end(page)
    await store.elapse(80)
    assert await added(client, ["a/1"]) == 0, "never too short"
    assert (await client.trace("a/1")).state == "ended"
    await store.elapse(10)
    assert await client.frontier.trace(await client.id("a/1"), "http://a.example") is None
    assert await added(client, ["a/1"]) == 1, "an eighth too long at most"
    counts = await client.counts()
    assert (counts.queued, counts.leased, counts.done) == (1, 1, 1), "and what has not ended is known for ever"
    assert await added(client, ["a/1", "stays/1"]) == 0


async def test_requests_that_are_dead_excluded_or_delayed_are_never_forgotten(store: ContractStore) -> None:
    client = store.client()
    await client.seeded("a/failed", "b/out", "c/later", "d/queued", dedup_seconds=8, lease_seconds=10)
    for lease in await client.lease(limit=3):
        kind = lease.host_key[7]
        if kind == "a":
            await client.end(lease, Ending.FAILED, error_class="test")
        elif kind == "b":
            await client.end(lease, Ending.EXCLUDED, error_class="test")
        elif kind == "c":
            await client.retry(lease, 5000)
    await store.elapse(1000)
    assert await added(client, ["a/failed", "b/out", "c/later", "d/queued"]) == 0
    assert await client.frontier.revive() == 1


async def test_a_page_that_came_again_is_a_request_like_any_other(store: ContractStore) -> None:
    client = store.client()
    await client.seeded("a/1", dedup_seconds=8)
    for number in range(5):
        await client.end(await client.one(), items=[])
        await store.elapse(10)
        assert await added(client, ["a/1"]) == 1
        # One more that was ever added, although its name is that of the others.
        client.remember(await client.entries([f"a/1-again-{number}"]))
    counts = await client.counts()
    assert (counts.done, counts.queued) == (5, 1)


async def test_a_grant_tells_the_time_of_the_store(store: ContractStore) -> None:
    client = store.client()
    await client.seeded("a/1", dedup_seconds=80)
    before = (await client.grant(limit=0)).now
    await store.elapse(25)
    assert (await client.grant(limit=0)).now - before == pytest.approx(25)


# ---- what does not go


async def test_sqlite_refuses_with_a_hint(tmp_path: Path) -> None:
    frontier = open_frontier(f"sqlite:{tmp_path / 'job.db'}", "job")
    client = Client(frontier, "job", set())
    for settings, name in ((KIND, "dedup=bloom"), ({"dedup_seconds": 5}, "dedup_seconds")):
        with pytest.raises(UsageError, match=f"not available with a SQLite frontier: {name}") as caught:
            await client.begin(**settings)
        assert "--frontier redis://" in caught.value.hint
    await client.begin()
    await frontier.close()


async def test_a_filter_cannot_forget(store: ContractStore) -> None:
    with pytest.raises(UsageError, match="cannot be combined: dedup=bloom and dedup_seconds"):
        await store.client().begin(dedup="bloom", dedup_seconds=5)
