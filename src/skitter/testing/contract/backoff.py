"""Backoff: a host that asks for a pause or cannot be reached is left alone by every worker."""

from __future__ import annotations

import pytest

from skitter.model.job import State
from skitter.model.lease import Lease
from skitter.model.outcome import Ending
from skitter.policy.politeness import BLOCK_LIMIT
from skitter.testing.contract.client import Client, names_of
from skitter.testing.contract.store import ContractStore

DAY = 86_400.0


async def paused_for(store: ContractStore, client: Client, seconds: float) -> Lease:
    """Check that nothing is leased for this long, and return the lease that follows."""
    await store.elapse(seconds - 0.05)
    assert await client.names() == [], f"blocked for {seconds} s"
    await store.elapse(0.1)
    return await client.one()


class Blocks:
    """Tests of 429, 503 and Retry-After."""

    async def test_a_pause_the_host_names_holds_for_every_worker(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "b/1")
        lease, *others = await first.lease("w1", 2)
        await first.blocked(lease, 1.0)
        assert [name for name in await second.names("w2") if name.startswith("a/")] == []
        await first.end_all(others)
        assert names_of([await paused_for(store, second, 1.0)]) == ["a/1"]

    async def test_a_pause_is_at_most_a_day(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.blocked(await client.one(), 10 * DAY)
        await paused_for(store, client, DAY)

    async def test_a_pause_without_a_name_doubles(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", host_backoff_seconds=60)
        lease = await client.one()
        for pause in (60.0, 120.0, 240.0):
            await client.blocked(lease)
            lease = await paused_for(store, client, pause)

    async def test_a_doubled_pause_is_at_most_a_day(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", host_backoff_seconds=50_000)
        await client.blocked(await client.one())
        await client.blocked(await paused_for(store, client, 50_000))
        await paused_for(store, client, DAY)

    async def test_a_pause_of_zero_names_none(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", host_backoff_seconds=1.0)
        await client.blocked(await client.one(), 0.0)
        await paused_for(store, client, 1.0)

    async def test_requests_from_before_the_block_do_not_double_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(8)), host_backoff_seconds=1.0)
        for lease in await client.lease():
            await client.blocked(lease)
        lease = await paused_for(store, client, 1.0)
        await client.blocked(lease)
        await paused_for(store, client, 2.0)

    async def test_a_named_pause_counts_though_it_was_told_to_an_older_request(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", host_backoff_seconds=1.0)
        first, second = await client.lease()
        await client.blocked(first)
        await client.blocked(second, 1.5)
        await paused_for(store, client, 1.5)

    async def test_a_shorter_pause_does_not_shorten_a_longer_one(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        first, second = await client.lease()
        await client.blocked(first, 1.5)
        await client.blocked(second, 0.2)
        await paused_for(store, client, 1.5)

    async def test_a_block_spends_no_attempt(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_attempts=2)
        for _ in range(4):
            lease = await client.one()
            assert lease.attempts == 0
            await client.blocked(lease, 0.1)
            await store.elapse(0.15)
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (0, 1)

    async def test_each_normal_answer_halves_the_next_pause(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(6)), host_backoff_seconds=0.5, per_host=1)
        await client.blocked(await client.one())
        await client.blocked(await paused_for(store, client, 0.5))
        await client.blocked(await paused_for(store, client, 1.0))
        await client.answered(await paused_for(store, client, 2.0))
        await client.blocked(await client.one())
        await client.answered(await paused_for(store, client, 2.0))
        for _ in range(3):
            await client.answered(await client.one())
        await client.blocked(await client.one())
        await paused_for(store, client, 0.5)

    async def test_an_answer_to_a_request_from_before_the_block_forgives_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", host_backoff_seconds=0.5)
        leases = await client.lease()
        await client.blocked(leases[0])
        for lease in leases[1:]:
            await client.answered(lease)
        await client.blocked(await paused_for(store, client, 0.5))
        await paused_for(store, client, 1.0)

    async def test_blocks_with_an_answer_between_do_not_end_a_host(self, store: ContractStore) -> None:
        client = store.client()
        rounds = 3
        await client.seeded(*(f"a/{number}" for number in range(20)), host_backoff_seconds=0.01, per_host=1)
        for _ in range(rounds):
            for _ in range(BLOCK_LIMIT - 1):
                await store.elapse(DAY)
                await client.blocked(await client.one(), 0.1)
            await store.elapse(DAY)
            await client.answered(await client.one())
        counts = await client.counts()
        # The request that was blocked seven times in a row is also the one that was answered then, so none is lost to
        # blocks.
        assert (counts.failed, counts.done, counts.queued) == (0, rounds, 20 - rounds)

    async def test_the_back_off_is_forgiven_in_a_new_run(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", host_backoff_seconds=0.5)
        await client.blocked(await client.one())
        await client.blocked(await paused_for(store, client, 0.5))
        await store.elapse(1.1)
        await client.begin(fresh=True, host_backoff_seconds=0.5)
        await client.end(await client.one(), links=["a/1"])
        await client.blocked(await client.one())
        await paused_for(store, client, 0.5)

    async def test_the_back_off_is_forgiven_when_the_dead_are_revived(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", host_backoff_seconds=0.5)
        first, second = await client.lease()
        await client.end(second, Ending.FAILED, error_class="http_4xx")
        await client.blocked(first)
        await client.blocked(await paused_for(store, client, 0.5))
        await client.frontier.revive()
        await client.blocked(await paused_for(store, client, 1.0))
        await paused_for(store, client, 0.5)

    async def test_a_host_that_only_blocks_is_given_up_with_its_queue(self, store: ContractStore) -> None:
        client = store.client()
        names = [f"a/{number}" for number in range(20)]
        await client.seeded(*names, "b/1", per_host=1)
        for _ in range(BLOCK_LIMIT):
            lease = next(lease for lease in await client.lease() if lease.host_key == "http://a.example")
            assert (await client.counts()).failed == 0
            await client.blocked(lease, 0.1)
            await store.elapse(0.15)
        counts = await client.counts()
        assert (counts.failed, counts.queued, counts.leased) == (20, 0, 1)
        assert {record.error_class for record in await client.frontier.failures()} == {"http_4xx"}
        assert await client.frontier.revive() == 20
        assert await client.names("w2") == ["a/0"]

    async def test_a_request_that_is_always_blocked_dies_though_its_host_answers_others(
        self, store: ContractStore
    ) -> None:
        client = store.client()
        await client.seeded("a/bad", *(f"a/{number}" for number in range(20)), per_host=2)
        for _ in range(BLOCK_LIMIT):
            bad, good = await client.lease()
            assert names_of([bad]) == ["a/bad"], "it keeps its place"
            await client.blocked(bad, 0.1)
            await client.answered(good)
            await store.elapse(0.15)
        assert (await client.trace("a/bad")).state == "failed"
        counts = await client.counts()
        assert (counts.failed, counts.done, counts.queued) == (1, BLOCK_LIMIT, 20 - BLOCK_LIMIT)

    async def test_a_block_survives_a_new_run(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.blocked(await client.one(), 1.0)
        await client.begin(fresh=True)
        await client.add("a/1")
        assert await client.names() == ["seeding"]
        await paused_for(store, client, 1.0)

    async def test_a_revived_request_still_waits_for_a_pause_the_host_named(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        first, second = await client.lease()
        await client.end(first, Ending.FAILED, error_class="http_4xx")
        await client.blocked(second, 1.0)
        assert await client.frontier.revive() == 1
        await paused_for(store, client, 1.0)

    async def test_a_host_seen_by_people_tells_its_trouble(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", "b/2")
        leases = {names_of([lease])[0]: lease for lease in await client.lease()}
        await client.answered(leases["b/1"], 0.25)
        await client.blocked(leases["a/1"], 60)
        worst, slow = (await client.frontier.report()).hosts
        assert (worst.key, worst.strikes, worst.error_class) == ("http://a.example", 1, "http_4xx")
        assert 55 < worst.blocked_seconds <= 60
        assert (slow.key, slow.strikes, slow.latency_seconds, slow.in_flight) == ("http://b.example", 0, 0.25, 1)


class Unreachable:
    """A host that cannot be reached is down as a whole; its URLs spend no attempts."""

    async def test_an_unreachable_host_rests_as_a_whole(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", retry_delay_seconds=1.0, per_host=1)
        lease = await client.one()
        for pause in (1.0, 2.0, 4.0):
            await client.unreachable(lease)
            lease = await paused_for(store, client, pause)

    async def test_many_failures_of_one_moment_are_one_piece_of_news(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(8)), retry_delay_seconds=1.0, max_attempts=2)
        for lease in await client.lease():
            await client.unreachable(lease)
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (0, 8)
        attempts = [(await client.trace(f"a/{number}")).attempts for number in range(8)]
        assert sum(attempts) == 1
        await paused_for(store, client, 1.0)

    async def test_a_host_that_stays_away_takes_its_queue_with_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", "b/1", max_attempts=3, retry_delay_seconds=0.1, per_host=2)
        leases = {names_of([lease])[0]: lease for lease in await client.lease()}
        await client.retry(leases["a/1"], 1000)
        await client.unreachable(leases["a/2"])
        for _ in range(2):
            await store.elapse(1.0)
            lease, other = await client.lease()
            await client.release(other)
            await client.unreachable(lease, "dns")
        counts = await client.counts()
        assert (counts.failed, counts.queued, counts.delayed, counts.leased) == (4, 0, 0, 1)
        classes = {record.url[-1]: record.error_class for record in await client.frontier.failures()}
        assert classes == dict.fromkeys("1234", "dns"), "also the one that waited for its retry"
        await client.end(leases["b/1"])
        assert await client.state() is State.FINISHED

    async def test_what_is_still_in_flight_when_a_host_goes_down_dies_with_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_attempts=1, retry_delay_seconds=0.1)
        first, second = await client.lease()
        await client.unreachable(first)
        await client.unreachable(second)
        assert (await client.counts()).failed == 2

    async def test_what_is_in_flight_when_a_host_goes_down_may_still_succeed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_attempts=1)
        first, second = await client.lease()
        await client.unreachable(first)
        assert await client.answered(second)
        assert (await client.counts()).done == 1

    async def test_a_host_that_was_down_is_tried_anew_after_revive(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", max_attempts=2, retry_delay_seconds=0.1, per_host=1)
        for _ in range(2):
            await client.unreachable(await client.one())
            await store.elapse(0.5)
        assert (await client.counts()).failed == 3
        assert await client.frontier.revive() == 3
        await client.unreachable(await client.one())
        assert (await client.counts()).failed == 0, "one new failure is not two"
        await store.elapse(0.5)
        await client.answered(await client.one())

    async def test_an_answer_forgives(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(9)), max_attempts=2, retry_delay_seconds=0.1)
        for _ in range(4):
            bad, good = await client.lease(limit=2)
            await client.unreachable(bad)
            await client.answered(good)
            await store.elapse(0.5)
            # A page spends its attempts only by its own failures.
            if (await client.trace(names_of([bad])[0])).state == "failed":
                break
        assert (await client.counts()).failed == 1, "the page, never the host"

    @pytest.mark.parametrize("blocks", [1, 4])
    async def test_a_host_that_blocks_can_be_reached(self, store: ContractStore, blocks: int) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_attempts=3, retry_delay_seconds=0.1, per_host=1)
        for _ in range(2):
            await client.unreachable(await client.one())
            await store.elapse(0.5)
        for _ in range(blocks):
            await client.blocked(await client.one(), 0.1)
            await store.elapse(0.5)
        await client.unreachable(await client.one())
        assert (await client.trace("a/1")).state == "failed", "its own third attempt"
        assert (await client.trace("a/2")).state == "queued", "but the host's first failure in a row"
