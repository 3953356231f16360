"""Promise 4: polite as a cluster. Delays, start windows, limits, and slots that are given back."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.model.lease import Call, Lease
from skitter.model.outcome import Ending
from skitter.testing.contract.client import Client, names_of
from skitter.testing.contract.store import ContractStore

WINDOW = 0.05
"""Start window of a host where no worker was late yet."""
TICK = 0.005


class Politeness:
    """Two grants of a host are at least its delay apart, and never more than ``per_host`` requests are leased."""

    async def test_without_a_delay_there_is_no_hurry(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", per_host=3)
        leases = await client.lease()
        assert [lease.start_seconds for lease in leases] == [None, None, None]

    async def test_between_two_grants_the_delay_and_the_start_window_pass(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "a/3", delay_seconds=1.0)
        grant = await first.grant("w1")
        assert names_of(grant.leases) == ["a/1"]
        assert [lease.start_seconds for lease in grant.leases] == [WINDOW]
        await store.elapse(1.0)
        # The first worker may only just have reached the socket, so the delay alone is not enough.
        assert await first.names("w1") == await second.names("w2") == []
        await store.elapse(WINDOW + TICK)
        assert await second.names("w2") == ["a/2"]
        assert await first.names("w1") == []

    async def test_the_way_of_an_answer_is_added_to_the_start_window(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", delay_seconds=1.0)
        grant = await first.frontier.lease("w1", 5, Call(round_trip_seconds=0.5))
        assert [lease.start_seconds for lease in grant.leases] == [WINDOW + 0.5]
        await store.elapse(1.0 + WINDOW + 0.4)
        assert await second.names("w2") == []
        await store.elapse(0.1 + TICK)
        assert await second.names("w2") == ["a/2"]

    async def test_an_empty_grant_says_when_the_next_host_is_due(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=0.4)
        assert abs((await client.grant()).ask_again_seconds - 0.4 - WINDOW) < 0.1
        await store.elapse(0.2)
        assert abs((await client.grant()).ask_again_seconds - 0.2 - WINDOW) < 0.1

    async def test_an_empty_grant_is_asked_again_within_a_second(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=100)
        assert 0 < (await client.grant()).ask_again_seconds <= 1.0

    async def test_a_delay_holds_though_the_page_has_ended(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=1.0)
        await client.end(await client.one())
        assert await client.names() == []
        await store.elapse(1.0 + WINDOW + TICK)
        assert await client.names() == ["a/2"]

    async def test_hosts_do_not_wait_for_each_other(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "b/1", "b/2", delay_seconds=10)
        assert sorted(await client.names()) == ["a/1", "b/1"]

    async def test_no_more_than_the_limit_is_in_flight_for_all_workers(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "a/3", "a/4", "b/1", per_host=2)
        leases = await first.lease("w1")
        assert sorted(names_of(leases)) == ["a/1", "a/2", "b/1"]
        assert await second.names("w2") == []
        await first.end(leases[0])
        assert await second.names("w2") == ["a/3"]
        assert await first.names("w1") == []

    async def test_a_limit_that_was_lowered_holds_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=4)
        leases = await client.lease(limit=3)
        await client.begin(per_host=2)
        assert await client.names() == []
        await client.end_all(leases[:2])
        assert await client.names() == ["a/4"]

    async def test_a_limit_that_was_raised_holds_after_the_next_answer(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=1)
        lease = await client.one()
        await client.begin(per_host=3)
        await client.end(lease)
        assert await client.names() == ["a/2", "a/3", "a/4"]


class DefaultPace:
    """A public host has a delay and two requests in flight, unless the settings or its robots.txt have a pace."""

    @pytest.mark.parametrize(
        ("host_key", "settings", "at_once", "in_all"),
        [
            ("https://shop.example:8443", {}, 1, 2),
            ("http://8.8.8.8", {}, 1, 2),
            ("http://intranet", {}, 8, 8),
            ("http://10.0.0.1:8080", {}, 8, 8),
            ("http://shop.example", {"delay_seconds": 0.0}, 8, 8),
            ("http://shop.example", {"per_host": 5}, 5, 5),
        ],
    )
    async def test_who_gets_it(
        self, store: ContractStore, host_key: str, settings: dict[str, Any], at_once: int, in_all: int
    ) -> None:
        first, second = store.client(), store.client()
        pages = [f"{host_key}/{page}" for page in range(9)]
        await first.seeded(*pages, **{"delay_seconds": None, "per_host": None, **settings})
        assert len(await first.lease("w1")) == at_once
        await store.elapse(0.5)
        assert await first.lease("w1") == []
        await store.elapse(WINDOW + TICK)
        assert len(await second.lease("w2")) == in_all - at_once
        await store.elapse(10.0)
        assert await first.lease("w1") == []

    async def test_a_crawl_delay_replaces_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", obey_robots=True, delay_seconds=None, per_host=None)
        await client.open_gate(await client.one(), b"Crawl-delay: 0.3", 0.3)
        await store.elapse(0.5)
        for _ in range(3):
            await store.elapse(0.3 + WINDOW + TICK)
            assert len(await client.lease()) == 1


class AdaptiveDelay:
    """With ``target_concurrency`` the delay of a host follows its latency."""

    async def waits(self, store: ContractStore, client: Client, delay: float) -> Lease:
        """Check that the host's next request is granted this long after the previous one, and return its lease."""
        await store.elapse(delay + WINDOW - TICK)
        assert await client.names() == []
        await store.elapse(2 * TICK)
        return await client.one()

    async def test_the_delay_is_the_latency_over_the_target(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(6)), target_concurrency=2.0)
        first = await client.one()
        assert first.start_seconds is None, "nothing is known of the host yet"
        assert await client.names() == [], "and so the first page is fetched alone"
        await client.answered(first, 3.0)
        lease = await client.one()
        assert lease.start_seconds == WINDOW
        lease = await self.waits(store, client, 1.5)
        await client.answered(lease, 8.0)
        # The delay follows the average, so one slow page does not make a slow host. The previous grant used the old
        # average.
        lease = await self.waits(store, client, 1.5)
        await self.waits(store, client, 2.0)

    async def test_a_host_that_gets_faster_is_asked_more_often(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(6)), target_concurrency=1.0)
        await client.answered(await client.one(), 3.0)
        await client.answered(await client.one(), 0.5)
        await client.answered(await self.waits(store, client, 3.0), 2.5)
        await self.waits(store, client, 2.5)

    async def test_a_quick_error_does_not_make_it_shorter(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(6)), target_concurrency=1.0)
        await client.answered(await client.one(), 2.0)
        for status in (404, 500, 301):
            await client.answered(await client.one(), 0.01, status=status)
            await store.elapse(2.0 + WINDOW + TICK)
        assert (await client.frontier.report()).hosts[0].latency_seconds == 2.0
        await client.one()
        await self.waits(store, client, 2.0)

    async def test_it_has_bounds(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(
            *(f"{host}/{number}" for host in "ab" for number in range(3)),
            target_concurrency=0.1,
            delay_seconds=1.0,
            max_delay_seconds=4.0,
        )
        latency = {"http://a.example": 0.01, "http://b.example": 1000.0}
        for lease in await client.lease():
            await client.answered(lease, latency[lease.host_key])
        await store.elapse(1.0 + WINDOW + TICK)
        assert sorted(await client.names()) == ["a/1", "b/1"]
        await store.elapse(1.0 + WINDOW + TICK)
        assert await client.names() == ["a/2"]
        assert names_of([await self.waits(store, client, 3.0 - WINDOW - TICK)]) == ["b/2"]

    async def test_a_crawl_delay_may_be_longer(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", obey_robots=True, target_concurrency=1.0, max_delay_seconds=1.0)
        await client.open_gate(await client.one(), b"Crawl-delay: 5", 5.0)
        await store.elapse(5.0 + TICK)
        await client.answered(await client.one(), 3.0)
        await self.waits(store, client, 5.0)

    async def test_it_holds_for_another_client(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "a/3", target_concurrency=1.0)
        await first.answered(await first.one("w1"), 3.0)
        assert await second.names("w2") == ["a/2"]
        assert await first.names("w1") == []
        await self.waits(store, second, 3.0)


class Slots:
    """A request that never reached the network gives its slot at the host back."""

    async def test_released_work_gives_the_slot_back(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", delay_seconds=100, per_host=1)
        await first.release(await first.one("w1"))
        assert await second.names("w2") == ["a/1"]
        assert await first.names("w1") == []

    async def test_released_work_has_neither_an_attempt_nor_a_loss(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        for _ in range(6):
            await client.release(await client.one())
        trace = await client.trace("a/1")
        assert (trace.state, trace.attempts, trace.losses) == ("queued", 0, 0)
        assert (await client.counts()).queued == 1

    async def test_a_slot_is_not_given_back_twice(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=2)
        lease, _ = await client.lease()
        await client.release(lease, lease)
        await client.release(lease)
        assert (await client.counts()).leased == 1
        assert await client.names() == ["a/1"]

    async def test_a_slot_that_a_later_grant_has_taken_is_not_given_back(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", delay_seconds=1.0)
        slow = await client.one()
        await store.elapse(1.0 + WINDOW + TICK)
        await client.one()
        await client.release(slow)
        assert await client.names() == [], "a/2 may be at the socket right now"
        await store.elapse(1.0 + WINDOW + TICK)
        assert await client.names() == ["a/1"]

    async def test_a_slot_is_not_given_back_because_the_window_grew(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", delay_seconds=0.3)
        old = await client.one()
        for _ in range(3):
            await store.elapse(0.8)
            await client.release(await client.one(), late=True)
        await client.one()
        await client.release(old)
        assert await client.names() == []

    async def test_a_late_release_makes_the_hosts_window_longer(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", delay_seconds=0.5)
        windows: list[float | None] = []
        for _ in range(8):
            lease = await client.one()
            windows.append(lease.start_seconds)
            await client.release(lease, late=True)
        assert windows == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
        await client.one()
        await client.add("b/1")
        assert (await client.one()).start_seconds == WINDOW, "the other hosts keep theirs"

    async def test_the_longer_window_is_waited_for(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=0.5)
        await client.release(await client.one(), late=True)
        assert (await client.one()).start_seconds == 2 * WINDOW
        await store.elapse(0.5 + WINDOW + TICK)
        assert await client.names() == []
        await store.elapse(WINDOW)
        assert await client.names() == ["a/2"]

    async def test_work_that_was_broken_off_at_the_socket_keeps_the_delay(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=1.0, per_host=1)
        await client.release(await client.one(), touched=True)
        assert await client.names() == []
        await store.elapse(1.0 + WINDOW + TICK)
        lease = await client.one()
        assert (names_of([lease]), lease.attempts) == (["a/1"], 0), "it costs the request nothing"

    async def test_what_is_excluded_untouched_gives_the_slot_back(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", delay_seconds=100, per_host=1)
        await client.end(await client.one(), Ending.EXCLUDED, error_class="robots", touched=False)
        assert await client.names() == ["a/2"]
        assert await client.names() == []

    async def test_what_is_excluded_after_a_fetch_keeps_the_slot(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=100)
        await client.end(await client.one(), Ending.EXCLUDED, error_class="type")
        assert await client.names() == []
