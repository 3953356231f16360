"""The proxy pool: which proxy a lease gets, how many leases a proxy may have, and proxies that fail or are banned."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from skitter.frontier.contract import HOST_PROXY_SECONDS
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, HostNews
from skitter.model.proxy import ProxyFault, ProxyNews, ProxySeen
from skitter.policy.proxy_choice import FIRST_REST_SECONDS, PROBES, PROXY_FAILURES_LIMIT, REST_FAILURES
from skitter.testing.contract.client import Client, name_of
from skitter.testing.contract.store import ContractStore

ANSWER = ProxyNews(latency_seconds=0.2, bytes=1000)
GOOD_NEWS = HostNews(answered=True, latency_seconds=0.2)
CAP = 6
"""Limit that is divisible by the number of shards in the suite."""


def proxy_url(number: int) -> str:
    return f"http://user{number}:secret@gateway.example:3128"


async def with_proxies(client: Client, count: int) -> list[str]:
    """Register this many proxies and return their ids."""
    return [await client.frontier.register_proxy(proxy_url(number), "test") for number in range(count)]


async def pool_of(client: Client) -> dict[str, ProxySeen]:
    return {proxy.id: proxy for proxy in await client.frontier.proxies()}


async def proven(client: Client, *hosts: str, **settings: Any) -> list[str]:
    """Begin a job with two proxies that have answered and twelve pages of each host; return the ids of the proxies."""
    await client.seeded(*(f"{host}/{page}" for host in hosts for page in range(12)), proxy_pool=True, **settings)
    proxies = await with_proxies(client, 2)
    for _ in range(100):
        pool = await pool_of(client)
        if len(pool) == 2 and all(proxy.answers for proxy in pool.values()):
            break
        for lease in await client.lease():
            await end_well(client, lease)
        await client.add(*(f"{host}/more{len(pool)}" for host in hosts))
    return proxies


async def end_well(client: Client, lease: Lease, status: int = 200) -> None:
    assert await client.end(lease, status=status, news=GOOD_NEWS, proxy_news=ANSWER)


async def fail(
    client: Client, lease: Lease, fault: ProxyFault = ProxyFault.PROXY, news: HostNews | None = None
) -> None:
    assert await client.end(
        lease, Ending.RETRY, error_class="proxy", error="refused", news=news, proxy_news=ProxyNews(fault=fault)
    )


class Pool:
    """Tests of the proxies that are in the pool."""

    async def test_a_proxy_is_known_by_its_whole_url_and_told_without_its_password(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        one, other = await with_proxies(client, 2)
        assert one != other, "two users of one gateway"
        assert await client.frontier.register_proxy(proxy_url(0), "another", 60.0) == one
        found = await pool_of(store.client())
        assert sorted(found) == sorted([one, other])
        assert (found[one].url, found[one].owner, found[other].owner) == (proxy_url(0), "another", "test")
        assert found[one].expires_seconds == pytest.approx(60.0, abs=5.0)
        assert found[other].expires_seconds is None
        assert "secret" not in f"{found[one]!r} {found[one].shown}"
        assert "user0" in found[one].shown

    async def test_without_a_pool_a_lease_has_no_proxy(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert (await client.one()).proxy == ""
        assert await client.frontier.proxies() == []

    async def test_with_the_setting_nothing_is_leased_before_a_proxy_is_registered(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", proxy_pool=True)
        grant = await client.grant()
        assert (grant.leases, grant.blocked_by) == ([], "proxy")
        (proxy,) = await with_proxies(client, 1)
        grant = await client.grant()
        assert [lease.proxy for lease in grant.leases] == [proxy, proxy]
        assert grant.blocked_by == ""

    async def test_from_the_first_proxy_on_nothing_goes_out_without_one(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        assert (await client.one()).proxy == ""
        (proxy,) = await with_proxies(client, 1)
        assert await client.frontier.remove_proxy(proxy) == 0
        grant = await client.grant()
        assert (grant.leases, grant.blocked_by) == ([], "proxy")
        assert await client.frontier.proxies() == []

    async def test_a_drained_proxy_gets_nothing_and_counts_what_is_in_flight(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", proxy_pool=True)
        (proxy,) = await with_proxies(client, 1)
        lease = await client.one()
        assert await client.frontier.drain_proxy(proxy) == 1
        assert await client.frontier.drain_proxy(proxy) == 1
        assert (await pool_of(client))[proxy].draining
        assert (await client.grant()).blocked_by == "proxy"
        await end_well(client, lease)
        assert await client.frontier.drain_proxy(proxy) == 0
        assert await client.frontier.drain_proxy("unknown") == 0
        await with_proxies(client, 1)
        assert (await client.one()).proxy == proxy

    async def test_a_removed_proxy_is_forgotten_when_its_last_request_has_ended(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", proxy_pool=True)
        (proxy,) = await with_proxies(client, 1)
        lease = await client.one()
        assert await client.frontier.remove_proxy(proxy) == 1
        assert list(await pool_of(client)) == [proxy], "a worker may still have to look it up"
        await end_well(client, lease)
        assert await client.frontier.proxies() == []

    async def test_a_proxy_that_is_not_registered_again_is_gone(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", proxy_pool=True)
        await client.frontier.register_proxy(proxy_url(0), "egress", 1.0)
        await store.elapse(0.7)
        await client.frontier.register_proxy(proxy_url(0), "egress", 1.0)
        await store.elapse(0.7)
        assert len(await client.frontier.proxies()) == 1
        await store.elapse(0.7)
        assert await client.frontier.proxies() == []
        assert (await client.grant()).blocked_by == "proxy"

    async def test_a_new_run_begins_without_proxies(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", proxy_pool=True)
        await with_proxies(client, 1)
        await client.begin(fresh=True, proxy_pool=True)
        assert await client.frontier.proxies() == []


class ProxyChoice:
    """Tests of the choice of the proxy for a lease."""

    async def test_no_more_than_the_cap_is_in_flight_over_all_workers(self, store: ContractStore) -> None:
        (a,) = store.together(1)
        client, other = store.client(), store.client()
        await proven(client, a, per_proxy=CAP, per_host=100, proxy_strategy="least_connections")
        await client.add(*(f"{a}/of{page}" for page in range(60)))
        leases = [*await client.lease("w1", 5), *await other.lease("w2", 5), *await client.lease("w1")]
        counted = Counter(lease.proxy for lease in leases)
        assert len(counted) == 2
        assert len(set(counted.values())) == 1, "the least loaded one is taken"
        assert max(counted.values()) <= CAP
        grant = await other.grant("w2")
        assert (grant.leases, grant.blocked_by) == ([], "proxy")
        assert {proxy.in_flight for proxy in (await pool_of(client)).values()} == set(counted.values())
        await end_well(client, leases[0])
        assert [lease.proxy for lease in await other.lease("w2")] == [leases[0].proxy]

    async def test_a_lease_that_ends_in_any_way_is_counted_no_more(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{page}" for page in range(8)), proxy_pool=True, lease_seconds=1.0)
        (proxy,) = await with_proxies(client, 1)
        for _ in range(2):
            await end_well(client, await client.one())
        await client.release(await client.one())
        await client.one("dead")
        assert await client.lose("dead") == 1
        await client.one("held")
        assert (await pool_of(client))[proxy].in_flight == 1
        await store.elapse(1.1)
        await client.frontier.reap()
        assert (await pool_of(client))[proxy].in_flight == 0

    async def test_a_call_that_is_sent_again_names_the_same_proxies(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "b/1", proxy_pool=True)
        await with_proxies(client, 3)
        call = client.next_call("w")
        first = await client.frontier.lease("w", 10, call)
        again = await client.frontier.lease("w", 10, msgspec.structs.replace(call, again=True))
        assert {lease.id: lease.proxy for lease in first.leases} == {lease.id: lease.proxy for lease in again.leases}
        assert all(lease.proxy for lease in first.leases)
        assert sum(proxy.in_flight for proxy in (await pool_of(client)).values()) == len(first.leases)

    async def test_round_robin_takes_them_in_turn(self, store: ContractStore) -> None:
        (a,) = store.together(1)
        client = store.client()
        await client.seeded(*(f"{a}/{page}" for page in range(9)), proxy_pool=True)
        proxies = await with_proxies(client, 3)
        taken = []
        for _ in range(9):
            lease = await client.one()
            taken.append(lease.proxy)
            await end_well(client, lease)
        assert taken == sorted(proxies) * 3

    @pytest.mark.parametrize("strategy", ["random", "weighted"])
    async def test_a_strategy_that_is_changed_holds_at_once(self, store: ContractStore, strategy: str) -> None:
        (a,) = store.together(1)
        client = store.client()
        await client.seeded(*(f"{a}/{page}" for page in range(40)), proxy_pool=True)
        proxies = await with_proxies(client, 2)
        for _ in range(4):
            await end_well(client, await client.one())
        await client.frontier.change_settings({"proxy_strategy": strategy})
        taken = []
        for _ in range(36):
            lease = await client.one()
            taken.append(lease.proxy)
            slow = lease.proxy == proxies[0]
            news = ProxyNews(latency_seconds=50.0 if slow else 0.1)
            assert await client.end(lease, status=200, news=GOOD_NEWS, proxy_news=news)
        counted = Counter(taken)
        assert taken != sorted(proxies) * 18
        assert set(counted) == set(proxies) or strategy == "weighted"
        if strategy == "weighted":
            assert counted[proxies[1]] > 24, "a slow one gets less"

    async def test_a_host_keeps_its_proxy_until_that_fails(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await client.seeded(
            *(f"{host}/{n}" for host in (a, b) for n in range(6)), proxy_pool=True, proxy_rotation="host"
        )
        await with_proxies(client, 4)
        kept: dict[str, set[str]] = {}
        for _ in range(6):
            lease = await client.one()
            kept.setdefault(name_of(lease)[0], set()).add(lease.proxy)
            await end_well(client, lease)
        assert [len(proxies) for proxies in kept.values()] == [1] * len(kept)
        lease = await client.one()
        await fail(client, lease, ProxyFault.UNSURE)
        following = [one for one in await client.lease() if one.host_key == lease.host_key]
        assert following
        assert lease.proxy not in {one.proxy for one in following}


class ProxyHealth:
    """Tests of the effect of a proxy's failure on the request and on the proxy."""

    async def test_a_failure_of_the_proxy_spends_no_attempt_and_strikes_no_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", proxy_pool=True, max_attempts=1)
        await with_proxies(client, 4)
        for _ in range(5):
            lease = await client.one()
            assert lease.attempts == 0
            await fail(client, lease, news=HostNews(unreachable=True))
        trace = await client.trace("a/1")
        assert (trace.state, trace.attempts) == ("queued", 0)
        assert trace.host is not None
        assert (trace.host.strikes, trace.host.blocked_seconds) == (0, 0.0)

    async def test_after_twenty_failures_by_proxies_a_request_is_dead(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", proxy_pool=True)
        await with_proxies(client, PROXY_FAILURES_LIMIT)
        for _ in range(PROXY_FAILURES_LIMIT):
            assert (await client.counts()).failed == 0
            await fail(client, await client.one())
        (failed,) = await client.frontier.failures("proxy")
        assert (failed.error_class, failed.attempts) == ("proxy", 0)
        assert "refused" in failed.error
        assert await client.frontier.revive("proxy") == 1
        await fail(client, await client.one())
        assert (await client.counts()).queued == 1

    async def test_a_proxy_that_fails_rests_and_is_then_tried_with_one_request(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{page}" for page in range(8)), proxy_pool=True)
        (proxy,) = await with_proxies(client, 1)
        assert len(await client.lease("holder")) == PROBES, "it has not answered yet"
        await client.lose("holder")
        for _ in range(REST_FAILURES):
            await fail(client, await client.one())
        assert (await client.grant()).blocked_by == "proxy"
        seen = (await pool_of(client))[proxy]
        assert (seen.failures, seen.answers, seen.error) == (REST_FAILURES, 0, "proxy")
        assert 0 < seen.resting_seconds <= FIRST_REST_SECONDS
        await store.elapse(FIRST_REST_SECONDS + 0.1)
        (lease,) = await client.lease()
        await fail(client, lease)
        await store.elapse(FIRST_REST_SECONDS + 0.1)
        assert await client.lease() == [], "it rests twice as long"
        await store.elapse(FIRST_REST_SECONDS + 0.1)
        (lease,) = await client.lease()
        await end_well(client, lease)
        assert len(await client.lease()) > 1

    async def test_a_not_found_page_changes_nothing_for_the_proxy(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{page}" for page in range(6)), proxy_pool=True)
        (proxy,) = await with_proxies(client, 1)
        for _ in range(6):
            lease = await client.one()
            assert await client.end(
                lease, Ending.FAILED, status=404, error_class="http_4xx", news=GOOD_NEWS, proxy_news=ANSWER
            )
        seen = (await pool_of(client))[proxy]
        assert (seen.answers, seen.failures, seen.success_rate, seen.banned_hosts) == (6, 0, 1.0, {})
        assert seen.bytes == 6000
        assert seen.latency_seconds == pytest.approx(0.2)

    async def test_what_may_be_the_host_is_the_host_when_two_proxies_agree(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", proxy_pool=True, max_attempts=4)
        await with_proxies(client, 2)
        first = await client.one()
        await fail(client, first, ProxyFault.UNSURE, HostNews(unreachable=True))
        assert (await client.trace("a/1")).attempts == 0
        second = await client.one()
        assert second.proxy != first.proxy
        await fail(client, second, ProxyFault.UNSURE, HostNews(unreachable=True))
        trace = await client.trace("a/1")
        assert trace.attempts == 1
        assert trace.host is not None
        assert trace.host.strikes == 1
        failures = {proxy.id: proxy.failures for proxy in (await pool_of(client)).values()}
        assert failures == {first.proxy: 1, second.proxy: 0}

    async def test_an_answer_of_the_host_ends_the_suspicion(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", proxy_pool=True)
        await with_proxies(client, 3)
        leases = [await client.one(), await client.one(), await client.one()]
        assert len({lease.proxy for lease in leases}) == 3
        await fail(client, leases[0], ProxyFault.UNSURE, HostNews(unreachable=True))
        await end_well(client, leases[1])
        await fail(client, leases[2], ProxyFault.UNSURE, HostNews(unreachable=True))
        assert [(await client.trace(name)).attempts for name in map(name_of, (leases[0], leases[2]))] == [0, 0]


class ProxyBans:
    """Tests of bans of a proxy at one host."""

    async def test_a_proxy_that_is_banned_at_a_host_serves_others_there_no_more(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await proven(client, a, b, proxy_ban_seconds=1.0, per_proxy=CAP * 10, per_host=100)
        await client.add(*(f"{host}/of{page}" for host in (a, b) for page in range(8)))
        lease = next(lease for lease in await client.lease(limit=4) if name_of(lease)[0] == a)
        await fail(client, lease, ProxyFault.BANNED)
        seen = (await pool_of(client))[lease.proxy]
        assert list(seen.banned_hosts) == [lease.host_key]
        assert 0 < seen.banned_hosts[lease.host_key] <= 1.0
        assert seen.success_rate == 1.0, "it has carried the answer"
        leases = await store.client().lease("another worker")
        served = {(name_of(lease)[0], lease.proxy) for lease in leases}
        assert (a, lease.proxy) not in served
        assert (b, lease.proxy) in served
        assert any(host == a for host, _ in served)

    async def test_a_ban_ends_and_the_next_one_is_twice_as_long(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", proxy_pool=True, proxy_ban_seconds=1.0)
        (proxy,) = await with_proxies(client, 1)
        lease = next(lease for lease in await client.lease() if name_of(lease) == "a/1")
        await fail(client, lease, ProxyFault.BANNED)
        assert await client.lease() == []
        await store.elapse(1.1)
        (lease,) = await client.lease()
        await fail(client, lease, ProxyFault.BANNED)
        assert (await pool_of(client))[proxy].banned_hosts[lease.host_key] > 1.0
        await store.elapse(1.1)
        assert await client.lease() == []
        await store.elapse(1.1)
        assert len(await client.lease()) == 1

    async def test_a_host_without_a_proxy_waits_and_holds_up_no_other(self, store: ContractStore) -> None:
        a, b = store.together(2)
        client = store.client()
        await client.seeded(*(f"{host}/{page}" for host in (a, b) for page in range(2)), proxy_pool=True)
        (proxy,) = await with_proxies(client, 1)
        for lease in await client.lease():
            await end_well(client, lease)
        await client.add(*(f"{host}/of{page}" for host in (a, b) for page in range(2)))
        host_a = (await client.entries([f"{a}/1"]))[0].host_key
        assert await client.frontier.ban_proxy(proxy, host_a, 600.0)
        leases = [*await client.lease(limit=1), *await client.lease(limit=1), *await client.lease(limit=1)]
        assert {name_of(lease)[0] for lease in leases} == {b}
        trace = await client.trace(f"{a}/of0")
        assert 0 < trace.ready_in_seconds <= HOST_PROXY_SECONDS
        assert await client.frontier.ban_proxy(proxy, host_a, 0.0)
        await store.elapse(HOST_PROXY_SECONDS + 0.1)
        assert {name_of(lease)[0] for lease in await client.lease()} >= {a}

    async def test_a_ban_by_hand_is_for_all_hosts_and_is_remembered(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", proxy_pool=True)
        (proxy,) = await with_proxies(client, 1)
        assert not await client.frontier.ban_proxy("unknown", "", 60.0)
        assert await client.frontier.ban_proxy(proxy, "", 600.0)
        other = store.client()
        assert (await other.grant()).blocked_by == "proxy"
        await with_proxies(client, 1)
        assert (await pool_of(other))[proxy].banned_seconds > 500
        assert await other.frontier.ban_proxy(proxy)
        assert len(await client.lease()) == 2

    async def test_an_unwanted_proxy_is_not_used_for_the_next_attempt(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", proxy_pool=True)
        await with_proxies(client, 2)
        first = await client.one()
        news = ProxyNews(fault=ProxyFault.UNWANTED, latency_seconds=0.1)
        assert await client.end(first, Ending.RETRY, error_class="hook", error="again", news=GOOD_NEWS, proxy_news=news)
        assert (await client.trace("a/1")).attempts == 1
        (second,) = await client.lease()
        assert second.proxy != first.proxy
