"""Promise 5 among workers: while fewer requests are ready than slots are free, each worker gets its share of them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from skitter.frontier.contract import POLL_SECONDS
from skitter.model.lease import Grant, Lease
from skitter.model.outcome import Ending, Outcome
from skitter.policy.polling import pause_seconds
from skitter.policy.shares import SHARED_POLL_SECONDS, SHORT_SECONDS
from skitter.testing.contract.client import Client, names_of
from skitter.testing.contract.store import ContractStore

TICK_SECONDS = 0.05


class SlowWeb:
    """Workers with different slots, and hosts that answer one request at a time, and slowly.

    A page links to the next one of its host, so each host always has one request that is ready or leased.
    """

    def __init__(self, client: Client, slots: dict[str, int], *, page_seconds: float = 1.0, failing: str = "") -> None:
        """Create the workers. ``page_seconds`` is an average; ``failing`` is a worker whose pages fail soon."""
        self.client = client
        self.slots = slots
        self._page_seconds = page_seconds
        self.ended: Counter[str] = Counter()
        self.busy_host_seconds = 0.0
        self._failing = failing
        self._now = 0.0
        self._ask_at = dict.fromkeys(slots, 0.0)
        self.leases: dict[str, list[tuple[float, Lease]]] = {worker: [] for worker in slots}
        """Leases of each worker, each with the time at which it ends."""
        self._chance = random.Random(1)
        for worker, count in slots.items():
            client.has_slots(worker, count)

    async def run(self, store: ContractStore, seconds: float, tick_seconds: float = TICK_SECONDS) -> None:
        """Run the workers for this time; pages and busy hosts are counted from zero."""
        self.ended.clear()
        self.busy_host_seconds = 0.0
        end = self._now + seconds
        while self._now < end:
            for worker in self.slots:
                await self._turn(worker)
            self.busy_host_seconds += tick_seconds * sum(map(len, self.leases.values()))
            await store.elapse(tick_seconds)
            self._now += tick_seconds

    async def _turn(self, worker: str) -> None:
        ended = [lease for at, lease in self.leases[worker] if at <= self._now]
        self.leases[worker] = [(at, lease) for at, lease in self.leases[worker] if at > self._now]
        want = self.slots[worker] - len(self.leases[worker])
        if ended:
            outcomes = [await self._outcome(worker, lease) for lease in ended]
            committed = await self.client.frontier.commit(worker, outcomes, want, self.client.next_call(worker))
            assert all(committed.accepted)
            self.ended[worker] += len(outcomes)
            self._take(worker, committed.grant, want)
        elif want and self._ask_at[worker] <= self._now:
            self._take(worker, await self.client.frontier.lease(worker, want, self.client.next_call(worker)), want)

    async def _outcome(self, worker: str, lease: Lease) -> Outcome:
        host, _, page = names_of([lease])[0].partition("/")
        ending = Ending.FAILED if worker == self._failing else Ending.DONE
        return await self.client.outcome(lease, ending, links=[f"{host}/{int(page) + 1}"])

    def _take(self, worker: str, grant: Grant | None, want: int) -> None:
        assert grant is not None
        for lease in grant.leases:
            seconds = 0.1 if worker == self._failing else self._page_seconds * (0.5 + self._chance.random())
            self.leases[worker].append((self._now + seconds, lease))
        pause = pause_seconds(grant.ask_again_seconds, grant.workers, self._chance.random())
        self._ask_at[worker] = self._now + pause if len(grant.leases) < want else self._now


class Sharing:
    """No worker hoards ready requests while another worker has free slots."""

    async def seeded(
        self,
        store: ContractStore,
        hosts: int,
        *,
        page_seconds: float = 1.0,
        delay_seconds: float = 0.0,
        per_host: int = 1,
        **slots: int,
    ) -> Client:
        """Return a client of a job with this many hosts, with one request each, and workers with these slots.

        Another request stays leased, so that the job keeps running. ``page_seconds`` is how long a page was held; 0 if
        none has ended yet.
        """
        if not store.shares_work:
            pytest.skip(store.sharing_reason)
        client = store.client()
        await client.seeded("leased/0", "ended/0", per_host=per_host, delay_seconds=delay_seconds)
        _, ended = sorted(await client.lease("holder", 2), key=lambda lease: lease.host_key, reverse=True)
        client.has_slots("short", 1)
        assert await client.lease("short", 1) == []
        await store.elapse(page_seconds)
        if page_seconds:
            assert await client.end(ended)
        await client.lose("short")
        if hosts:
            await client.add(*(f"h{host}/0" for host in range(hosts)))
        for worker, count in slots.items():
            client.has_slots(worker, count)
        return client

    async def finds_nothing(self, store: ContractStore, client: Client, worker: str, want: int) -> None:
        """Check that the worker gets nothing, and let time pass until it asks again."""
        grant = await client.grant(worker, want)
        assert grant.leases == []
        assert grant.ask_again_seconds == POLL_SECONDS
        await store.elapse(POLL_SECONDS)

    async def test_who_asks_while_another_is_short_gets_its_share(self, store: ContractStore) -> None:
        client = await self.seeded(store, 8, w1=8, w2=8)
        leases = await client.lease("w1", 8)
        await self.finds_nothing(store, client, "w2", 8)
        committed = await client.commit(*[await client.outcome(lease) for lease in leases], worker="w1")
        assert all(committed.accepted)
        await client.add(*(f"h{host}/1" for host in range(8)))
        assert len(await client.lease("w1", 8)) == 4
        assert len(await client.lease("w2", 8)) == 4

    async def test_a_commit_is_answered_with_the_share(self, store: ContractStore) -> None:
        client = await self.seeded(store, 8, w1=8, w2=8)
        leases = await client.lease("w1", 8)
        await self.finds_nothing(store, client, "w2", 8)
        outcomes = [await client.outcome(lease, links=[f"{names_of([lease])[0]}1"]) for lease in leases[:4]]
        committed = await client.commit(*outcomes, worker="w1", want=4)
        assert committed.grant is not None
        assert committed.grant.leases == [], "it has four, and the other one none"
        assert len(await client.lease("w2", 8)) == 4

    async def test_shares_go_by_slots(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, w1=2, w2=6)
        await client.add("a/1")
        assert len(await client.lease("w2", 6)) == 1
        await store.elapse(POLL_SECONDS)
        await client.add(*(f"h{host}/0" for host in range(3)))
        assert len(await client.lease("w1", 2)) == 1, "one of four: a quarter"
        assert len(await client.lease("w2", 5)) == 2

    async def test_while_nobody_is_short_a_worker_gets_all_it_asks_for(self, store: ContractStore) -> None:
        client = await self.seeded(store, 8, w1=8, w2=8)
        assert len(await client.lease("w2", 2)) == 2
        assert len(await client.lease("w1", 8)) == 6

    async def test_a_worker_alone_gets_all_there_is(self, store: ContractStore) -> None:
        client = await self.seeded(store, 4, w1=16)
        assert len(await client.lease("w1", 16)) == 4
        await client.add(*(f"k{host}/0" for host in range(12)))
        assert len(await client.lease("w1", 12)) == 12

    async def test_who_does_not_say_its_slots_gets_all_there_is(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, w1=8)
        await self.finds_nothing(store, client, "w1", 8)
        await client.add(*(f"h{host}/0" for host in range(8)))
        assert len(await client.lease("w2", 8)) == 8

    async def test_a_worker_that_vanished_binds_nobody_for_long(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, w1=8, w2=8)
        await self.finds_nothing(store, client, "w2", 8)
        await client.add(*(f"h{host}/0" for host in range(8)))
        assert len(await client.lease("w1", 8)) == 4
        await store.elapse(SHORT_SECONDS + TICK_SECONDS)
        assert len(await client.lease("w1", 4)) == 4

    async def test_a_worker_that_was_seen_to_die_binds_nobody(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, w1=8, w2=8)
        await self.finds_nothing(store, client, "w2", 8)
        await client.lose("w2")
        await client.add(*(f"h{host}/0" for host in range(8)))
        assert len(await client.lease("w1", 8)) == 8

    async def test_a_worker_with_nothing_to_do_gets_one_at_least(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, w1=1, w2=1000)
        await self.finds_nothing(store, client, "w2", 1000)
        await client.add("a/1")
        assert len(await client.lease("w1", 1)) == 1

    async def test_a_slot_that_a_host_has_counts_as_ready(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, per_host=8, w1=8, w2=8)
        await self.finds_nothing(store, client, "w2", 8)
        await client.add(*(f"a/{page}" for page in range(20)))
        assert len(await client.lease("w1", 8)) == 4
        assert len(await client.lease("w2", 8)) == 4

    async def test_what_is_left_for_others_is_asked_for_soon(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, w1=8, w2=8)
        await self.finds_nothing(store, client, "w2", 8)
        await client.add(*(f"h{host}/0" for host in range(8)))
        assert (await client.grant("w1", 8)).ask_again_seconds == SHARED_POLL_SECONDS
        assert (await client.grant("w2", 8)).ask_again_seconds == SHARED_POLL_SECONDS
        await store.elapse(SHORT_SECONDS + TICK_SECONDS)
        assert (await client.grant("w2", 4)).ask_again_seconds == POLL_SECONDS

    @pytest.mark.parametrize("page_seconds", [0.0, 0.1])
    async def test_while_pages_are_fast_a_worker_gets_all_it_asks_for(
        self, store: ContractStore, page_seconds: float
    ) -> None:
        """Requests left for another worker stay idle until it asks. Before a page has ended, its speed is unknown."""
        client = await self.seeded(store, 0, page_seconds=page_seconds, w1=8, w2=8)
        await self.finds_nothing(store, client, "w2", 8)
        await client.add(*(f"h{host}/0" for host in range(8)))
        assert len(await client.lease("w1", 8)) == 8

    async def test_pages_that_turn_out_to_be_slow_are_shared(self, store: ContractStore) -> None:
        client = await self.seeded(store, 8, page_seconds=0.1, w1=8, w2=8)
        leases = await client.lease("w1", 8)
        await self.finds_nothing(store, client, "w2", 8)
        for lease in leases:
            assert await client.end(lease)
        await client.add(*(f"h{host}/1" for host in range(8)))
        assert len(await client.lease("w1", 8)) == 4

    async def test_nothing_is_left_for_a_worker_that_does_not_ask_soon(self, store: ContractStore) -> None:
        client = await self.seeded(store, 0, w1=8, w2=8)
        assert (await client.grant("w2", 8)).ask_again_seconds == POLL_SECONDS
        await client.add(*(f"h{host}/0" for host in range(8)))
        assert len(await client.lease("w1", 4)) == 4
        await store.elapse(POLL_SECONDS - TICK_SECONDS)
        assert len(await client.lease("w1", 4)) == 0
        assert len(await client.lease("w2", 8)) == 4

    async def test_what_is_granted_ahead_of_a_delay_is_no_part_of_the_share(self, store: ContractStore) -> None:
        """No other worker could be granted these requests."""
        client = await self.seeded(store, 0, per_host=8, delay_seconds=0.02, w1=16, w2=16)
        await self.finds_nothing(store, client, "w2", 16)
        await client.add(*(f"a/{page}" for page in range(20)))
        leases = await client.lease("w1", 16)
        assert len(leases) == 6
        outcomes = [await client.outcome(lease) for lease in leases[:2]]
        committed = await client.commit(*outcomes, worker="w1", want=12)
        assert committed.grant is not None
        assert len(committed.grant.leases) == 2

    async def test_what_has_a_need_is_no_part_of_the_share(self, store: ContractStore) -> None:
        """The worker that is short may be unable to serve the need."""
        client = await self.seeded(store, 0, w1=8, w2=64)
        client.serves("w1", "browser")
        await self.finds_nothing(store, client, "w2", 64)
        await client.add(*(f"h{host}/1" for host in range(9)))
        assert len(await client.lease("w1", 8)) == 1
        await client.add(*(f"k{host}/1" for host in range(7)), need="browser")
        assert len(await client.lease("w1", 7)) == 7

    @pytest.mark.parametrize("hosts", [40, pytest.param(60, marks=pytest.mark.soak)])
    async def test_on_a_slow_web_pages_go_by_slots(self, store: ContractStore, hosts: int) -> None:
        client = await self.seeded(store, hosts)
        if not store.controls_time:
            pytest.skip(store.time_reason)
        slots = {"w1": 64, "w2": 64, "w3": 16, "w4": 4}
        web = SlowWeb(client, slots)
        await web.run(store, 5.0)
        await web.run(store, 60.0)
        pages, total = web.ended.total(), sum(slots.values())
        assert web.busy_host_seconds > 0.97 * hosts * 60.0, "no host waits for long"
        for worker, count in slots.items():
            assert web.ended[worker] == pytest.approx(pages * count / total, rel=0.15), (worker, web.ended)

    @pytest.mark.parametrize("page_seconds", [0.1, 0.3])
    async def test_no_host_stands_idle_for_the_sake_of_shares(self, store: ContractStore, page_seconds: float) -> None:
        """This also holds at first, when no worker knows yet that requests will be left for it."""
        client = await self.seeded(store, 20)
        if not store.controls_time:
            pytest.skip(store.time_reason)
        web = SlowWeb(client, {"w1": 16, "w2": 16, "w3": 8, "w4": 4}, page_seconds=page_seconds)
        await web.run(store, 4.0, tick_seconds=0.01)
        assert web.busy_host_seconds > 0.98 * 20 * 4.0

    async def test_a_worker_that_fails_fast_gets_no_more_for_it(self, store: ContractStore) -> None:
        client = await self.seeded(store, 20)
        if not store.controls_time:
            pytest.skip(store.time_reason)
        web = SlowWeb(client, {"w1": 32, "w2": 32}, failing="w2")
        await web.run(store, 3.0)
        await web.run(store, 10.0)
        assert web.ended["w2"] < web.ended["w1"], "though each takes it a tenth of the time"
