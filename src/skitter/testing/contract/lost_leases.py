"""Leases that end without an outcome: expiry, renewal, dead workers, pages that kill their worker."""

from __future__ import annotations

from skitter.model.job import State
from skitter.model.lease import Work
from skitter.model.outcome import Ending, HostNews
from skitter.policy.lost_leases import LOSSES_IN_ALL
from skitter.testing.contract.client import name_of, names_of
from skitter.testing.contract.store import ContractStore


class Expiry:
    """A lease belongs to its worker until its deadline, and no longer."""

    async def test_an_expired_lease_is_served_again(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", lease_seconds=1.0)
        old = await first.one("w1")
        assert abs(old.deadline - old.leased_at - 1.0) < 0.01
        await store.elapse(0.9)
        assert await second.names("w2") == []
        await store.elapse(0.2)
        new = await second.one("w2")
        assert new.id == old.id
        assert new.epoch > old.epoch

    async def test_an_expired_lease_is_a_loss_and_no_attempt(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=0.5, max_attempts=1)
        await client.one()
        await store.elapse(0.6)
        assert await client.frontier.reap() == 1
        trace = await client.trace("a/1")
        assert (trace.state, trace.losses, trace.attempts) == ("queued", 1, 0)
        assert (await client.one()).attempts == 0

    async def test_anyone_may_reap_and_only_once(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "b/1", lease_seconds=0.5)
        await first.lease("w1")
        assert await second.frontier.reap() == 0
        await store.elapse(0.6)
        assert await second.frontier.reap() == 3
        assert await first.frontier.reap() == 0
        await first.check()
        assert (await first.counts()).queued == 3

    async def test_a_grant_says_whose_leases_were_recovered_on_the_way(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "b/1", lease_seconds=0.5, per_host=2)
        assert (await client.grant("w1", 2)).recovered == []
        await client.grant("w2", 1)
        await store.elapse(0.6)
        # The limit exceeds the number of requests: a worker that has enough need not ask every shard.
        assert (await client.grant("w3", 5)).recovered == [("w1", 2), ("w2", 1)]
        assert (await client.grant("w3", 5)).recovered == [], "once"

    async def test_a_commit_that_asks_for_more_says_so_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", lease_seconds=1.0)
        lost, kept = await client.one("w1"), await client.one("w2")
        await store.elapse(0.6)
        await client.frontier.renew("w2", [kept])
        await store.elapse(0.6)
        committed = await client.commit(await client.outcome(kept), worker="w2", want=5)
        assert committed.grant is not None
        assert committed.grant.recovered == [("w1", 1)]
        assert [lease.id for lease in committed.grant.leases] == [lost.id]

    async def test_a_renewed_lease_does_not_expire(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=0.5)
        lease = await client.one()
        for _ in range(3):
            await store.elapse(0.4)
            assert await client.frontier.renew("w", [lease]) == [True]
            assert await client.frontier.reap() == 0
        assert await client.end(lease)

    async def test_a_renewal_says_which_leases_are_lost(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", lease_seconds=1.0)
        done, released, lost, kept = await client.lease("w", 3) + await client.lease("w", 1)
        await client.end(done)
        await client.release(released)
        await store.elapse(0.6)
        assert await client.frontier.renew("w", [kept]) == [True]
        await store.elapse(0.6)
        assert await client.frontier.reap() == 1
        answer = await client.frontier.renew("w", [done, released, lost, kept, kept])
        assert answer == [False, False, False, True, True]
        assert await client.frontier.renew("w", []) == []

    async def test_a_lease_is_renewed_by_the_worker_that_holds_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=10)
        lease = await client.one("w1")
        await store.elapse(8)
        assert await client.frontier.renew("w2", [lease]) == [False]
        assert await client.frontier.renew("w1", [lease]) == [True]
        await store.elapse(8)
        assert await client.frontier.reap() == 0

    async def test_a_lost_lease_frees_its_hosts_slot(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", per_host=1, lease_seconds=0.5)
        await client.one("w1")
        await store.elapse(0.6)
        assert await client.names("w2") == ["a/1"]
        assert await client.names("w3") == []


class DeadWorkers:
    """Leases of a worker that was seen to die."""

    async def test_its_leases_return_at_once_each_with_a_loss(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "b/1")
        held = await client.lease("dead", 2)
        other = await client.one("alive")
        assert await client.lose("dead") == 2
        assert await client.lose("dead") == 0
        assert [(await client.trace(name_of(lease))).losses for lease in held] == [1, 1]
        assert await client.frontier.renew("alive", [other]) == [True]
        assert sorted(await client.names("alive")) == sorted(names_of(held))

    async def test_it_is_no_longer_listed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.lease("dead", 1)
        await client.lease("alive", 1)
        await client.lose("seeder")
        assert [(worker.id, worker.leased) for worker in await client.frontier.workers()] == [("alive", 1), ("dead", 1)]
        await client.lose("dead")
        assert [worker.id for worker in await client.frontier.workers()] == ["alive"]

    async def test_a_silent_worker_is_told_by_its_silence(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        lease = await client.one("renewing")
        await client.one("silent")
        await store.elapse(1.0)
        await client.frontier.renew("renewing", [lease])
        silence = {worker.id: worker.silent_seconds for worker in await client.frontier.workers()}
        assert silence["renewing"] < 0.5
        assert silence["silent"] >= 0.9


class HeldWorkers:
    """Leases of a worker that hangs on one page."""

    async def test_all_but_the_page_that_holds_it_return_at_once_without_a_loss(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded("a/1", "a/2", "b/1", per_host=2)
        leases = {name_of(lease): lease for lease in await client.lease("held")}
        assert await client.relieve("held", leases["a/1"]) == 2
        assert await client.relieve("held", leases["a/1"]) == 0, "nothing is left"
        traces = [await client.trace(name) for name in ("a/1", "a/2", "b/1")]
        assert [(trace.state, trace.losses) for trace in traces] == [("leased", 0), ("queued", 0), ("queued", 0)]
        assert sorted(await other.names("next")) == ["a/2", "b/1"]
        assert not await client.end(leases["a/2"]), "it belongs to another worker now"
        assert await client.frontier.renew("held", [leases["a/1"]]) == [True]
        assert await client.end(leases["a/1"])

    async def test_the_seeding_and_gates_return_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin(obey_robots=True)
        assert await client.names("w") == ["seeding"]
        await client.add("a/1", "b/1")
        gates = {name_of(lease): lease for lease in await client.lease("w")}
        assert sorted(gates) == ["robots:a", "robots:b"]
        assert await client.open_gate(gates["robots:a"])
        (page,) = await client.lease("w")
        assert name_of(page) == "a/1"
        assert await client.relieve("w", page) == 2
        assert sorted(await client.names("next")) == ["robots:b", "seeding"]

    async def test_the_delay_of_a_host_goes_on(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", delay_seconds=1.0)
        leases = {name_of(lease): lease for lease in await client.lease("held")}
        await client.relieve("held", leases["a/1"])
        assert await client.names("next") == [], "b/1 may have been at the socket"
        await store.elapse(1.2)
        assert await client.names("next") == ["b/1"]

    async def test_the_host_of_the_page_is_left_alone_until_it_answers(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "b/1", "b/2", per_host=1)
        leases = {name_of(lease): lease for lease in await client.lease("held")}
        assert sorted(leases) == ["a/1", "b/1"]
        await client.relieve("held", leases["a/1"], 3.0)
        await client.end(leases["a/1"], Ending.FAILED, error_class="callback", error="held")
        assert await client.names("next") == ["b/1"]
        await store.elapse(2.0)
        assert await client.names("next") == []
        await store.elapse(1.1)
        (second,) = await client.lease("next")
        assert name_of(second) == "a/2"
        await client.relieve("next", second, 3.0)
        assert await client.answered(second), "it has come to its end after all"
        assert await client.names("next") == ["b/1", "a/3"]

    async def test_a_pause_that_the_host_asked_for_is_not_shortened(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", per_host=2)
        first, second = await client.lease("w")
        await client.blocked(first, retry_after_seconds=10.0)
        await client.relieve("w", second, 1.0)
        await client.answered(second)
        await store.elapse(5.0)
        assert await client.names("w") == []
        await store.elapse(5.1)
        assert await client.names("w") != []

    async def test_nor_is_one_that_came_while_the_page_held_its_worker(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=3)
        held, second, third = await client.one("held"), await client.one("w"), await client.one("w")
        await client.relieve("held", held, 3.0)
        await client.blocked(second, retry_after_seconds=10.0)
        news = HostNews(unreachable=True)
        await client.end(held, Ending.FAILED, error_class="callback", error="held", news=news)
        assert await client.answered(third), "it had been asked for before"
        await store.elapse(5.0)
        assert await client.names("w") == []
        await store.elapse(5.1)
        assert await client.names("w") != []

    async def test_it_is_still_listed_and_its_page_still_expires(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", lease_seconds=1.0)
        await client.lose("seeder")
        first, _ = await client.lease("held")
        await client.relieve("held", first)
        assert [(worker.id, worker.leased) for worker in await client.frontier.workers()] == [("held", 1)]
        await store.elapse(1.1)
        assert await client.frontier.reap() == 1
        assert (await client.trace("a/1")).losses == 1

    async def test_what_a_page_had_staged_in_parts_is_not_shown(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.frontier.open_sink("out", "me")
        leases = {name_of(lease): lease for lease in await client.lease("held")}
        await client.commit(await client.outcome(leases["a/2"], items=[b"early"], more=True), worker="held")
        await client.relieve("held", leases["a/1"])
        (again,) = await client.lease("next")
        assert await client.end(again, items=[b"once"])
        assert await client.records() == [b"once"]

    async def test_a_host_whose_pages_hold_their_workers_again_and_again_is_given_up(
        self, store: ContractStore
    ) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(6)), "b/1", max_attempts=2, retry_delay_seconds=1.0)
        for strikes in (1, 2):
            lease = next(lease for lease in await client.lease("w", 2) if lease.host_key == "http://a.example")
            await client.relieve("w", lease)
            news = HostNews(unreachable=True)
            outcome = await client.outcome(lease, Ending.FAILED, error_class="callback", error="held", news=news)
            committed = await client.commit(outcome)
            assert [trouble.strikes for trouble in committed.troubles] == [strikes]
            assert [trouble.given_up for trouble in committed.troubles] == [strikes == 2]
            await store.elapse(4.0)
        assert await client.names("w") == ["b/1"]
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (6, 0)


class PagesThatKill:
    """A page that kills its worker fails; other pages of that worker do not."""

    async def test_after_two_losses_a_request_is_leased_alone(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        for _ in range(2):
            assert await client.names("w") == ["a/1", "a/2"]
            await client.lose("w")
        await client.add("b/1", "b/2")
        assert await client.names("w") == ["a/1"]
        assert await client.names("w") == [], "nothing beside it"
        assert await client.names("w2") == ["a/2"]
        assert sorted(await client.names("w3")) == ["b/1", "b/2"]

    async def test_a_worker_that_holds_something_drains_before_it_gets_a_suspect(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        for _ in range(2):
            await client.one("dead")
            await client.lose("dead")
        await client.add("b/1", "b/2")
        suspect = await client.one("w1")
        held = await client.lease("w2", 1)
        await client.release(suspect)
        assert await client.names("w2") == [], "though b/2 is ready"
        await client.end_all(held)
        assert await client.names("w2") == ["a/1"]
        assert await client.names("w2") == []
        assert await client.names("w1") == ["b/2"]

    async def test_losses_alone_make_it_dead(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_attempts=1)
        for losses in range(LOSSES_IN_ALL):
            assert (await client.trace("a/1")).losses == losses
            assert await client.names("w") == ["a/1"]
            await client.lose("w")
        (failed,) = await client.frontier.failures("lost")
        assert (failed.losses, failed.attempts) == (LOSSES_IN_ALL, 0)
        assert await client.state() is State.FINISHED

    async def test_expiry_counts_like_a_death(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=0.3)
        for _ in range(LOSSES_IN_ALL):
            assert await client.names("w") == ["a/1"]
            await store.elapse(0.4)
        assert await client.names("w") == []
        assert (await client.counts()).failed == 1

    async def test_the_neighbours_of_killers_survive(self, store: ContractStore) -> None:
        client = store.client()
        killers = {"a/3", "b/1", "b/7"}
        names = {f"{host}/{number}" for host in "ab" for number in range(10)}
        await client.seeded(*sorted(names), per_host=4)
        deaths = 0
        while (await client.counts()).unfinished:
            leases = await client.lease("w", 6)
            assert leases
            assert deaths <= LOSSES_IN_ALL * len(killers), "each dies within as many losses as it is allowed"
            if killers & set(names_of(leases)):
                await client.lose("w")
                deaths += 1
            else:
                await client.end_all(leases)
        failed = {
            record.url.removeprefix("http://").replace(".example", "") for record in await client.frontier.failures()
        }
        assert failed == killers
        assert (await client.counts()).done == len(names) - len(killers)

    async def test_a_suspect_that_ends_is_like_any_other(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        for _ in range(2):
            await client.lease("w")
            await client.lose("w")
        await client.end(await client.one("w"), links=["b/1"])
        await client.retry(await client.one("w"), 0)
        assert sorted(await client.names("w")) == ["a/2"], "it stays a suspect through its retries"
        assert await client.names("w2") == ["b/1"]

    async def test_a_suspect_is_as_polite_as_any_other(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", delay_seconds=1.0)
        for _ in range(2):
            await client.lease("w")
            await client.lose("w")
            await store.elapse(1.06)
        assert await client.names("w1") == ["a/1"]
        await client.lose("w1")
        assert await client.names("w1") == ["b/1"], "a is not due"
        await store.elapse(1.06)
        assert await client.names("w2") == ["a/1"]

    async def test_a_suspect_waits_for_its_hosts_gate(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", obey_robots=True, robots_seconds=0.5)
        await client.open_gate(await client.one("w"))
        for _ in range(2):
            assert await client.names("w") == ["a/1"]
            await client.lose("w")
        await store.elapse(0.6)
        gate = await client.one("w")
        assert gate.work is Work.ROBOTS
        assert await client.names("w2") == []
        await client.open_gate(gate)
        assert await client.names("w2") == ["a/1"]

    async def test_revived_suspects_start_with_a_clean_slate(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        for _ in range(LOSSES_IN_ALL):
            await client.one("w")
            await client.lose("w")
        assert await client.frontier.revive("lost") == 1
        await client.add("a/2")
        assert await client.names("w") == ["a/1", "a/2"]
