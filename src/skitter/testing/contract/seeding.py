"""The seeding is itself a lease, open until the spider's ``start()`` is committed."""

from __future__ import annotations

from skitter.model.job import Begun, State
from skitter.model.lease import Work
from skitter.model.outcome import Ending
from skitter.policy.lost_leases import LOSSES_BEFORE_ALONE, LOSSES_IN_ALL, LOSSES_WHILE_ALONE
from skitter.testing.contract.client import names_of
from skitter.testing.contract.store import ContractStore


class Seeding:
    """A job is seeded once, even if workers die meanwhile."""

    async def test_one_worker_gets_the_seeding(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.begin()
        assert await first.names("w1") == ["seeding"]
        assert await second.names("w2") == []
        assert (await first.frontier.job()).seeding
        assert (await first.counts()).seen == 0

    async def test_the_job_is_not_finished_while_the_seeding_is_open(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        seeding = await client.one("w")
        assert await client.end(seeding, links=["a/1"], more=True)
        await client.end(await client.one("w2"))
        assert (await client.counts()).unfinished == 0
        assert await client.state() is State.RUNNING
        assert await client.end(seeding)
        assert await client.state() is State.FINISHED
        assert not (await client.frontier.job()).seeding

    async def test_its_parts_start_the_crawl_before_it_is_over(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        seeding = await client.one("w")
        await client.end(seeding, links=["a/1", "a/2"], more=True)
        assert await client.names("w") == ["a/1", "a/2"]
        await client.end(seeding, links=["a/2", "a/3"])
        assert await client.names("w") == ["a/3"]

    async def test_a_resumed_job_does_not_seed_twice(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.end(await client.one())
        again = store.client()
        assert await again.begin() is Begun.RESUMED
        assert await again.names() == ["a/2"]

    async def test_a_lost_seeding_is_leased_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin(lease_seconds=0.5)
        old = await client.one("w1")
        await client.end(old, links=["a/1"], more=True)
        await store.elapse(0.6)
        leases = await client.lease("w2", 1)
        assert names_of(leases) == ["seeding"]
        assert not await client.end(old, links=["b/1"])
        assert await client.end(leases[0], links=["a/1", "a/2"])
        assert sorted(await client.names("w2")) == ["a/1", "a/2"]

    async def test_a_released_seeding_is_leased_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        for _ in range(6):
            await client.release(await client.one())
        assert await client.names() == ["seeding"]

    async def test_a_start_that_keeps_killing_its_worker_ends(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        await client.add("a/1")
        fates: list[list[str]] = []
        for _ in range(LOSSES_IN_ALL):
            assert (await client.frontier.job()).seeding
            leases = await client.lease("w")
            fates.append(names_of(leases))
            await client.lose("w")
        assert not (await client.frontier.job()).seeding
        assert fates == [["seeding", "a/1"]] * LOSSES_BEFORE_ALONE + [["seeding"]] * LOSSES_WHILE_ALONE
        assert "start()" in (await client.frontier.job()).reason
        await client.end(await client.one("w"))
        assert await client.state() is State.FINISHED
        assert (await client.counts()).done == 1, "its neighbours survive"

    async def test_a_suspect_seeding_waits_for_a_worker_that_holds_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        for _ in range(2):
            assert await client.names("dead") == ["seeding"]
            await client.lose("dead")
        await client.add("a/1", "a/2")
        await client.release(await client.one("w1"))
        assert await client.names("w2") == ["seeding"]
        held = await client.lease("w1", 1)
        await client.lose("w2")
        assert names_of(held) == ["a/1"]
        assert await client.names("w1") == [], "it drains"
        await client.end_all(held)
        assert await client.names("w1") == ["seeding"]
        assert await client.names("w1") == []

    async def test_kills_by_the_operator_do_not_end_the_seeding(self, store: ContractStore) -> None:
        client = store.client()
        for number in range(6):
            assert await client.begin() is (Begun.RESUMED if number else Begun.NEW)
            assert await client.names("w") == ["seeding"]
            await client.lose("w")
        assert (await client.frontier.job()).seeding

    async def test_a_long_seeding_does_not_hold_up_its_worker(self, store: ContractStore) -> None:
        """A suspect waits for a worker that holds nothing else, but a worker that seeds holds the seeding for hours."""
        client = store.client()
        await client.begin()
        await client.add("a/1")
        seeding = await client.one("w")
        assert seeding.work is Work.SEED
        for _ in range(2):
            await client.one("dead")
            await client.lose("dead")
        await client.add("b/1")
        assert await client.names("w") == ["b/1"]
        await client.end(seeding)
        assert await client.names("w") == [], "now it drains for the suspect"

    async def test_a_start_that_fails_is_told(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        await client.end(await client.one(), Ending.FAILED, error_class="callback", error="start() failed: no network")
        job = await client.frontier.job()
        assert (job.state, job.reason) == (State.FINISHED, "start() failed: no network")

    async def test_a_new_run_seeds_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        assert await client.begin() is Begun.RERUN
        assert await client.names() == ["seeding"]
