"""States of a job: begin, commands, limits, and its exact end (promises 6 and 8)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from skitter.errors import JobError
from skitter.model.job import Begun, Command, SinkProgress, State
from skitter.model.outcome import Ending
from skitter.testing.contract.client import names_of
from skitter.testing.contract.store import ContractStore


class Begin:
    """Jobs that are new, resumed or run again."""

    async def test_a_job_that_was_never_begun_does_not_exist(self, store: ContractStore) -> None:
        client = store.client("nobody")
        frontier = client.frontier
        reads = (frontier.job, frontier.state, frontier.counts, frontier.report, frontier.sinks, frontier.workers)
        for call in (*reads, frontier.reap):
            with pytest.raises(JobError, match="nobody"):
                await call()
        with pytest.raises(JobError):
            await client.frontier.lease("w", 1)

    async def test_a_new_job(self, store: ContractStore) -> None:
        client = store.client()
        spec = client.spec(["http://a.example/"], {"key": "value"}, "spider.py:Spider", delay_seconds=2.0)
        assert await client.begin(spec) is Begun.NEW
        job = await client.frontier.job()
        assert (job.spec, job.state, job.run, job.seeding) == (spec, State.RUNNING, 1, True)
        assert len(job.secret) >= 16
        assert await store.client().frontier.job() == job

    async def test_an_unfinished_job_is_resumed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        await client.end(await client.one("w1"))
        held = await client.one("w1")
        again = store.client()
        assert await again.begin() is Begun.RESUMED
        counts = await again.counts()
        assert (counts.done, counts.leased, counts.queued) == (1, 1, 1)
        assert await client.end(held), "who joins a job takes nothing from its workers"
        assert (await again.grant()).run == 1

    @pytest.mark.parametrize("fresh", [False, True])
    async def test_a_key_begins_one_run_at_most(self, store: ContractStore, fresh: bool) -> None:
        client = store.client()
        first = msgspec.structs.replace(client.spec(), run_keys=["nightly@1"])
        second = msgspec.structs.replace(first, run_keys=["nightly@2"])
        assert await client.begin(first, fresh=fresh) is Begun.NEW
        assert await client.begin(first, fresh=fresh) is Begun.RESUMED
        await client.seeded()
        assert (await client.frontier.state()).state is State.FINISHED
        assert await store.client().begin(first, fresh=fresh) is Begun.RESUMED
        assert (await client.frontier.state()).state is State.FINISHED
        assert await client.begin(second, fresh=fresh) is Begun.RERUN
        assert await store.client().begin(first, fresh=fresh) is Begun.RESUMED, "a late command of the first run"
        job = await client.frontier.job()
        assert (job.run, sorted(job.spec.run_keys)) == (2, ["nightly@1", "nightly@2"])

    async def test_settings_may_change_when_a_job_is_resumed(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "a/3", per_host=1)
        lease = await first.one()
        assert await second.begin(per_host=3, max_attempts=1) is Begun.RESUMED
        assert (await first.frontier.job()).spec.settings["per_host"] == 3
        await first.retry(lease)
        assert (await first.counts()).failed == 1, "the new number of attempts holds for every client"
        assert await first.names() == ["a/2", "a/3"]

    @pytest.mark.parametrize("what", ["seeds", "arguments", "spider"])
    async def test_an_unfinished_job_with_other_work_is_an_error(self, store: ContractStore, what: str) -> None:
        client = store.client()
        await client.begin(client.spec(["x"], {"a": "1"}, "s"))
        specs = {
            "seeds": client.spec(["y"], {"a": "1"}, "s"),
            "arguments": client.spec(["x"], {"a": "2"}, "s"),
            "spider": client.spec(["x"], {"a": "1"}, "t"),
        }
        with pytest.raises(JobError) as caught:
            await client.begin(specs[what])
        assert "--fresh" in caught.value.hint
        assert (await client.frontier.job()).spec.seeds == ["x"]
        assert await client.begin(specs[what], fresh=True) is Begun.RERUN
        assert (await client.frontier.job()).spec == specs[what]

    async def test_a_finished_job_is_run_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        done, failed = await client.lease()
        await client.end(done, tally={"bytes": 5})
        await client.end(failed, Ending.FAILED, error_class="http_4xx")
        secret = (await client.frontier.job()).secret
        assert await client.begin(client.spec(["other"])) is Begun.RERUN
        job = await client.frontier.job()
        assert (job.run, job.state, job.seeding, job.secret) == (2, State.RUNNING, True, secret)
        report = await client.frontier.report()
        assert (report.counts.seen, report.tally, report.errors) == (0, {}, {})
        assert await client.frontier.failures() == []
        assert await client.frontier.trace(done.id) is None
        assert await client.add("a/1") == 1, "a new run sees everything anew"
        assert (await client.grant()).run == 2

    async def test_a_fresh_run_refuses_what_is_left_of_the_old_one(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", per_host=1)
        old = await client.one("old")
        assert await client.begin(fresh=True) is Begun.RERUN
        assert await client.frontier.renew("old", [old]) == [False]
        assert not await client.end(old, links=["b/1"])
        await client.add("a/1")
        leases = await client.lease("new")
        assert names_of(leases) == ["seeding", "a/1"], "the old lease holds no slot"
        assert min(lease.epoch for lease in leases) > old.epoch
        assert not await client.end(old)
        await client.release(old)
        assert (await client.counts()).leased == 1

    async def test_a_finished_job_whose_items_are_not_delivered_is_resumed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        await client.end(await client.one(), items=[b"x"])
        assert await client.state() is State.FINISHED
        assert await client.begin() is Begun.RESUMED
        (item,) = await client.items()
        open_end = SinkProgress(item.position, b"mark")
        assert await client.frontier.items_done("out", "me", open_end)
        assert await client.begin() is Begun.RESUMED, "delivered, but the target is not complete"
        closed = SinkProgress(item.position, b"mark", closed=True)
        assert await client.frontier.items_done("out", "me", closed)
        assert await client.begin() is Begun.RERUN

    async def test_a_target_that_was_complete_before_the_last_items_is_resumed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        await client.end(await client.one(), items=[b"x"])
        closed = SinkProgress((await client.items())[0].position, closed=True)
        await client.frontier.items_done("out", "me", closed)
        await client.add("a/2")
        await client.end(await client.one(), items=[b"y"])
        assert await client.begin() is Begun.RESUMED
        assert await client.records() == [b"y"]

    async def test_clients_that_begin_at_once_make_one_job(self, store: ContractStore) -> None:
        clients = [store.client() for _ in range(4)]
        begun = await asyncio.gather(*(client.frontier.begin(client.spec()) for client in clients))
        assert sorted(begun) == [Begun.NEW, Begun.RESUMED, Begun.RESUMED, Begun.RESUMED]
        assert len({(await client.frontier.job()).secret for client in clients}) == 1


class States:
    """Running, paused, draining, stopped, finished: the same for every worker."""

    async def test_a_paused_job_leases_nothing_and_ends_what_is_in_flight(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2")
        lease = await first.one()
        assert await second.tell(Command.PAUSE) is State.PAUSED
        grant = await first.grant()
        assert (grant.leases, grant.state) == ([], State.PAUSED)
        assert await first.frontier.renew("w", [lease]) == [True]
        assert await first.end(lease, links=["a/3"])
        assert await first.names() == []
        assert await second.tell(Command.RESUME) is State.RUNNING
        assert await first.names() == ["a/2", "a/3"]

    async def test_a_paused_job_whose_last_page_ends_is_finished(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lease = await client.one()
        await client.tell(Command.PAUSE)
        await client.end(lease)
        assert await client.state() is State.FINISHED

    async def test_a_stopped_job_drains_first(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        first, second = await client.lease(limit=2)
        assert await client.tell(Command.STOP) is State.DRAINING
        assert (await client.grant()).leases == []
        await client.end(first)
        assert await client.state() is State.DRAINING
        await client.release(second)
        job = await client.frontier.job()
        assert (job.state, job.reason) == (State.STOPPED, "command")
        assert job.ended_at >= job.started_at
        assert await client.names() == []

    async def test_a_job_rest_of_stops_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert await client.tell(Command.STOP) is State.STOPPED

    async def test_a_draining_job_does_not_wait_for_dead_workers(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=0.5)
        await client.one("dead")
        assert await client.tell(Command.STOP) is State.DRAINING
        await store.elapse(0.6)
        assert (await client.grant("alive")).state == State.STOPPED

    async def test_a_draining_job_waits_for_its_seeding(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        seeding = await client.one()
        assert await client.tell(Command.STOP) is State.DRAINING
        await client.release(seeding)
        assert await client.state() is State.STOPPED

    @pytest.mark.parametrize("way", ["resume", "begin"])
    async def test_a_stopped_job_goes_on_where_it_was(self, store: ContractStore, way: str) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.end(await client.one())
        await client.tell(Command.STOP)
        if way == "begin":
            assert await client.begin() is Begun.RESUMED
        else:
            await client.tell(Command.RESUME)
        job = await client.frontier.job()
        assert (job.state, job.reason, job.ended_at, job.run) == (State.RUNNING, "", 0.0, 1)
        assert await client.names() == ["a/2"]

    async def test_telling_a_job_twice_changes_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.one()
        for command, state in [
            (Command.RESUME, State.RUNNING),
            (Command.PAUSE, State.PAUSED),
            (Command.RESUME, State.RUNNING),
            (Command.STOP, State.DRAINING),
        ]:
            assert await client.tell(command) is state
            job = await client.frontier.job()
            assert await client.tell(command) is state
            assert await client.frontier.job() == job

    async def test_a_finished_job_obeys_no_command(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        for command in Command:
            assert await client.tell(command) is State.FINISHED

    async def test_adding_to_a_stopped_job_does_not_start_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.tell(Command.STOP)
        await client.add("a/2")
        assert await client.state() is State.STOPPED


class End:
    """Finished if and only if nothing is queued, delayed or leased and the seeding is over."""

    async def test_finished_is_said_at_the_last_commit_and_not_before(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1")
        first, second = await client.lease()
        await client.end(first)
        await client.retry(second, 0.3)
        assert await client.state() is State.RUNNING, "one is delayed"
        await store.elapse(0.4)
        assert await client.state() is State.RUNNING, "one is due"
        lease = await client.one()
        assert await client.state() is State.RUNNING, "one is leased"
        committed = await client.commit(await client.outcome(lease), want=1)
        assert committed.grant is not None
        assert committed.grant.state == State.FINISHED
        job = await client.frontier.job()
        assert job.ended_at > job.started_at or not store.controls_time

    async def test_links_of_the_last_page_keep_the_job_going(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one(), links=["a/2"])
        assert await client.state() is State.RUNNING
        await client.end(await client.one(), links=["a/1", "a/2"])
        assert await client.state() is State.FINISHED

    async def test_a_lost_lease_keeps_the_job_going(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.one("dead")
        await client.lose("dead")
        assert await client.state() is State.RUNNING

    async def test_an_empty_seeding_ends_the_job(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        assert await client.state() is State.FINISHED
        assert (await client.grant()).state == State.FINISHED

    async def test_adding_reopens_a_finished_job(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one())
        assert await client.add("a/1") == 0
        assert await client.state() is State.FINISHED, "nothing new"
        assert await client.add("a/2") == 1
        job = await client.frontier.job()
        assert (job.state, job.ended_at, job.run) == (State.RUNNING, 0.0, 1)
        await client.end(await client.one())
        assert await client.state() is State.FINISHED


class MaxPages:
    """Done and leased together never exceed ``max_pages``, in the whole cluster."""

    async def test_done_and_leased_never_exceed_the_limit(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded(*(f"h{number}/1" for number in range(9)), max_pages=4)
        held = await first.lease("w1", 3)
        assert len(held) == 3
        more = await second.lease("w2")
        assert len(more) == 1
        await first.end(held[0])
        assert await second.names("w2") == []
        await first.end(held[1], Ending.FAILED, error_class="http_4xx")
        await first.end(held[2], Ending.REDIRECTED)
        assert len(await second.lease("w2")) == 2, "only pages that end done count"

    async def test_the_job_is_then_stopped_and_a_larger_number_continues(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", max_pages=2)
        await client.end_all(await client.lease())
        job = await client.frontier.job()
        assert (job.state, job.reason) == (State.STOPPED, "max_pages")
        assert await client.begin(max_pages=2) is Begun.RESUMED
        assert await client.names() == []
        assert await client.state() is State.STOPPED
        assert await client.begin(max_pages=3) is Begun.RESUMED
        assert await client.state() is State.RUNNING
        await client.end(await client.one())
        assert await client.state() is State.STOPPED
        assert await client.begin() is Begun.RESUMED
        await client.end(await client.one())
        assert await client.state() is State.FINISHED

    async def test_a_job_that_ends_at_the_limit_is_finished(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_pages=2)
        await client.end_all(await client.lease())
        assert await client.state() is State.FINISHED

    async def test_a_gate_is_not_a_page(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_pages=1, obey_robots=True)
        await client.open_gate(await client.one())
        assert await client.names() == ["a/1"]
