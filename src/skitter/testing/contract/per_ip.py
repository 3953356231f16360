"""Promise 4 per IP address: at most ``per_ip`` requests are in flight to an address, over all its host keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from skitter.model.job import State
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, HostNews
from skitter.testing.contract.client import Client, name_of, names_of
from skitter.testing.contract.store import ContractStore

ONE, OTHER = "192.0.2.1", "2001:db8::2"


async def known_at(client: Client, hosts: Iterable[str], address: str = ONE) -> None:
    """Fetch one page of each host, so that its address is known; nothing is leased afterwards."""
    leases = await client.lease("first")
    for lease in leases:
        if name_of(lease)[0] in hosts:
            await client.answered(lease, address=address)
    await client.release(*(lease for lease in leases if name_of(lease)[0] not in hosts))


async def begun(client: Client, hosts: Sequence[str], pages: int = 4, **settings: int) -> None:
    """Give each host a known address and that many queued pages."""
    await client.seeded(*(f"{host}/0" for host in hosts), **settings)
    await known_at(client, hosts)
    for page in range(1, pages + 1):
        await client.add(*(f"{host}/{page}" for host in hosts))


def hosts_of(leases: Iterable[Lease]) -> list[str]:
    return [name_of(lease)[0] for lease in leases]


class AddressLimits:
    """The limit applies to all workers, and to all hosts that were last seen at an address."""

    async def test_no_more_than_the_limit_is_in_flight_to_an_address(self, store: ContractStore) -> None:
        a, b, c = store.together(3)
        first, second = store.client(), store.client()
        await begun(first, [a, b, c], per_ip=2)
        leases = await first.lease("w1")
        assert len(leases) == 2
        assert await second.names("w2") == []
        await first.answered(leases[0], address=ONE)
        assert len(await second.lease("w2")) == 1
        assert await first.names("w1") == await second.names("w2") == []

    async def test_without_the_setting_an_address_does_not_count(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], pages=3)
        assert len(await client.lease()) == 6

    async def test_the_limit_of_the_host_holds_as_well(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], per_ip=3, per_host=1)
        assert sorted(hosts_of(await client.lease())) == [a, b]

    async def test_other_addresses_are_not_held_up(self, store: ContractStore) -> None:
        a, b, c, d = store.together(4)
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in (a, b, c, d) for page in range(3)), per_ip=1, per_host=1)
        leases = await client.lease()
        for lease in leases:
            await client.answered(lease, address=OTHER if name_of(lease)[0] == d else ONE)
        # More hosts are passed over than are granted.
        assert sorted(hosts_of(await client.lease(limit=2))) in ([a, d], [b, d], [c, d])
        assert await client.names() == []

    async def test_a_host_of_unknown_address_is_limited_by_its_own_limit_only(self, store: ContractStore) -> None:
        a, b, c = store.together(3)
        client = store.client()
        await begun(client, [a, b], per_ip=1, per_host=2)
        await client.add(*(f"{c}/{page}" for page in range(4)))
        assert sorted(hosts_of(await client.lease())) in ([a, c, c], [b, c, c])

    async def test_hosts_are_called_in_the_order_in_which_they_were_served(self, store: ContractStore) -> None:
        hosts = store.together(4)
        client = store.client()
        await begun(client, hosts, pages=3, per_ip=1)
        served = []
        for _ in range(12):
            lease = await client.one()
            served.append(name_of(lease))
            assert await client.names("other") == []
            await client.answered(lease, address=ONE)
        rounds = [served[place : place + 4] for place in (0, 4, 8)]
        assert [sorted(name[0] for name in turn) for turn in rounds] == [sorted(hosts)] * 3, "each once in a round"
        assert [name[0] for name in rounds[1]] == [name[0] for name in rounds[2]], "in the same order"
        assert all(name.endswith(str(turn + 1)) for turn in range(3) for name in rounds[turn])

    async def test_the_highest_priority_of_an_address_goes_first(self, store: ContractStore) -> None:
        hosts = store.together(4)
        client = store.client()
        await begun(client, hosts, pages=1, per_ip=1)
        lease = await client.one()
        for priority, host in ((-3, hosts[0]), (7, hosts[1]), (2**53, hosts[2]), (-(2**53), hosts[3])):
            await client.add(f"{host}/of{priority}", priority=priority)
        await client.answered(lease, address=ONE)
        served = []
        while leases := await client.lease(limit=1):
            served += names_of(leases)
            await client.answered(leases[0], address=ONE)
        order = [int(name.partition("/of")[2] or 0) for name in served]
        assert order == [2**53, 7, 0, 0, 0, -3, -(2**53)]

    async def test_a_host_that_is_parked_and_gets_something_better_goes_first(self, store: ContractStore) -> None:
        a, b, c = store.together(3)
        client = store.client()
        await begun(client, [a, b, c], per_ip=1)
        lease = await client.one()
        await client.answered(lease, address=ONE)
        # One of the other two hosts is ready for the free slot, and neither has been served since.
        await client.add(f"{name_of(lease)[0]}/better", priority=5)
        assert await client.names() == [f"{name_of(lease)[0]}/better"]

    @pytest.mark.parametrize(
        "news", [HostNews(blocked=True, retry_after_seconds=60), HostNews(answered=True, address=OTHER)]
    )
    async def test_a_place_that_is_not_used_is_offered_to_the_next(self, store: ContractStore, news: HostNews) -> None:
        """A host that was made ready for a slot may not use it: it asks for a pause, or changes its address."""
        a, b, c = store.together(3)
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in (a, b, c) for page in range(6)), per_ip=1, per_host=2)
        leases: dict[str, list[Lease]] = {a: [], b: [], c: []}
        for lease in await client.lease():
            leases[name_of(lease)[0]].append(lease)
        for host in (a, b, c):
            await client.answered(leases[host][0], address=ONE)
        busy = await client.one()
        # The other hosts wait for the slot. Two requests of each host were leased before its address was known; the
        # second ones are still in flight.
        late = [leases[host][1] for host in (a, b, c)]
        assert await client.names() == []
        await client.answered(busy, address=ONE)
        called = next(lease for lease in late if name_of(lease)[0] != name_of(busy)[0])
        for lease in late:
            if lease is called:
                ending = Ending.RETRY if news.blocked else Ending.DONE
                await client.end(lease, ending, error_class="http_4xx" if news.blocked else "", news=news)
            elif name_of(lease)[0] == name_of(busy)[0]:
                await client.blocked(lease, 60)
        there = [host for host in hosts_of(await client.lease()) if host != name_of(called)[0]]
        assert len(there) == 1, "the third host uses it"

    async def test_the_count_belongs_to_the_address_it_was_granted_under(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], per_ip=2, per_host=2)
        leases = {name_of(lease): lease for lease in await client.lease(limit=2)}
        moved = leases[f"{a}/1"]
        await client.answered(moved, address=OTHER)
        # b may use the slot that a has left; a has another address now, with two slots of its own.
        assert sorted(await client.names()) == [f"{a}/2", f"{a}/3", f"{b}/2"]
        await client.answered(leases[f"{b}/1"], address=ONE)
        assert await client.names() == [f"{b}/3"]

    async def test_a_lease_that_was_granted_before_the_address_was_known_is_not_counted(
        self, store: ContractStore
    ) -> None:
        (a,) = store.together(1)
        client = store.client()
        await client.seeded(*(f"{a}/{page}" for page in range(6)), per_ip=2, per_host=3)
        one, two, three = await client.lease()
        await client.answered(one, address=ONE)
        assert len(await client.lease()) == 1, "three of a host at most"
        await client.answered(two, address=ONE)
        await client.answered(three, address=ONE)
        assert len(await client.lease()) == 1, "two of its address at most"

    async def test_the_gate_counts_as_a_request(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await client.seeded(f"{a}/1", f"{b}/1", per_ip=1, obey_robots=True, robots_seconds=10)
        for lease in await client.lease():
            await client.open_gate(lease)
        for lease in await client.lease():
            await client.answered(lease, address=ONE)
        await store.elapse(11)
        await client.add(f"{a}/2", f"{b}/2")
        (gate,) = await client.lease()
        assert name_of(gate).startswith("robots:")
        assert await client.names() == []
        await client.open_gate(gate)
        assert len(await client.lease()) == 1

    @pytest.mark.parametrize("how", ["released", "lost with its worker", "expired", "excluded", "retried"])
    async def test_however_a_lease_ends_its_place_is_free(self, store: ContractStore, how: str) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], per_ip=1, lease_seconds=5)
        for _ in range(3):
            (lease,) = await client.lease("w1")
            assert await client.names("w2") == []
            if how == "released":
                await client.release(lease)
                await client.release(lease)
            elif how == "lost with its worker":
                assert await client.lose("w1") == 1
            elif how == "expired":
                await store.elapse(6)
            elif how == "excluded":
                await client.end(lease, Ending.EXCLUDED, error_class="robots", touched=False)
            else:
                await client.retry(lease, 100)
        (lease,) = await client.lease("w3")
        assert await client.names("w2") == []
        assert await client.answered(lease, address=ONE)
        assert len(await client.lease("w2")) == 1

    async def test_a_refused_commit_gives_no_place_back(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], per_ip=1, lease_seconds=5)
        (old,) = await client.lease("w1")
        await store.elapse(6)
        (new,) = await client.lease("w2")
        assert not await client.answered(old, address=ONE)
        assert await client.names("w1") == []
        assert await client.answered(new, address=ONE)

    async def test_a_suspect_waits_for_its_address(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a], pages=1, per_ip=1)
        await client.add(f"{b}/0")
        (lease,) = [lease for lease in await client.lease("first") if name_of(lease)[0] == b]
        await client.answered(lease, address=ONE)
        await client.lose("first")
        (lease,) = await client.lease("w1")
        assert name_of(lease) == f"{a}/1"
        await client.lose("w1")
        assert (await client.trace(f"{a}/1")).losses == 2, "from now on it is leased alone"
        await client.add(f"{b}/1", priority=9)
        suspect = await client.lease("w1")
        assert names_of(suspect) == [f"{a}/1"]
        assert await client.names("w2") == [], "b/1 waits for the address"
        await client.release(*suspect)
        (lease,) = await client.lease("w1")
        assert names_of([lease]) == [f"{a}/1"], "it goes first"

    async def test_a_new_run_counts_from_nothing(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], per_ip=1)
        (old,) = await client.lease()
        await client.begin(fresh=True, per_ip=1)
        await client.end(await client.one(), links=[f"{a}/1", f"{b}/1"])
        (lease,) = await client.lease()
        assert not await client.answered(old, address=ONE)
        assert await client.names() == [], "the address is remembered"
        await client.answered(lease, address=ONE)
        assert len(await client.lease()) == 1

    async def test_a_limit_that_was_lowered_holds_at_once(self, store: ContractStore) -> None:
        a, b, c = store.together(3)
        client = store.client()
        await begun(client, [a, b, c], per_ip=3)
        leases = await client.lease()
        await client.begin(per_ip=1)
        assert await client.names() == []
        for lease in leases[:2]:
            await client.answered(lease, address=ONE)
            assert await client.names() == []
        await client.answered(leases[2], address=ONE)
        assert len(await client.lease()) == 1

    async def test_a_limit_that_was_raised_holds_after_the_next_answer(self, store: ContractStore) -> None:
        a, b, c = store.together(3)
        client = store.client()
        await begun(client, [a, b, c], per_ip=1)
        lease = await client.one()
        await client.lease()
        await client.begin(per_ip=3)
        await client.answered(lease, address=ONE)
        assert len(await client.lease()) == 3

    async def test_a_limit_that_was_lifted_holds_nobody(self, store: ContractStore) -> None:
        a, b, c = store.together(3)
        client = store.client()
        await begun(client, [a, b, c], pages=2, per_ip=1)
        lease = await client.one()
        await client.lease()
        await client.begin(per_ip=None)
        assert len(await client.lease()) == 5
        await client.answered(lease, address=ONE)
        await client.begin(per_ip=1)
        assert (await client.counts()).leased == 5

    async def test_who_waits_for_an_address_without_a_budget_is_excluded_when_it_has_room(
        self, store: ContractStore
    ) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], pages=1, per_ip=1, lease_seconds=5)
        assert len(await client.lease("dies")) == 1, "the other one waits for the address"
        await client.begin(per_ip=1, lease_seconds=5, max_pages_per_host=1)
        await store.elapse(6)
        await client.frontier.reap()
        assert (await client.counts()).excluded == 2
        assert await client.state() is State.FINISHED

    async def test_a_thousand_hosts_of_a_full_address_hold_nobody_up_for_long(self, store: ContractStore) -> None:
        """The hosts are ready when the limit is set, and each call may pass over only a limited number of them."""
        client = store.client()
        many = 2300
        await client.seeded(*(f"h{number}/1" for number in range(many)), "z/1", per_host=1)
        leases = await client.lease(limit=many + 1)
        news = {False: HostNews(answered=True, address=ONE), True: HostNews(answered=True, address=OTHER)}
        await client.commit(*[await client.outcome(lease, news=news[name_of(lease) == "z/1"]) for lease in leases])
        await client.add(*(f"h{number}/2" for number in range(many)), "z/2")
        await client.begin(per_ip=1, per_host=1)
        served: list[str] = []
        for _ in range(many // 1000 + 3):
            grant = await client.grant(limit=5)
            served += names_of(grant.leases)
            if "z/2" in served:
                break
            assert grant.ask_again_seconds == 0 or len(grant.leases) == 5, "there is more to look at"
        assert "z/2" in served
        assert store.together(1) != ["a"] or len(served) == 2, "and one of the address"

    async def test_people_are_told_who_waits_for_an_address(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], pages=1, per_ip=1)
        lease = await client.one()
        for host in (a, b):
            seen = (await client.trace(f"{host}/1")).host
            assert seen is not None
            assert (seen.address, seen.address_full) == (ONE, True)
        assert {host.address_full for host in (await client.frontier.report()).hosts} == {True}
        await client.answered(lease, address=ONE)
        waiting = b if name_of(lease)[0] == a else a
        seen = (await client.trace(f"{waiting}/1")).host
        assert seen is not None
        assert not seen.address_full

    async def test_a_commit_that_wants_more_gets_the_place_it_has_freed(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await begun(client, [a, b], per_ip=1)
        lease = await client.one()
        outcome = await client.outcome(lease, news=HostNews(answered=True, address=ONE), status=200)
        committed = await client.commit(outcome, want=5)
        assert committed.grant is not None
        assert len(committed.grant.leases) == 1
        assert committed.grant.leases[0].host_key != lease.host_key
