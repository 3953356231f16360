"""Promise 5: the order of hosts and requests."""

from __future__ import annotations

from collections import Counter

from skitter.testing.contract.client import names_of
from skitter.testing.contract.store import ContractStore


class Order:
    """Among hosts: priority, then least recently served. Inside a host: priority, then first in, first out."""

    async def test_inside_a_host_the_first_in_is_the_first_out(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/3", "a/1", "a/2", per_host=64)
        await client.add("a/0")
        assert await client.names(limit=2) == ["a/3", "a/1"]
        assert await client.names() == ["a/2", "a/0"]

    async def test_inside_a_host_a_higher_priority_goes_first(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", per_host=64)
        await client.add("a/low", priority=-5)
        await client.add("a/high", "a/higher", priority=3)
        await client.add("a/highest", priority=10)
        assert await client.names() == ["a/highest", "a/high", "a/higher", "a/1", "a/2", "a/low"]

    async def test_among_hosts_the_highest_waiting_priority_goes_first(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.add("b/1", "b/2", priority=1)
        await client.add("c/1", priority=2)
        assert await client.names() == ["c/1", "b/1", "b/2", "a/1", "a/2"]

    async def test_a_host_stands_where_its_best_waiting_request_stands(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("b/low", "a/low")
        await client.add("a/high", priority=5)
        await client.add("b/middle", priority=3)
        # After its high one, a has nothing better than b has.
        assert await client.names(limit=1) == ["a/high"]
        assert await client.names(limit=1) == ["b/middle"]
        assert await client.names(limit=1) == ["a/low"]

    async def test_among_equal_hosts_the_least_recently_served_goes_first(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "b/1", "b/2", "c/1")
        served = [name for _ in range(6) for name in await client.names(limit=1)]
        hosts = [name[0] for name in served]
        assert sorted(hosts[:3]) == ["a", "b", "c"], "all three before any is served twice"
        assert sorted(hosts[3:5]) == ["a", "b"]
        assert hosts[3:5] == [host for host in hosts[:3] if host != "c"], "in the order of the first round"
        assert [name for name in served if name[0] == "a"] == ["a/1", "a/2", "a/3"]

    async def test_a_grant_begins_with_the_host_that_waited_longest(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in "ab" for page in range(4)))
        (first,) = [name[0] for name in await client.names(limit=1)]
        (other,) = {"a", "b"} - {first}
        assert [name[0] for name in await client.names(limit=3)] == [other, first, other]

    async def test_a_large_host_cannot_starve_the_others(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"big/{number}" for number in range(300)), per_host=64)
        small = [f"s{number}/{page}" for number in range(9) for page in range(3)]
        await client.add(*small)
        done: list[str] = []
        rounds = 3 if store.order_across_hosts else 20
        for _ in range(rounds):
            leases = await client.lease(limit=10)
            done += names_of(leases)
            await client.end_all(leases)
        assert set(small) <= set(done), "ten hosts and three rounds, or some more where hosts are in several places"
        if store.order_across_hosts:
            assert Counter(name.partition("/")[0] for name in done)["big"] == 3

    async def test_one_grant_is_shared_fairly(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in "abcd" for page in range(50)), per_host=64)
        first = Counter(name[0] for name in await client.names(limit=40))
        assert first == dict.fromkeys("abcd", 10)

    async def test_more_hosts_than_a_grant_takes_are_served_in_turn(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded(*(f"h{number:02}/{page}" for number in range(30) for page in range(2)))
        served: list[str] = []
        for _ in range(10):
            served += await client.names(limit=6)
        hosts = [name.partition("/")[0] for name in served]
        assert len(set(hosts[:30])) == 30, "each once before any twice"
        assert hosts[30:] == hosts[:30]

    async def test_what_one_grant_takes_does_not_depend_on_how_it_is_asked_for(self, store: ContractStore) -> None:
        """A host's queue may be read in chunks: priorities must be obeyed across chunks too."""
        client = store.client()
        await client.seeded(per_host=64)
        for priority in (1, 3, 2):
            await client.add(*(f"a/{priority}-{page}" for page in range(12)), priority=priority)
            await client.add(*(f"b/{priority}-{page}" for page in range(12)), priority=priority)
        got = [int(name[2]) for name in await client.names(limit=72)]
        assert got == sorted(got, reverse=True)
        assert len(got) == 72

    async def test_a_request_that_comes_back_keeps_its_place(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4")
        released, retried, lost = await client.lease("w", 2) + await client.lease("doomed", 1)
        await client.release(released)
        await client.retry(retried, 0)
        await client.lose("doomed")
        assert names_of([released, retried, lost]) == ["a/1", "a/2", "a/3"]
        assert await client.names() == ["a/1", "a/2", "a/3", "a/4"]

    async def test_no_more_is_leased_than_was_asked_for(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        await client.add("a/1", "b/1", "c/1")
        assert await client.names(limit=1) == ["seeding"]
        assert len(await client.lease(limit=2)) == 2
        assert await client.lease(limit=0) == []
        assert await client.names() == ["c/1"]
