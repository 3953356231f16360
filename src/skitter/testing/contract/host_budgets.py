"""Host budgets: maximum pages of a host per run in the whole cluster; further requests of the host are excluded."""

from __future__ import annotations

import asyncio

from skitter.frontier.contract import BATCH
from skitter.model.job import Begun, Command, State
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, HostNews
from skitter.policy.host_budgets import TRAP_SIGNS
from skitter.testing.contract.client import Client, name_of, names_of
from skitter.testing.contract.store import ContractStore

MANY = 2 * BATCH + 200
RULE = "host_budget"


def names(host: str, count: int) -> list[str]:
    return [f"{host}/{number}" for number in range(count)]


async def settled(client: Client) -> None:
    """Lease until nothing is queued for a host whose budget is spent."""
    while not (await client.grant(limit=0)).ask_again_seconds and await client.state() is not State.FINISHED:
        pass


async def page(client: Client, lease: Lease, *, sign: bool | None) -> bool:
    """Commit a page with a worker's judgement of whether it looks like a trap."""
    return await client.end(lease, status=200, news=HostNews(answered=True, sign=sign))


class HostBudgets:
    """Done and in flight together never exceed ``max_pages_per_host``."""

    async def test_done_and_in_flight_never_exceed_the_budget(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded(*names("a", 9), *names("b", 2), max_pages_per_host=4)
        held = [lease for lease in await first.lease("w1", 5) if lease.host_key == "http://a.example"]
        more = [lease for lease in await second.lease("w2") if lease.host_key == "http://a.example"]
        assert len(held) + len(more) == 4
        await first.end(held[0])
        assert await second.names("w2") == []
        assert (await first.counts()).queued == 5, "what is in flight may fail: nothing is excluded yet"

    async def test_only_pages_that_end_done_spend_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 9), max_pages_per_host=4, per_host=4)
        failed, redirected, excluded, retried = await client.lease()
        await client.end(failed, Ending.FAILED, error_class="http_4xx")
        await client.end(redirected, Ending.REDIRECTED, links=["a/target"])
        await client.end(excluded, Ending.EXCLUDED, error_class="robots", touched=False)
        await client.retry(retried)
        assert len(await client.lease()) == 4

    async def test_a_lost_or_released_lease_gives_its_part_back(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 9), max_pages_per_host=3)
        leases = await client.lease("dies", 2)
        await client.release(*await client.lease("w1"))
        assert len(await client.lease("w1")) == 1
        assert await client.lose("dies") == len(leases)
        assert names_of(await client.lease("w2")) == names_of(leases)

    async def test_a_commit_that_is_refused_spends_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 9), max_pages_per_host=2)
        lease = await client.one("slow")
        await client.lose("slow")
        assert not await client.end(lease)
        assert len(await client.lease()) == 2

    async def test_a_commit_that_is_told_twice_spends_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 9), max_pages_per_host=2)
        lease = await client.one()
        committed = await client.commit(await client.outcome(lease), await client.outcome(lease))
        assert committed.accepted == [True, False]
        assert len(await client.lease()) == 1

    async def test_what_waits_is_then_excluded_and_other_hosts_go_on(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 5), "b/1", "b/2", max_pages_per_host=2, per_host=2)
        leases = await client.lease()
        troubles = []
        for lease in leases:
            troubles += (await client.commit(await client.outcome(lease, news=HostNews(answered=True)))).troubles
        assert {(trouble.key[7], trouble.error_class, trouble.rule, trouble.pages) for trouble in troubles} == {
            ("a", RULE, "max_pages_per_host", 2),
            ("b", RULE, "max_pages_per_host", 2),
        }
        assert len(troubles) == 2, "each is told once"
        await settled(client)
        counts = await client.counts()
        assert (counts.done, counts.excluded, counts.failed) == (4, 3, 0)
        assert await client.state() is State.FINISHED
        trace = await client.trace("a/4")
        assert (trace.state, trace.error_class) == ("excluded", RULE)
        assert trace.error == "the budget of its host is spent: 2 pages (max_pages_per_host)"
        assert trace.attempts == 0
        assert trace.host is not None
        assert (trace.host.pages, trace.host.stopped_by) == (2, "max_pages_per_host")
        assert {host.key: host.stopped_by for host in (await client.frontier.report()).hosts} == {
            "http://a.example": "max_pages_per_host",
            "http://b.example": "max_pages_per_host",
        }

    async def test_a_host_within_its_budget_is_not_stopped(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_pages_per_host=3)
        await client.end_all(await client.lease())
        assert (await client.trace("a/1")).state in ("done", store.ended_state)
        assert await client.add("a/3") == 1
        assert await client.names() == ["a/3"]

    async def test_what_is_added_later_is_excluded_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", "b/2", max_pages_per_host=1, per_host=1)
        first = {name_of(lease): lease for lease in await client.lease()}
        await client.end(first["a/1"])
        assert await client.add("a/2", priority=9) == 1
        await client.end(first["b/1"], links=["a/3", "a/1"])
        await settled(client)
        for name in ("a/2", "a/3"):
            assert (await client.trace(name)).error_class == RULE
        assert (await client.counts()).excluded == 3
        assert await client.state() is State.FINISHED
        assert await client.add("a/4") == 1, "a finished job is opened again, and ends again"
        assert await client.state() is State.RUNNING
        await settled(client)
        assert (await client.counts()).excluded == 4
        assert await client.state() is State.FINISHED

    async def test_what_is_delayed_or_to_be_leased_alone_is_excluded_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", max_pages_per_host=1, per_host=3)
        await client.retry(await client.one(), 1000)
        for _ in range(2):
            await client.lease("dies", 1)
            await client.lose("dies")
        # a/2 is a suspect now, so it is granted first, and alone.
        lease = await client.one()
        assert name_of(lease) == "a/2"
        await client.release(lease)
        await client.tell(Command.PAUSE)
        await client.begin(max_pages_per_host=2, per_host=3)
        await client.tell(Command.RESUME)
        await client.end(await client.one())
        (lease,) = await client.lease()
        await client.end(lease)
        assert (await client.counts()).excluded == 1, "what is delayed does not wait for its time"
        assert await client.state() is State.FINISHED

    async def test_what_comes_back_in_the_same_commit_is_excluded_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 4), per_host=3)
        delayed, blocked, done = await client.lease()
        assert await client.begin(max_pages_per_host=1, per_host=3) is Begun.RESUMED
        await client.commit(
            await client.outcome(delayed, Ending.RETRY, error_class="timeout", retry_seconds=1000),
            await client.outcome(blocked, Ending.RETRY, error_class="http_4xx", news=HostNews(blocked=True)),
            await client.outcome(done),
        )
        assert (await client.counts()).excluded == 3
        assert await client.state() is State.FINISHED

    async def test_a_suspect_of_a_host_that_has_no_budget_left_is_excluded(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", per_host=2)
        await client.end(await client.one())
        for _ in range(2):
            await client.lease("dies", 1)
            await client.lose("dies")
        assert await client.begin(max_pages_per_host=1) is Begun.RESUMED
        await client.grant()
        await settled(client)
        assert (await client.trace("a/2")).error_class == RULE
        assert await client.state() is State.FINISHED

    async def test_a_long_queue_is_excluded_piece_by_piece(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY + 1), "b/1", "b/2", max_pages_per_host=1)
        leases = {name_of(lease): lease for lease in await client.lease()}
        await client.end(leases["a/0"])
        assert 0 < (await client.counts()).excluded <= BATCH
        before = (await client.counts()).excluded
        while before < MANY:
            grant = await client.grant("w2")
            counts = await client.counts()
            assert 0 < counts.excluded - before <= BATCH
            assert grant.leases == []
            assert counts.excluded == MANY or grant.ask_again_seconds == 0, "there is more to exclude"
            before = counts.excluded
        assert await client.end(leases["b/1"])

    async def test_a_new_run_begins_with_a_fresh_budget(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_pages_per_host=1)
        await client.end_all(await client.lease())
        await settled(client)
        assert await client.begin(max_pages_per_host=1, fresh=True) is Begun.RERUN
        await client.add("a/1", "a/2")
        seeding, lease = sorted(await client.lease(), key=lambda lease: lease.host_key)
        assert name_of(lease) == "a/1"
        trace = await client.trace("a/1")
        assert trace.host is not None
        assert (trace.host.pages, trace.host.stopped_by) == (0, "")
        await client.end(lease)
        await client.end(seeding)
        await settled(client)
        assert (await client.counts()).excluded == 1

    async def test_a_larger_budget_goes_on_with_what_is_still_queued(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY + 1), max_pages_per_host=1)
        await client.end(await client.one())
        excluded = (await client.counts()).excluded
        assert 0 < excluded < MANY
        assert await store.client().begin(max_pages_per_host=3) is Begun.RESUMED
        leases = await client.lease()
        assert names_of(leases) == [f"a/{excluded + 1}", f"a/{excluded + 2}"]
        assert (await client.counts()).excluded == excluded
        await client.end_all(leases)
        await settled(client)
        assert (await client.counts()).done == 3
        assert await client.state() is State.FINISHED

    async def test_without_a_budget_the_rest_goes_on(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY + 1), max_pages_per_host=1)
        await client.end(await client.one())
        excluded = (await client.counts()).excluded
        assert await client.begin(per_host=1) is Begun.RESUMED
        assert await client.names() == [f"a/{excluded + 1}"]

    async def test_a_smaller_budget_holds_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 9), per_host=2)
        await client.end_all(await client.lease())
        assert await client.begin(max_pages_per_host=2) is Begun.RESUMED
        assert await client.names() == [], "its pages were counted before there was a budget"
        await settled(client)
        counts = await client.counts()
        assert (counts.done, counts.excluded) == (2, 7)
        assert await client.state() is State.FINISHED

    async def test_another_process_goes_on_with_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY + 1), max_pages_per_host=1)
        await client.end(await client.one())
        other = store.client()
        for _ in range(MANY // BATCH + 1):
            await other.frontier.reap()
        assert (await other.counts()).excluded == MANY
        assert await other.state() is State.FINISHED

    async def test_what_is_revived_is_excluded_where_the_budget_is_spent(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_pages_per_host=1)
        await client.end(await client.one(), Ending.FAILED, error_class="http_4xx")
        await client.end(await client.one())
        assert await client.state() is State.FINISHED
        assert await client.frontier.revive() == 1
        await settled(client)
        assert (await client.trace("a/1")).error_class == RULE
        counts = await client.counts()
        assert (counts.done, counts.failed, counts.excluded) == (1, 0, 1)

    async def test_a_host_that_is_down_has_a_queue_of_dead_ones(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 4), max_pages_per_host=3, max_attempts=1, per_host=1)
        await client.end(await client.one())
        await client.unreachable(await client.one())
        counts = await client.counts()
        assert (counts.done, counts.failed, counts.excluded) == (1, 3, 0)

    async def test_a_gate_is_not_a_page(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_pages_per_host=1, obey_robots=True)
        await client.open_gate(await client.one())
        assert await client.names() == ["a/1"]

    async def test_parts_of_a_page_are_one_page(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", max_pages_per_host=2, per_host=2)
        lease, _ = await client.lease()
        await client.end(lease, more=True, items=[b"1"], links=["a/4"])
        await client.end(lease, more=True, items=[b"2"], after=1)
        await client.end(lease)
        assert await client.names() == []
        assert (await client.counts()).excluded == 0

    async def test_many_workers_at_once_keep_it_exactly(self, store: ContractStore) -> None:
        clients = [store.client() for _ in range(4)]
        await clients[0].seeded(*names("a", 40), *names("b", 40), max_pages_per_host=11, per_host=5)

        async def work(worker: str, client: Client) -> int:
            done = 0
            while (grant := await client.frontier.lease(worker, 3)).state is State.RUNNING:
                for turn, lease in enumerate(grant.leases):
                    ending = Ending.DONE if (lease.epoch + turn) % 3 else Ending.FAILED
                    outcome = await client.outcome(lease, ending, error_class="" if ending is Ending.DONE else "x")
                    committed = await client.frontier.commit(worker, [outcome])
                    done += committed.accepted[0] and ending is Ending.DONE
            return done

        done = await asyncio.gather(*(work(f"w{number}", client) for number, client in enumerate(clients)))
        counts = await clients[0].counts()
        assert sum(done) == counts.done == 22
        assert counts.excluded == 80 - counts.done - counts.failed
        assert await clients[0].state() is State.FINISHED


class TrapBudgets:
    """With trap detection, only a host that looks like a trap has a budget."""

    async def crawled(self, client: Client, host: str, pages: int, *, sign: bool | None) -> None:
        for _ in range(pages):
            leases = [lease for lease in await client.lease(limit=8) if lease.host_key == f"http://{host}.example"]
            await page(client, leases[0], sign=sign)
            await client.release(*leases[1:])

    async def test_signs_give_a_host_a_budget(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", TRAP_SIGNS + 20), traps="strict", trap_pages=TRAP_SIGNS + 5)
        await self.crawled(client, "a", TRAP_SIGNS + 5, sign=True)
        await settled(client)
        counts = await client.counts()
        assert (counts.done, counts.excluded) == (TRAP_SIGNS + 5, 15)
        trace = await client.trace(f"a/{TRAP_SIGNS + 7}")
        assert "trap_pages: its pages look like those of a trap" in trace.error
        assert trace.host is not None
        assert trace.host.stopped_by == "trap_pages"

    async def test_a_host_that_had_more_is_stopped_when_it_is_known(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", TRAP_SIGNS + 20), traps="strict", trap_pages=10)
        await self.crawled(client, "a", TRAP_SIGNS, sign=True)
        await settled(client)
        assert (await client.counts()).done == TRAP_SIGNS
        assert await client.state() is State.FINISHED

    async def test_pages_of_its_own_save_a_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 2 * TRAP_SIGNS), traps="strict", trap_pages=5)
        for _ in range(3):
            await self.crawled(client, "a", TRAP_SIGNS // 2, sign=True)
            await self.crawled(client, "a", 1, sign=False)
            await self.crawled(client, "a", 1, sign=None)
        assert await client.names(limit=1) != []

    async def test_signs_mean_nothing_where_traps_are_not_looked_for(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", TRAP_SIGNS + 20), trap_pages=5)
        await self.crawled(client, "a", TRAP_SIGNS + 10, sign=True)
        assert await client.names(limit=1) != []

    async def test_the_smaller_budget_counts(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(
            *names("a", TRAP_SIGNS + 20), traps="strict", trap_pages=TRAP_SIGNS + 9, max_pages_per_host=TRAP_SIGNS + 3
        )
        await self.crawled(client, "a", TRAP_SIGNS + 3, sign=True)
        await settled(client)
        assert (await client.trace(f"a/{TRAP_SIGNS + 10}")).error.endswith("(max_pages_per_host)")

    async def test_a_new_run_knows_nothing_of_the_signs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", TRAP_SIGNS + 1), traps="strict", trap_pages=1)
        await self.crawled(client, "a", TRAP_SIGNS, sign=True)
        await settled(client)
        await client.begin(traps="strict", trap_pages=1, fresh=True)
        await client.add(*names("a", 9))
        await self.crawled(client, "a", 4, sign=True)
        assert (await client.counts()).excluded == 0
