"""Given-up hosts: a long queue fails in batches, at most ``BATCH`` requests per call (promise 7)."""

from __future__ import annotations

from skitter.frontier.contract import BATCH
from skitter.model.job import Command, State
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, HostNews
from skitter.testing.contract.client import Client, name_of, names_of
from skitter.testing.contract.store import ContractStore

MANY = 2 * BATCH + 200
"""Requests that wait for the host. Three batches: the first in the call that gives it up, two in later calls."""


def names(host: str, count: int) -> list[str]:
    return [f"{host}/{number}" for number in range(count)]


async def given_up(
    client: Client, waiting: int = MANY, others: tuple[str, ...] = (), in_flight: int = 0, burst_pages: int = 16
) -> list[Lease]:
    """Give up host ``a`` while that many requests wait for it, and return its leases that are still in flight."""
    settings = {"per_host": in_flight + 1, "max_attempts": 1, "burst_pages": burst_pages}
    await client.seeded(*names("a", waiting + in_flight + 1), *others, **settings)
    leases = [lease for lease in await client.lease("a", in_flight + 1) if lease.host_key == "http://a.example"]
    await client.unreachable(leases[0])
    counts = await client.counts()
    assert 1 < counts.failed <= 1 + BATCH, "a piece, and the page itself"
    return leases[1:]


async def buried(client: Client) -> None:
    """Call ``reap`` until nothing of the host is queued."""
    for _ in range(MANY // BATCH + 1):
        await client.frontier.reap()
        await client.check()


class BuriedQueues:
    """A queue fails in batches, with the same result as in one step."""

    async def test_each_call_buries_a_piece_and_the_last_one_ends_the_job(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client)
        failed = (await client.counts()).failed
        while failed <= MANY:
            grant = await client.grant()
            counts = await client.counts()
            assert 0 < counts.failed - failed <= BATCH
            assert (grant.leases, counts.queued) == ([], MANY + 1 - counts.failed)
            assert (grant.state == State.FINISHED) == (counts.queued == 0)
            assert counts.queued == 0 or grant.ask_again_seconds == 0, "there is more to bury"
            failed = counts.failed
        assert (await client.frontier.report()).errors == {"connect": MANY + 1}
        (first,) = await client.frontier.failures(limit=1)
        of_the_queue = await client.frontier.failures(after=first.position, limit=MANY)
        assert {(record.error_class, record.error) for record in of_the_queue} == {
            ("connect", "the host is down: refused")
        }

    async def test_reaping_buries_too(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client)
        before = (await client.counts()).failed
        assert await client.frontier.reap() == 0
        assert before < (await client.counts()).failed <= before + BATCH

    async def test_one_call_buries_one_piece_of_all_hosts_together(self, store: ContractStore) -> None:
        client = store.client()
        share = BATCH * 2 // 3
        hosts = "abcd"
        await client.seeded(
            *(f"{host}/{number}" for host in hosts for number in range(share)), per_host=1, max_attempts=1
        )
        leases = await client.lease()
        assert len(leases) == len(hosts)
        news = HostNews(unreachable=True)
        down = [await client.outcome(lease, Ending.RETRY, error_class="connect", news=news) for lease in leases]
        await client.commit(*down, want=10)
        failed = (await client.counts()).failed
        # If the hosts are in several shards, each shard fails one batch.
        piece = BATCH if store.order_across_hosts else BATCH * len(hosts)
        assert failed <= piece + len(hosts)
        while failed < len(hosts) * share:
            await client.grant()
            counts = await client.counts()
            assert 0 < counts.failed - failed <= piece
            failed = counts.failed
        assert await client.state() is State.FINISHED

    async def test_a_queue_of_one_piece_dies_at_once_and_what_comes_later_lives(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client, BATCH)
        assert (await client.counts()).failed == BATCH + 1
        assert await client.state() is State.FINISHED
        await client.add("a/new")
        assert await client.names() == [], "the host rests"
        await store.elapse(60)
        assert await client.names() == ["a/new"]

    async def test_what_is_delayed_or_to_be_leased_alone_is_buried_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", BATCH + 300), "b/1", "b/2", per_host=200, max_attempts=2)
        for _ in range(2):
            assert len(await client.lease("lost", 50)) == 50
            assert await client.lose("lost") == 50
        # Suspects are granted first, and alone: this is the oldest one of its host, which is delayed now.
        lease = await client.one()
        assert names_of([lease]) == ["a/0"]
        await client.retry(lease, 1000)
        counts = await client.counts()
        assert (counts.queued, counts.delayed) == (BATCH + 301, 1)
        for _ in range(2):
            lease = await client.one()
            await client.unreachable(lease)
            await store.elapse(60)
        await buried(client)
        counts = await client.counts()
        assert (counts.failed, counts.delayed, counts.queued) == (BATCH + 300, 0, 2)

    async def test_what_was_delayed_once_is_not_buried_for_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=4, max_attempts=2)
        once, still, left, down = await client.lease()
        await client.retry(once, 1)
        await client.retry(still, 1000)
        await client.release(left)
        await store.elapse(1.5)
        again = {name_of(lease): lease for lease in await client.lease()}
        await client.end(again["a/1"])
        await client.release(again["a/3"])
        await client.unreachable(down)
        await store.elapse(60)
        for lease in await client.lease(limit=1):
            await client.unreachable(lease)
        assert {record.url[-1] for record in await client.frontier.failures()} == {"2", "3", "4"}
        assert await client.state() is State.FINISHED

    async def test_what_is_to_be_leased_alone_is_not_leased_meanwhile(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY + 2), per_host=2, max_attempts=1)
        for _ in range(2):
            assert len(await client.lease("lost", 2)) == await client.lose("lost") == 2
        await client.unreachable(await client.one())
        await store.elapse(60)
        assert await client.names() == []
        assert (await client.counts()).queued > 0, "there is more to bury"
        await buried(client)
        assert (await client.counts()).failed == MANY + 2

    async def test_other_hosts_are_served_in_their_order_meanwhile(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client, others=("b/1", "b/2", "c/1", "c/2"), burst_pages=1)
        served: list[str] = []
        while len(served) < 4:
            (lease,) = await client.lease(limit=1)
            served += names_of([lease])
            await client.end(lease)
        assert served == ["b/1", "c/1", "b/2", "c/2"]

    async def test_what_is_added_meanwhile_is_buried_with_the_rest(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client)
        assert await client.add("a/new", priority=9) == 1
        assert (await client.trace("a/new")).state == "queued"
        await buried(client)
        assert (await client.trace("a/new")).state == "failed"
        assert (await client.counts()).failed == MANY + 2
        assert await client.state() is State.FINISHED

    async def test_what_comes_back_meanwhile_is_buried_with_the_rest(self, store: ContractStore) -> None:
        client = store.client()
        released, retried, *lost = await given_up(client, in_flight=4)
        await client.release(released)
        await client.end(retried, Ending.RETRY, retry_seconds=1000, error_class="timeout")
        assert await client.lose("a") == len(lost) == 2
        await buried(client)
        counts = await client.counts()
        assert (counts.failed, counts.unfinished) == (MANY + 5, 0)

    async def test_what_comes_back_in_the_same_commit_dies_with_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", per_host=2, max_attempts=2)
        await client.unreachable(await client.one())
        await store.elapse(60)
        down, slow = await client.lease()
        await client.commit(
            await client.outcome(slow, Ending.RETRY, error_class="timeout", retry_seconds=1000),
            await client.outcome(down, Ending.RETRY, error_class="connect", news=HostNews(unreachable=True)),
        )
        assert (await client.counts()).failed == 3
        assert await client.state() is State.FINISHED

    async def test_what_is_in_flight_may_fail_as_the_rest_did(self, store: ContractStore) -> None:
        client = store.client()
        (lease,) = await given_up(client, in_flight=1)
        await client.unreachable(lease)
        await buried(client)
        assert (await client.counts()).failed == MANY + 2
        assert await client.state() is State.FINISHED


