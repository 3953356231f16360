"""Promise 2: one effect, for commits, epochs and parts."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from skitter.model.job import State
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, HostNews
from skitter.testing.contract.client import name_of, names_of
from skitter.testing.contract.store import ContractStore


class Commits:
    """Ack, links, items and host news take effect together or not at all."""

    @pytest.mark.parametrize("ending", ["done", "redirected", "failed", "excluded"])
    async def test_each_ending_is_counted_in_its_place(self, store: ContractStore, ending: str) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert (await client.counts()).queued == 1
        lease = await client.one()
        assert (await client.counts()).leased == 1
        await client.end(lease, Ending(ending), error_class="test")
        assert getattr(await client.counts(), ending) == 1
        told = store.ended_state if ending in ("done", "redirected") and not store.keeps_history else ending
        assert (await client.trace("a/1")).state == told

    async def test_ack_links_items_and_news_take_effect_together(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", host_backoff_seconds=60)
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        news = HostNews(answered=True, latency_seconds=0.5, address="192.0.2.1")
        assert await client.end(lease, links=["b/1"], items=[b"x", b"y"], news=news, tally={"bytes": 7})
        counts = await client.counts()
        assert (counts.done, counts.queued, counts.leased) == (1, 1, 0)
        assert await client.records() == [b"x", b"y"]
        report = await client.frontier.report()
        assert (report.tally["bytes"], report.tally["items"]) == (7, 2)
        assert [host.latency_seconds for host in report.hosts] == [0.5]

    async def test_a_commit_is_accepted_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        assert await client.end(lease, items=[b"x"])
        assert not await client.end(lease, items=[b"x"])
        assert await client.records() == [b"x"]
        assert (await client.counts()).done == 1

    async def test_nothing_of_a_stale_commit_takes_effect(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", lease_seconds=1.0, host_backoff_seconds=500)
        await first.frontier.open_sink("out", "me")
        stale = await first.one("w1")
        await store.elapse(1.1)
        (current,) = await second.lease("w2", 1)
        assert (current.id, names_of([current])) == (stale.id, ["a/1"])
        assert current.epoch > stale.epoch
        news = HostNews(blocked=True, retry_after_seconds=500)
        for ending in Ending:
            assert not await first.end(
                stale, ending, ["c/1"], items=[b"x"], news=news, tally={"bytes": 1}, retry_seconds=9, error_class="e"
            )
        counts = await first.counts()
        assert (counts.leased, counts.queued, counts.seen) == (1, 1, 2)
        assert await first.records() == []
        assert "bytes" not in (await first.frontier.report()).tally
        assert await first.names("w1") == ["a/2"], "the host is not blocked"
        assert await second.end(current, items=[b"y"])
        assert await first.records() == [b"y"]

    async def test_a_batch_may_hold_stale_and_current_leases(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        leases = await client.lease()
        await client.end(leases[1])
        outcomes = [await client.outcome(lease, links=[f"b/{lease.epoch}"]) for lease in leases]
        assert (await client.commit(*outcomes)).accepted == [True, False, True]
        counts = await client.counts()
        assert (counts.done, counts.queued) == (3, 2)

    async def test_the_same_lease_twice_in_a_batch_ends_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        done = await client.outcome(lease, items=[b"x"], tally={"bytes": 1})
        again = await client.outcome(lease, Ending.RETRY, ["b/1"], items=[b"y"], tally={"bytes": 1})
        assert (await client.commit(done, again, done)).accepted == [True, False, False]
        assert await client.records() == [b"x"]
        assert (await client.frontier.report()).tally["bytes"] == 1
        assert (await client.counts()).done == 1

    async def test_a_lease_that_nobody_gave_is_refused(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lease = await client.one()
        for work in Work:
            forged = Lease(work=work, id=lease.id + 1, epoch=lease.epoch, host_key=lease.host_key)
            assert not await client.end(forged, links=["b/1"])
        newer = msgspec.structs.replace(lease, epoch=lease.epoch + 1)
        assert not await client.end(newer)
        assert (await client.counts()).leased == 1

    async def test_released_work_cannot_be_committed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lease = await client.one()
        await client.release(lease)
        assert not await client.end(lease)
        assert (await client.counts()).queued == 1

    async def test_a_commit_may_answer_with_new_leases(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", per_host=1)
        committed = await client.commit(await client.outcome(await client.one(), links=["a/2", "a/3"]), want=5)
        assert committed.grant is not None
        assert names_of(committed.grant.leases) == ["a/2"]
        assert (await client.commit(want=0)).grant is None

    async def test_a_late_commit_that_nobody_forestalled_is_accepted(self, store: ContractStore) -> None:
        """This also holds for a commit that asks for more leases, and so reaps first."""
        client = store.client()
        await client.seeded("a/1", "a/2", lease_seconds=1.0, per_host=1)
        lease = await client.one()
        await store.elapse(1.5)
        committed = await client.commit(await client.outcome(lease), want=5)
        assert committed.accepted == [True]
        assert committed.grant is not None
        assert names_of(committed.grant.leases) == ["a/2"]
        assert (await client.trace("a/1")).losses == 0
        assert (await client.counts()).done == 1

    async def test_clients_that_commit_the_same_lease_at_once_have_one_effect(self, store: ContractStore) -> None:
        clients = [store.client() for _ in range(3)]
        await clients[0].seeded(*(f"a/{number}" for number in range(8)))
        await clients[0].frontier.open_sink("out", "me")
        leases = await clients[0].lease()
        outcomes = [await clients[0].outcome(lease, items=[b"%d" % lease.epoch]) for lease in leases]
        answers = await asyncio.gather(*(client.frontier.commit("w", outcomes) for client in clients))
        accepted = [sum(flags) for flags in zip(*(answer.accepted for answer in answers), strict=True)]
        assert accepted == [1] * 8
        assert len(await clients[0].records()) == 8
        assert (await clients[0].counts()).done == 8

    async def test_clients_that_lease_at_once_never_share_a_request(self, store: ContractStore) -> None:
        clients = [store.client() for _ in range(3)]
        await clients[0].seeded(*(f"h{number % 5}/{number}" for number in range(60)), per_host=20)
        grants = await asyncio.gather(
            *(client.frontier.lease(f"w{number}", 5) for number, client in enumerate(clients) for _ in range(4))
        )
        leases = [lease for grant in grants for lease in grant.leases]
        assert len({lease.id for lease in leases}) == len({lease.epoch for lease in leases}) == len(leases) == 60


class CommitAnswers:
    """The answer to a commit: new links and strikes against hosts."""

    async def test_new_links_are_counted_among_those_that_were_accepted(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        one, two, three = await client.lease()
        await client.release(three)
        committed = await client.commit(
            await client.outcome(one, links=["b/1", "b/2", "a/1"]),
            await client.outcome(two, links=["b/2", "b/3"]),
            await client.outcome(three, links=["c/1"]),
        )
        assert committed.accepted == [True, True, False]
        assert committed.new_links == 3

    async def test_a_strike_against_a_host_is_told_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "b/1", host_backoff_seconds=40.0)
        leases = {name_of(lease): lease for lease in await client.lease()}
        news = HostNews(blocked=True)
        blocked = [
            await client.outcome(leases[name], Ending.RETRY, error_class="http_4xx", status=429, news=news)
            for name in ("a/1", "a/2")
        ]
        answered = await client.outcome(leases["b/1"], news=HostNews(answered=True))
        (trouble,) = (await client.commit(*blocked, answered)).troubles
        assert (trouble.key, trouble.error_class, trouble.strikes) == ("http://a.example", "http_4xx", 1)
        assert trouble.pause_seconds == pytest.approx(40, abs=0.5)
        assert not trouble.given_up

    async def test_a_host_that_is_given_up_is_told(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_attempts=1)
        outcome = await client.outcome(
            await client.one(), Ending.RETRY, error_class="dns", news=HostNews(unreachable=True)
        )
        (trouble,) = (await client.commit(outcome)).troubles
        assert (trouble.key, trouble.error_class, trouble.given_up) == ("http://a.example", "dns", True)


class Parts:
    """A large page is committed in parts: links at once, items invisible until the last part."""

    async def test_links_go_ahead_and_items_wait_for_the_last_part(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        assert await client.end(lease, links=["b/1"], items=[b"0", b"1"], more=True)
        assert await client.end(lease, links=["b/2"], items=[b"2"], more=True)
        counts = await client.counts()
        assert (counts.leased, counts.queued, counts.done) == (1, 2, 0)
        assert await client.records() == []
        assert await client.end(lease, links=["b/3"], items=[b"3", b"4"])
        items = await client.items()
        assert [(item.place, item.record) for item in items] == [(n, b"%d" % n) for n in range(5)]
        assert {item.request_id for item in items} == {lease.id}
        assert [item.position for item in items] == sorted({item.position for item in items})
        assert (await client.frontier.report()).tally["items"] == 5
        assert (await client.counts()).done == 1

    async def test_parts_and_end_may_come_in_one_batch(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        parts = [await client.outcome(lease, items=[b"%d" % n], more=n < 2) for n in range(3)]
        assert (await client.commit(*parts, parts[0])).accepted == [True, True, True, False]
        assert await client.records() == [b"0", b"1", b"2"]

    async def test_a_part_that_comes_again_is_staged_once(self, store: ContractStore) -> None:
        """The part is sent again because its answer was lost."""
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        parts: list[tuple[int, list[bytes]]] = [(0, [b"0", b"1"]), (0, [b"0", b"1"]), (2, [b"2"]), (2, [b"2"])]
        for after, items in parts:
            assert await client.end(lease, items=items, links=["b/1"], more=True, after=after)
        await client.end(lease, items=[b"3"])
        assert [(item.place, item.record) for item in await client.items()] == [
            (place, b"%d" % place) for place in range(4)
        ]
        assert (await client.frontier.report()).tally["items"] == 4

    async def test_parts_of_two_pages_do_not_mix(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.frontier.open_sink("out", "me")
        first, second = await client.lease()
        for n in range(2):
            await client.end(first, items=[b"a%d" % n], more=True)
            await client.end(second, items=[b"b%d" % n], more=True)
        await client.end(second, items=[b"b2"])
        await client.end(first)
        assert await client.records() == [b"b0", b"b1", b"b2", b"a0", b"a1"]

    async def test_a_part_of_a_lost_lease_is_refused_and_what_it_staged_is_dropped(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=1.0)
        await client.frontier.open_sink("out", "me")
        old = await client.one("w1")
        await client.end(old, items=[b"old"], links=["b/1"], more=True)
        await store.elapse(1.1)
        new = next(lease for lease in await client.lease("w2") if lease.id == old.id)
        assert not await client.end(old, items=[b"older"], links=["c/1"], more=True)
        assert not await client.end(old, items=[b"oldest"])
        await client.end(new, items=[b"new 0"], more=True)
        await client.end(new, items=[b"new 1"])
        items = await client.items()
        assert [(item.place, item.record) for item in items] == [(0, b"new 0"), (1, b"new 1")]

    @pytest.mark.parametrize("ending", ["retry", "failed", "excluded", "released", "lost"])
    async def test_a_page_that_does_not_end_done_leaves_no_items_of_its_parts(
        self, store: ContractStore, ending: str
    ) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        lease = await client.one("w")
        await client.end(lease, items=[b"half"], more=True)
        if ending == "released":
            await client.release(lease)
        elif ending == "lost":
            await client.lose("w")
        else:
            await client.end(lease, Ending(ending), error_class="callback")
        assert await client.records() == []
        await client.frontier.revive()
        if ending != "excluded":
            await client.end(await client.one("w"), items=[b"whole"])
            assert [(item.place, item.record) for item in await client.items()] == [(0, b"whole")]
            assert (await client.frontier.report()).tally["items"] == 1

    async def test_renewing_between_parts_keeps_what_was_staged(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=1.0)
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        await client.end(lease, items=[b"0"], more=True)
        for _ in range(3):
            await store.elapse(0.6)
            assert await client.frontier.renew("w", [lease]) == [True]
            await client.frontier.reap()
        await client.end(lease, items=[b"1"])
        assert await client.records() == [b"0", b"1"]
        assert await client.state() is State.FINISHED
