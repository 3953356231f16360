"""Reads for operators: traces, failed requests and their revival, the report."""

from __future__ import annotations

from collections import Counter

import pytest

from skitter.model.job import Command, JobState, SinkProgress, State
from skitter.model.outcome import Ending
from skitter.testing.contract.client import name_of
from skitter.testing.contract.store import ContractStore


class Traces:
    """Traces show why a URL was not crawled."""

    async def test_a_request_that_was_never_seen_has_no_trace(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert await client.frontier.trace(await client.id("a/2")) is None

    async def test_a_trace_follows_a_request_through_its_life(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", priority=3, depth=2, referrer="http://a.example/")
        trace = await client.trace("a/1")
        assert (trace.state, trace.url, trace.depth, trace.priority) == ("queued", "http://a.example/1", 2, 3)
        assert (trace.referrer, trace.attempts, trace.losses) == ("http://a.example/", 0, 0)
        assert trace.ready_in_seconds == 0
        lease = await client.one("worker-7")
        trace = await client.trace("a/1")
        assert (trace.state, trace.worker) == ("leased", "worker-7")
        await client.retry(lease, 50)
        trace = await client.trace("a/1")
        assert (trace.state, trace.worker, trace.attempts, trace.error_class) == ("delayed", "", 1, "timeout")
        assert 45 < trace.ready_in_seconds <= 50
        await store.elapse(51)
        await client.end(await client.one(), Ending.EXCLUDED, error_class="type", error="a film", status=200)
        trace = await client.trace("a/1")
        assert (trace.state, trace.status, trace.error_class, trace.error) == ("excluded", 200, "type", "a film")
        assert trace.ended_at > trace.added_at
        assert trace.ready_in_seconds == 0

    async def test_a_trace_tells_what_its_host_is_waiting_for(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", per_host=1)
        await client.blocked(await client.one(), 40)
        trace = await client.trace("a/2")
        assert trace.state == "queued"
        assert 35 < trace.ready_in_seconds <= 40
        assert trace.host is not None
        assert (trace.host.key, trace.host.queued, trace.host.strikes) == ("http://a.example", 2, 1)

    async def test_a_suspect_is_told_as_queued(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        for _ in range(2):
            await client.one("w")
            await client.lose("w")
        trace = await client.trace("a/1")
        assert (trace.state, trace.losses) == ("queued", 2)
        assert (await client.counts()).queued == 1


class Revival:
    """Failed requests can be listed, and can be revived with no attempts spent."""

    async def test_dead_requests_are_listed_in_the_order_they_were_added(self, store: ContractStore) -> None:
        client = store.client()
        names = [f"h{number % 3}/{number}" for number in range(7)]
        await client.seeded(*names)
        for lease in await client.lease():
            error_class = "dns" if lease.host_key == "http://h0.example" else "http_4xx"
            await client.end(lease, Ending.FAILED, error_class=error_class, error=name_of(lease), status=404)
        failed = await client.frontier.failures()
        if not store.order_across_hosts:
            assert sorted(record.error for record in failed) == sorted(names)
            names = [record.error for record in failed]
        assert [record.error for record in failed] == names
        for host in ("h0", "h1", "h2"):
            mine = [name for name in names if name.startswith(host)]
            assert mine == sorted(mine), "inside a host always"
        assert next(record.url for record in failed if record.error == "h0/0") == "http://h0.example/0"
        assert [record.error for record in await client.frontier.failures("dns")] == ["h0/0", "h0/3", "h0/6"]
        assert await client.frontier.failures("tls") == []
        for newest in (False, True):
            listed, after = [], 0
            while page := await client.frontier.failures("", 3, after, newest=newest):
                assert len(page) <= 3
                listed += [record.error for record in page]
                after = page[-1].position
            assert listed == (names[::-1] if newest else names)
        second = failed[1]
        assert await client.frontier.revive(ids=[failed[0].id]) == 1
        assert await client.frontier.failures("", 9, second.position) == failed[2:], (
            "one that was revived moves no other"
        )
        assert await client.frontier.failures("dns", 1, newest=True) == [one for one in failed if one.error == "h0/6"]
        left = {"dns": 3, "http_4xx": 4}
        left[failed[0].error_class] -= 1
        assert (await client.frontier.report()).errors == left

    async def test_revived_requests_have_a_clean_slate(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_attempts=2)
        for _ in range(2):
            await client.retry(await client.one())
        assert await client.frontier.revive() == 1
        await client.check()
        assert (await client.counts()).queued == 1
        trace = await client.trace("a/1")
        assert (trace.state, trace.attempts, trace.losses, trace.error_class, trace.error) == ("queued", 0, 0, "", "")
        assert (trace.status, trace.ended_at) == (0, 0.0)
        assert (await client.frontier.report()).errors == {}
        assert (await client.one()).attempts == 0

    async def test_a_class_or_single_requests_may_be_revived(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "b/1", "b/2")
        leases = await client.lease()
        for lease in leases:
            await client.end(lease, Ending.FAILED, error_class="dns" if name_of(lease).startswith("a") else "tls")
        assert await client.frontier.revive("dns") == 2
        assert sorted(await client.names()) == ["a/1", "a/2"]
        assert await client.frontier.revive("tls", [await client.id("b/2"), await client.id("a/1")]) == 1
        assert await client.names() == ["b/2"]
        assert await client.frontier.revive(ids=[await client.id("c/9"), await client.id("b/2")]) == 0, "not failed"
        assert await client.frontier.revive() == 1
        assert await client.frontier.revive() == 0
        await client.check()

    async def test_reviving_reopens_a_finished_job(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one(), Ending.FAILED, error_class="dns")
        assert await client.state() is State.FINISHED
        assert await client.frontier.revive("tls") == 0
        assert await client.state() is State.FINISHED
        assert await client.frontier.revive("dns") == 1
        assert await client.state() is State.RUNNING
        await client.check()
        await client.end(await client.one())
        assert await client.state() is State.FINISHED

    async def test_revived_requests_keep_their_place(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=2)
        for lease in await client.lease():
            await client.end(lease, Ending.FAILED, error_class="dns")
        await client.frontier.revive()
        assert await client.names() == ["a/1", "a/2"]

    async def test_more_than_a_batch_of_dead_requests_is_revived_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(1100)), per_host=2000, max_attempts=1)
        lease = await client.one()
        await client.unreachable(lease)
        await client.frontier.reap()
        assert (await client.counts()).failed == 1100
        assert await client.frontier.revive() == 1100
        assert (await client.counts()).queued == 1100
        await client.check()


class Reports:
    """A report has everything that ``status`` shows, from one instant."""

    async def test_a_report_is_one_picture(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "b/1")
        leases = await client.lease("w", 2)
        await client.end(leases[0], tally={"bytes": 10, "outside:host": 2})
        await client.end(leases[1], tally={"bytes": 5})
        report = await client.frontier.report()
        assert report.job == await client.frontier.job()
        assert report.counts == await client.counts()
        assert report.tally == {"bytes": 15, "outside:host": 2}
        assert {worker.id for worker in report.workers} == {"seeder", "w"}

    async def test_tallies_of_parts_add_up(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lease = await client.one()
        await client.end(lease, tally={"outside:host": 1}, more=True)
        await client.end(lease, tally={"outside:host": 2})
        assert (await client.frontier.report()).tally == {"outside:host": 3}

    async def test_the_longest_queues_are_told_and_are_right(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"h{number}/{path}" for number in range(1, 7) for path in range(number)))
        report = await client.frontier.report(queues=3)
        assert [(host.key, host.queued) for host in report.crowded] == [
            (f"http://h{number}.example", number) for number in (6, 5, 4)
        ]
        in_flight = Counter(lease.host_key for lease in await client.lease("w", 6))
        if store.order_across_hosts:
            assert set(in_flight.values()) == {1}
        longest = sorted((number - in_flight[f"http://h{number}.example"] for number in range(1, 7)), reverse=True)
        report = await client.frontier.report(queues=2)
        assert [host.queued for host in report.crowded] == longest[:2]
        assert all(host.in_flight == in_flight[host.key] for host in report.crowded)
        await client.lease()
        assert (await client.frontier.report(queues=5)).crowded == [], "nothing is queued"

    async def test_of_many_hosts_a_long_queue_that_comes_late_is_told(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"h{number}/{path}" for number in range(40) for path in range(2)))
        await client.add(*(f"late/{path}" for path in range(9)))
        report = await client.frontier.report(queues=16)
        assert report.crowded[0].key == "http://late.example"
        assert len(report.crowded) == 16
        await client.begin(fresh=True)
        assert (await client.frontier.report(queues=5)).crowded == []

    async def test_the_rate_is_that_of_now(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(200)), per_host=1000, lease_seconds=100_000)
        assert (await client.frontier.report()).pages_per_second == 0
        await store.elapse(1000)
        for _ in range(10):
            await store.elapse(2)
            await client.end_all(await client.lease("w", 10))
        rate = (await client.frontier.report()).pages_per_second
        assert rate == pytest.approx(5, rel=0.3), "not 100 pages in 1020 seconds"
        await store.elapse(90)
        assert (await client.frontier.report()).pages_per_second < rate / 5, "nothing comes any more"
        await client.end_all(await client.lease())
        report = await client.frontier.report()
        assert (report.job.state, report.pages_per_second) == (State.FINISHED, 0), "a run that is over has none"

    async def test_a_run_that_has_just_begun_has_a_rate(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        await store.elapse(1.0)
        await client.end_all(await client.lease("w", 2))
        assert (await client.frontier.report()).pages_per_second == pytest.approx(2, rel=0.2)

    async def test_the_lag_of_the_reaper_is_that_of_the_oldest_lease(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", lease_seconds=1.0)
        await client.one("w1")
        kept = await client.one("w2")
        assert (await client.frontier.report()).overdue_seconds == 0
        await store.elapse(0.8)
        assert await client.frontier.renew("w2", [kept]) == [True]
        await store.elapse(0.8)
        assert (await client.frontier.report()).overdue_seconds == pytest.approx(0.6, abs=0.3)
        await client.frontier.reap()
        assert (await client.frontier.report()).overdue_seconds == 0, "what was renewed is not overdue"

    async def test_only_a_few_hosts_are_told(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"h{number}/1" for number in range(6)))
        for number, lease in enumerate(await client.lease()):
            await client.answered(lease, 0.1 * (number + 1))
        hosts = (await client.frontier.report(hosts=3)).hosts
        latencies = [host.latency_seconds for host in hosts]
        assert len(latencies) == 3
        assert latencies == sorted(latencies, reverse=True)


class NarrowReads:
    """The state, the sinks and the workers can be read alone, and are the same as in the report."""

    async def test_the_state_follows_every_change_of_the_job(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded("a/1", "a/2", max_pages=1)
        for command, state, reason in (
            (Command.PAUSE, State.PAUSED, ""),
            (Command.RESUME, State.RUNNING, ""),
            (Command.STOP, State.STOPPED, "command"),
            (Command.RESUME, State.RUNNING, ""),
        ):
            await other.frontier.command(command)
            assert await client.frontier.state() == JobState(state=state, run=1, reason=reason)
        await other.end(await other.one())
        assert await client.frontier.state() == JobState(state=State.STOPPED, run=1, reason="max_pages")
        await other.begin(fresh=True)
        assert await client.frontier.state() == JobState(state=State.RUNNING, run=2)

    async def test_the_room_that_is_left_is_told(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        for one in await client.frontier.capacity():
            assert 0 <= one.free_bytes <= one.total_bytes
            assert one.place

    async def test_sinks_are_those_of_the_report(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.begin(sinks=["unopened"], max_outbox_items=4)
        assert [(sink.target, sink.undelivered, sink.owner) for sink in await other.frontier.sinks()] == [
            ("unopened", 0, "")
        ]
        await client.frontier.open_sink("out", "me")
        await client.add("a/1", "b/1", "c/1")
        for number, lease in enumerate(await client.lease()):
            await client.end(lease, items=[b"%d" % number, b"more"])
        assert len(await client.items(limit=3)) == 3
        await client.frontier.items_done("out", "me", SinkProgress(3, b"m", rejected=1, trouble="unavailable"))
        sinks = {sink.target: sink for sink in await other.frontier.sinks()}
        lacking = sinks["unopened"].undelivered
        assert (sinks["unopened"].blocking, sinks["out"].blocking) == (True, lacking - 3 >= 4)
        assert (sinks["out"].undelivered, sinks["out"].owner) == (lacking - 3, "me")
        assert (sinks["out"].rejected, sinks["out"].trouble) == (1, "unavailable")
        assert sinks == {sink.target: sink for sink in (await other.frontier.report(0)).sinks}
        await store.elapse(31)
        assert [sink.owner for sink in await other.frontier.sinks()] == ["", ""]
        await client.begin(fresh=True)
        assert await other.frontier.sinks() == []

    async def test_workers_are_those_of_the_report(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded("a/1", "b/1", "c/1", "d/1")
        await client.lease("w", 3)
        await client.lease("v", 1)
        workers = await other.frontier.workers()
        assert [(worker.id, worker.leased) for worker in workers] == [("seeder", 0), ("v", 1), ("w", 3)]
        seen = (await other.frontier.report(0)).workers
        assert [(worker.id, worker.leased, worker.heartbeat) for worker in seen] == [
            (worker.id, worker.leased, worker.heartbeat) for worker in workers
        ]

    async def test_every_report_has_the_newest_specification(self, store: ContractStore) -> None:
        """This holds although a client that asks again is not sent the specification again."""
        client, other = store.client(), store.client()
        first = client.spec(["http://a.example/"])
        await client.begin(first)
        for _ in range(2):
            assert (await other.frontier.report()).job == await client.frontier.job()
        resumed = client.spec(["http://a.example/"], per_host=3)
        await client.begin(resumed)
        for _ in range(2):
            assert (await other.frontier.report()).job.spec == resumed
        rerun = client.spec(["http://b.example/"])
        await client.begin(rerun, fresh=True)
        for _ in range(2):
            assert (await other.frontier.report()).job.spec == rerun
        assert (await other.frontier.report()).job == await client.frontier.job()