class InterruptedBurials:
    """If an answer or a revived request ends the failing of a queue early, the rest stays queued in its order."""

    async def test_an_answer_saves_what_is_not_yet_buried(self, store: ContractStore) -> None:
        client = store.client()
        (lease,) = await given_up(client, in_flight=1)
        await client.answered(lease)
        failed = (await client.counts()).failed
        await buried(client)
        counts = await client.counts()
        assert (counts.failed, counts.queued, counts.done) == (failed, MANY + 1 - failed, 1)
        await store.elapse(60)
        assert await client.names(limit=1) == [f"a/{failed + 1}"]

    async def test_an_answer_after_the_end_brings_nobody_back(self, store: ContractStore) -> None:
        client = store.client()
        (lease,) = await given_up(client, in_flight=1)
        await buried(client)
        await client.answered(lease)
        counts = await client.counts()
        assert (counts.failed, counts.done, counts.unfinished) == (MANY + 1, 1, 0)

    async def test_revive_saves_what_is_not_yet_buried(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client)
        failed = (await client.counts()).failed
        assert await client.frontier.revive() == failed
        await buried(client)
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (0, MANY + 1)
        await store.elapse(60)
        assert await client.names("a", limit=1) == ["a/0"]

    async def test_reviving_one_request_gives_its_host_a_new_chance(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client)
        failed = (await client.counts()).failed
        assert await client.frontier.revive(ids=[await client.id("a/5")]) == 1
        await buried(client)
        assert (await client.counts()).queued == MANY + 2 - failed

    async def test_what_is_left_has_the_priority_of_its_best_request(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(per_host=2, max_attempts=1)
        await client.add(*names("a", BATCH + 2), priority=9)
        await client.add(*(f"a/low/{number}" for number in range(100)))
        first, second = await client.lease(limit=2)
        await client.unreachable(first)
        await client.add("b/1", priority=5)
        await client.answered(second)
        await store.elapse(60)
        assert await client.names(limit=1) == ["b/1"]
        assert await client.names(limit=1) == ["a/low/0"]

    async def test_a_new_run_knows_nothing_of_it(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client)
        await client.begin(fresh=True)
        await client.add("a/1", "a/2")
        await client.end(await client.one())
        await buried(client)
        assert (await client.counts()).queued == 2
        await store.elapse(60)
        assert await client.names() == ["a/1", "a/2"]


class BurialsByOthers:
    """Workers may die between two batches of a failing queue, and other workers may continue."""

    async def test_another_process_goes_on_with_it(self, store: ContractStore) -> None:
        await given_up(store.client())
        client = store.client()
        await buried(client)
        assert await client.state() is State.FINISHED

    async def test_a_job_that_is_stopped_loses_nothing_of_it(self, store: ContractStore) -> None:
        client = store.client()
        (lease,) = await given_up(client, in_flight=1)
        assert await client.tell(Command.STOP) is State.DRAINING
        await client.release(lease)
        assert await client.tell(Command.RESUME) is State.RUNNING
        await buried(client)
        assert (await client.counts()).failed == MANY + 2
        assert await client.state() is State.FINISHED

    async def test_a_job_that_is_paused_may_end(self, store: ContractStore) -> None:
        client = store.client()
        await given_up(client)
        assert await client.tell(Command.PAUSE) is State.PAUSED
        await buried(client)
        assert await client.state() is State.FINISHED
