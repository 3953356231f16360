"""Calls that are sent again or forwarded: each call carries the state of its worker."""

from __future__ import annotations

import msgspec

from skitter.model.job import State
from skitter.model.lease import Call, Lease
from skitter.model.outcome import Ending
from skitter.testing.contract.client import name_of, names_of
from skitter.testing.contract.store import ContractStore

NAMES = ["a/1", "a/2", "b/1", "c/1", "d/1"]
FIRST, SECOND = (Call(token=token) for token in ("first", "second"))


def again(call: Call) -> Call:
    """Return the same call, marked as sent again."""
    return msgspec.structs.replace(call, again=True)


def told(leases: list[Lease]) -> list[tuple[str, int, bytes, int, bool]]:
    """Return the part of an answer that must not change; a start window may be shorter."""
    return sorted((name_of(r), r.epoch, r.payload, r.attempts, r.trusted) for r in leases)


class ResentCalls:
    """A call with the token of the last one acts once, and gets the same answer."""

    async def test_a_lease_that_is_sent_again_is_told_the_same_leases(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded(*NAMES)
        first = await client.frontier.lease("w", 3, FIRST)
        assert len(first.leases) == 3
        for frontier in (client.frontier, other.frontier):
            second = await frontier.lease("w", 3, again(FIRST))
            assert told(second.leases) == told(first.leases)
        assert (await client.counts()).leased == 3
        assert sorted(names_of(first.leases + await other.lease("other"))) == NAMES, "nothing is leased twice"
        await client.check()

    async def test_gates_and_the_seeding_are_told_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin(obey_robots=True)
        await client.add("a/1")
        first = await client.frontier.lease("w", 5, FIRST)
        assert sorted(names_of(first.leases)) == ["robots:a", "seeding"]
        second = await client.frontier.lease("w", 5, again(FIRST))
        assert sorted((lease.epoch, lease.work) for lease in second.leases) == sorted(
            (lease.epoch, lease.work) for lease in first.leases
        )

    async def test_leases_that_have_ended_since_are_left_out(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*NAMES)
        first = await client.frontier.lease("w", 3, FIRST)
        await client.release(first.leases[0])
        second = await client.frontier.lease("w", 3, again(FIRST))
        assert told(second.leases) == told(first.leases[1:])
        await client.release(*first.leases[1:])
        assert (await client.frontier.lease("w", 3, again(FIRST))).leases == []
        assert (await client.counts()).leased == 0

    async def test_a_commit_that_is_sent_again_is_accepted_again_and_counts_once(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded(*NAMES)
        await client.frontier.open_sink("out", "me")
        leases = await client.lease()
        await client.release(leases[1])
        outcomes = [await client.outcome(lease, links=["e/1", "f/1"], items=[b"x"]) for lease in leases]
        first = await client.frontier.commit("w", outcomes, call=FIRST)
        client.remember(outcomes[0].links)
        accepted = [lease is not leases[1] for lease in leases]
        assert first.accepted == accepted
        before = await client.frontier.report()
        for frontier in (client.frontier, other.frontier):
            second = await frontier.commit("w", outcomes, call=again(FIRST))
            assert (second.accepted, second.new_links, second.grant) == (accepted, 0, None)
        assert len(await client.records()) == 4
        after = await client.frontier.report()
        assert (after.counts, after.tally) == (before.counts, before.tally)
        await client.check()

    async def test_a_commit_that_asked_for_leases_is_told_them_again(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded(*NAMES)
        leases = await client.lease(limit=2)
        outcomes = [await client.outcome(lease) for lease in leases]
        first = await client.frontier.commit("w", outcomes, 2, FIRST)
        for frontier in (client.frontier, other.frontier):
            second = await frontier.commit("w", outcomes, 2, again(FIRST))
            assert second.accepted == first.accepted == [True, True]
            assert first.grant is not None
            assert second.grant is not None
            assert told(second.grant.leases) == told(first.grant.leases)
        counts = await client.counts()
        assert (counts.done, counts.leased, counts.queued) == (2, 2, 1)
        assert first.grant is not None
        await client.end_all(first.grant.leases)
        await client.end_all(await client.lease())
        assert await client.state() is State.FINISHED

    async def test_an_attempt_is_spent_once_and_a_part_is_staged_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_attempts=3)
        await client.frontier.open_sink("out", "me")
        retried = await client.outcome(await client.one(), Ending.RETRY, error_class="timeout")
        for call in (FIRST, again(FIRST)):
            assert (await client.frontier.commit("w", [retried], call=call)).accepted == [True]
        assert (await client.trace("a/1")).attempts == 1
        lease = await client.one()
        part = await client.outcome(lease, items=[b"part"], more=True)
        for call in (SECOND, again(SECOND)):
            assert (await client.frontier.commit("w", [part], call=call)).accepted == [True]
        await client.end(lease, items=[b"end"])
        assert await client.records() == [b"part", b"end"]

    async def test_an_older_token_is_a_new_call(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        first = await client.frontier.lease("w", 1, FIRST)
        second = await client.frontier.lease("w", 1, SECOND)
        third = await client.frontier.lease("w", 1, again(FIRST))
        assert len({lease.epoch for grant in (first, second, third) for lease in grant.leases}) == 3

    async def test_tokens_are_told_apart_by_worker(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*NAMES)
        grants = [await client.frontier.lease(worker, 2, FIRST) for worker in ("w1", "w2")]
        assert len({lease.epoch for grant in grants for lease in grant.leases}) == 4
        for worker, grant in zip(("w1", "w2"), grants, strict=True):
            assert told((await client.frontier.lease(worker, 2, again(FIRST))).leases) == told(grant.leases)

    async def test_without_a_token_each_call_is_a_new_one(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*NAMES)
        grants = [await client.frontier.lease("w", 1) for _ in range(2)]
        assert len({lease.epoch for grant in grants for lease in grant.leases}) == 2

    async def test_what_was_answered_goes_with_its_worker_and_with_its_run(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*NAMES)
        first = await client.frontier.lease("w", 2, FIRST)
        await client.lose("w")
        second = await client.frontier.lease("w", 2, again(FIRST))
        assert not {lease.epoch for lease in first.leases} & {lease.epoch for lease in second.leases}
        assert len(second.leases) == 2
        await client.begin(fresh=True)
        assert names_of((await client.frontier.lease("w", 2, again(FIRST))).leases) == ["seeding"]


class ForwardedCalls:
    """The calls of several workers go through one frontier object, or those of one worker through several objects."""

    async def test_each_worker_behind_one_frontier_learns_all_permits(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.add("b/1", seed=True)
        for worker in ("w1", "w2"):
            grant = await client.frontier.lease(worker, 0)
            assert (grant.permitted, grant.permits) == (["http://b.example"], 1)
        await client.add("c/1", seed=True)
        for worker in ("w1", "w2"):
            grant = await client.frontier.lease(worker, 0, Call(run=grant.run, permits=1))
            assert (grant.permitted, grant.permits) == (["http://c.example"], 2)

    async def test_one_worker_through_two_frontiers_learns_each_permit_once(self, store: ContractStore) -> None:
        clients = [store.client(), store.client()]
        await clients[0].seeded("a/1")
        call, learnt, stores = Call(), [], set()
        for turn, host in enumerate("bcdef"):
            await clients[0].add(f"{host}/1", seed=True)
            grant = await clients[turn % 2].frontier.lease("w", 0, call)
            learnt += grant.permitted
            stores.add(grant.store)
            call = Call(run=grant.run, permits=grant.permits)
        assert learnt == [f"http://{host}.example" for host in "bcdef"]
        assert len(stores) == 1, "both name the life of the store alike"

    async def test_a_call_that_is_sent_again_is_told_the_permits_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.add("b/1", seed=True)
        grants = [await client.frontier.lease("w", 1, call) for call in (FIRST, again(FIRST))]
        assert [grant.permitted for grant in grants] == [["http://b.example"]] * 2
        assert [grant.permits for grant in grants] == [1, 1]
