"""Promises 4 and 5 within a burst: which host is next, and how far ahead of a delay a worker may be granted."""

from __future__ import annotations

import msgspec

from skitter.model.lease import Lease
from skitter.model.outcome import HostNews
from skitter.testing.contract.client import Client, names_of
from skitter.testing.contract.store import ContractStore
from skitter.worker.call_state import CallState

DELAY = 0.02
WINDOW = 0.4
"""Start window of a request whose worker keeps the delay, at a host where no worker was late."""
FIRST = CallState().next()
AHEAD = 6
"""Number of requests of such a host that its worker has at a time: one, and those that fit into 0.1 s."""


async def in_turn(client: Client, count: int) -> list[str]:
    """Lease and end requests one after the other, and return their names."""
    served: list[str] = []
    for _ in range(count):
        lease = await client.one()
        served += names_of([lease])
        await client.end(lease)
    return served


class Bursts:
    """A host is served several times in a row, one request at a time, before other hosts of its priority."""

    async def test_a_host_is_served_again_until_its_burst_is_used_up(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in "ab" for page in range(5)), burst_pages=2)
        hosts = [name[0] for name in await in_turn(client, 10)]
        assert hosts in (list("aabbaabbab"), list("bbaabbaaba"))

    async def test_a_burst_of_one_page_is_none(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in "ab" for page in range(3)), burst_pages=1)
        hosts = [name[0] for name in await in_turn(client, 6)]
        assert hosts in (list("ababab"), list("bababa"))

    async def test_a_burst_ends_with_the_first_request_after_its_time(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in "ab" for page in range(5)), burst_seconds=5.0)
        first = await in_turn(client, 2)
        assert {name[0] for name in first} == {first[0][0]}
        lease = await client.one()
        await store.elapse(5.1)
        await client.end(lease)
        hosts = [name[0] for name in await in_turn(client, 2)]
        assert hosts[0] == first[0][0] != hosts[1]

    async def test_the_end_of_a_burst_is_not_pushed(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in "ab" for page in range(9)), burst_seconds=5.0)
        hosts: list[str] = []
        for _ in range(5):
            lease = await client.one()
            hosts.append(names_of([lease])[0][0])
            await store.elapse(2.0)
            await client.end(lease)
        assert len(set(hosts[:4])) == 1, "begun at 0, 2, 4 and 6 s"
        assert hosts[4] != hosts[0]

    async def test_one_request_at_a_time_goes_before_other_hosts(self, store: ContractStore) -> None:
        """More would need more connections, and a burst is meant to save connections."""
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in "abc" for page in range(3)))
        hosts = [name[0] for _ in range(3) for name in await client.names(limit=1)]
        assert sorted(hosts) == ["a", "b", "c"]

    async def test_a_host_that_was_never_served_waits_for_bursts_that_are_on(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", burst_pages=3)
        await client.end(await client.one())
        await client.add("b/1", "c/1")
        assert [name[0] for name in await in_turn(client, 4)][:2] == ["a", "a"]

    async def test_a_higher_priority_goes_before_a_burst(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        assert await in_turn(client, 1) == ["a/1"]
        await client.add("b/1", priority=1)
        assert await in_turn(client, 3) == ["b/1", "a/2", "a/3"]

    async def test_each_host_that_is_ready_is_served_within_the_bound(self, store: ContractStore) -> None:
        """While a host waits, each other host gets the rest of its burst and one more burst at most."""
        store.needs_order_across_hosts()
        client = store.client()
        hosts = [f"h{number}" for number in range(6)]
        await client.seeded(*(f"{host}/{page}" for host in hosts for page in range(12)), burst_pages=3)
        served = [name.partition("/")[0] for name in await in_turn(client, 6 * 12)]
        for host in hosts:
            turns = [place for place, name in enumerate(served) if name == host]
            between = [served[one + 1 : two] for one, two in zip([-1, *turns], turns, strict=False)]
            assert max(wait.count(other) for wait in between for other in hosts) <= 2 * 3

    async def test_a_new_run_begins_without_a_burst(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.end(await client.one())
        await client.begin(fresh=True)
        seeding = await client.one()
        await client.end(seeding, links=["b/1", "a/1", "a/2", "b/2"])
        # b was never served, and a was served before.
        assert await in_turn(client, 4) == ["b/1", "b/2", "a/1", "a/2"]


class Pacing:
    """A short delay is kept by the worker that was granted last: it is granted ahead, and others are not."""

    async def paced(self, store: ContractStore, **settings: object) -> tuple[Client, list[Lease]]:
        client = store.client()
        await client.seeded(*(f"a/{page:02}" for page in range(40)), delay_seconds=DELAY, **settings)
        return client, await client.lease("w1")

    async def test_a_worker_is_granted_ahead_what_it_keeps_apart_by_itself(self, store: ContractStore) -> None:
        _, leases = await self.paced(store)
        assert names_of(leases) == [f"a/{page:02}" for page in range(AHEAD)]
        assert {lease.pace_seconds for lease in leases} == {DELAY}
        assert {round(lease.start_seconds or 0.0, 6) for lease in leases} == {WINDOW}

    async def test_another_worker_waits_until_the_first_can_start_nothing_more(self, store: ContractStore) -> None:
        client, _ = await self.paced(store)
        await store.elapse(WINDOW)
        assert await client.names("w2") == await client.names("w1") == []
        await store.elapse(DELAY + 0.005)
        assert await client.names("w2") == [f"a/{AHEAD:02}"], "and none ahead: the others are in flight still"

    async def test_a_commit_is_answered_with_more_of_its_host_at_once(self, store: ContractStore) -> None:
        client, leases = await self.paced(store)
        outcomes = [await client.outcome(lease) for lease in leases[:2]]
        committed = await client.commit(*outcomes, worker="w1", want=5)
        assert committed.grant is not None
        assert names_of(committed.grant.leases) == [f"a/{AHEAD:02}", f"a/{AHEAD + 1:02}"]

    async def test_a_worker_that_shows_no_work_of_the_host_is_not_granted_ahead(self, store: ContractStore) -> None:
        """The worker may have been killed and restarted under its name, and know nothing of what it has just sent."""
        client, leases = await self.paced(store)
        await client.commit(*[await client.outcome(lease) for lease in leases], worker="w1")
        await store.elapse(0.2)
        assert await client.names("w1") == []

    async def test_a_worker_that_is_not_the_last_one_is_not_granted_ahead(self, store: ContractStore) -> None:
        client, leases = await self.paced(store, per_host=20)
        await store.elapse(WINDOW + DELAY + 0.005)
        assert await client.names("w2") != []
        committed = await client.commit(await client.outcome(leases[0]), worker="w1", want=5)
        assert committed.grant is not None
        assert committed.grant.leases == []

    async def test_other_hosts_that_are_ready_go_before_what_is_granted_ahead(self, store: ContractStore) -> None:
        client, leases = await self.paced(store)
        await client.add("b/1")
        committed = await client.commit(await client.outcome(leases[0]), worker="w1", want=1)
        assert committed.grant is not None
        assert names_of(committed.grant.leases) == ["b/1"]

    async def test_no_more_are_in_flight_than_the_host_may_have(self, store: ContractStore) -> None:
        _, leases = await self.paced(store, per_host=2)
        assert len(leases) == 2

    async def test_a_slow_host_is_granted_what_may_be_on_its_way(self, store: ContractStore) -> None:
        client, leases = await self.paced(store, per_host=64)
        news = HostNews(answered=True, latency_seconds=0.2)
        outcome = await client.outcome(leases[0], status=200, news=news)
        committed = await client.commit(outcome, worker="w1", want=64)
        assert committed.grant is not None
        assert len(leases) - 1 + len(committed.grant.leases) == 1 + round((0.2 + 0.1) / DELAY)

    async def test_a_host_that_asks_for_a_pause_is_not_granted_ahead(self, store: ContractStore) -> None:
        client, leases = await self.paced(store)
        await client.blocked(leases[0])
        committed = await client.commit(await client.outcome(leases[1]), worker="w1", want=5)
        assert committed.grant is not None
        assert committed.grant.leases == []

    async def test_what_goes_back_unsent_does_not_make_the_host_due(self, store: ContractStore) -> None:
        """The worker may have sent another request at this instant."""
        client, leases = await self.paced(store)
        await client.release(leases[-1])
        assert await client.names("w2") == await client.names("w1") == []

    async def test_what_is_told_again_is_kept_apart_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=DELAY)
        first = await client.frontier.lease("w1", 5, FIRST)
        again = await client.frontier.lease("w1", 5, msgspec.structs.replace(FIRST, again=True))
        assert names_of(again.leases) == names_of(first.leases) == ["a/1", "a/2"]
        assert {lease.pace_seconds for lease in again.leases} == {DELAY}

    async def test_a_longer_delay_is_kept_by_the_store(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=0.3)
        (lease,) = await client.lease()
        assert lease.pace_seconds == 0
