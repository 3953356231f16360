"""Attempts: when a request is tried again, and when it has failed."""

from __future__ import annotations

from skitter.model.job import State
from skitter.model.outcome import Ending
from skitter.testing.contract.client import name_of, names_of
from skitter.testing.contract.store import ContractStore


class Retries:
    """A retry spends an attempt, and with the last one the request has failed."""

    async def test_a_retry_waits_for_its_time(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        first, second = await client.lease()
        await client.retry(first, 0.5)
        await client.end(second)
        counts = await client.counts()
        assert (counts.delayed, counts.queued) == (1, 0)
        grant = await client.grant()
        assert grant.leases == []
        assert grant.ask_again_seconds <= 0.5
        await store.elapse(0.4)
        assert await client.names() == []
        await store.elapse(0.15)
        assert await client.names() == ["a/1"]

    async def test_retries_do_not_hold_up_their_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", per_host=1)
        await client.retry(await client.one(), 100)
        assert await client.names() == ["a/2"]

    async def test_the_last_attempt_makes_it_dead(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_attempts=3)
        for attempt in range(3):
            assert (await client.counts()).failed == 0
            lease = await client.one()
            assert lease.attempts == attempt
            await client.retry(lease, 0)
        assert (await client.counts()).failed == 1
        assert await client.state() is State.FINISHED
        (failed,) = await client.frontier.failures()
        assert (failed.error_class, failed.error, failed.attempts) == ("timeout", "too slow", 3)

    async def test_one_attempt_may_be_all(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_attempts=1)
        await client.retry(await client.one(), 5)
        assert (await client.counts()).failed == 1

    async def test_a_dead_ending_needs_no_more_attempts(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_attempts=4)
        await client.end(await client.one(), Ending.FAILED, status=404, error_class="http_4xx", error="HTTP 404")
        (failed,) = await client.frontier.failures()
        assert (failed.status, failed.attempts) == (404, 1)

    async def test_a_retry_may_still_succeed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.retry(await client.one(), 0)
        await client.end(await client.one(), status=200)
        trace = await client.trace("a/1")
        told = ("done", 2, "", "") if store.keeps_history else (store.ended_state, 0, "", "")
        assert (trace.state, trace.attempts, trace.error_class, trace.error) == told

    async def test_an_outcome_may_have_its_own_number_of_attempts(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/more", "a/fewer", max_attempts=2)
        failed = {"error_class": "timeout", "error": "too slow"}
        attempts = {"a/more": 4, "a/fewer": 1}
        for count in (1, 1, 1, 2):
            for lease in await client.lease():
                await client.end(lease, Ending.RETRY, max_attempts=attempts[name_of(lease)], **failed)
            assert (await client.counts()).failed == count
        assert sorted(failed.attempts for failed in await client.frontier.failures()) == [1, 4]
        assert await client.state() is State.FINISHED

    async def test_a_retry_may_come_after_others_of_its_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", retry_priority=-10, max_attempts=9)
        for names in (["a/1", "a/2"], ["a/3", "a/1"]):
            leases = await client.lease(limit=2)
            assert names_of(leases) == names
            await client.retry(leases[0])
            await client.end(leases[1])
        # a/3 was tried once, and a/1 is done with its second attempt.
        trace = await client.trace("a/3")
        assert (trace.priority, trace.attempts) == (-10, 1)
        await client.add("b/1", priority=-5)
        assert await client.names(limit=1) == ["b/1"]
        # The request keeps its changed priority when its lease is lost, and its host is ranked by that priority.
        lease = await client.one("gone")
        await client.lose("gone")
        await client.retry(await client.one())
        assert (await client.trace("a/3")).priority == -20
        assert names_of([lease]) == await client.names() == ["a/3"]

    async def test_a_retry_because_of_the_host_keeps_its_priority(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", retry_priority=-10)
        await client.blocked(await client.one(), 0.0)
        assert (await client.trace("a/1")).priority == 0

    async def test_an_error_of_any_length_and_of_any_characters_is_kept(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        error = "the beginning " + "\udc80 " * 100_000 + " the end"
        await client.end(await client.one(), Ending.FAILED, error_class="callback", error=error)
        (failed,) = await client.frontier.failures()
        assert failed.error.startswith("the beginning")
        assert failed.error.endswith("the end")
        assert len(failed.error) < 20_000
