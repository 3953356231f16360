"""Intakes: sources of requests that keep a job from finishing until they are closed."""

from __future__ import annotations

from skitter.frontier.contract import INTAKE_OWNER_SECONDS
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.job import Begun, Command, State
from skitter.testing.contract.client import Client
from skitter.testing.contract.store import ContractStore

SOURCE = "redis://localhost/0#urls"


async def seen(client: Client, source: str = SOURCE) -> IntakeSeen:
    """Return an intake, after a check that the report lists the same intakes."""
    intakes = await client.frontier.intakes()
    assert (await client.frontier.report()).intakes == intakes
    return next(intake for intake in intakes if intake.source == source)


class Intakes:
    """An intake is open from the first call until it is closed, whichever processes die."""

    async def test_a_job_without_intakes_has_none(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert await client.frontier.intakes() == []
        assert (await client.frontier.report()).intakes == []

    async def test_the_job_is_not_finished_while_an_intake_is_open(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        assert await client.frontier.open_intake(SOURCE, "r1") == b""
        await client.end(await client.one())
        assert await client.state() is State.RUNNING
        await client.add("a/1")
        await client.end(await client.one())
        assert (await client.counts()).unfinished == 0
        assert await client.state() is State.RUNNING
        assert await client.frontier.close_intake(SOURCE, "r1")
        assert await client.state() is State.FINISHED
        assert (await seen(client)).closed

    async def test_a_job_with_work_goes_on_after_its_intake_is_closed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_intake(SOURCE, "r1")
        assert await client.frontier.close_intake(SOURCE, "r1")
        assert await client.state() is State.RUNNING
        await client.end(await client.one())
        assert await client.state() is State.FINISHED

    async def test_a_finished_job_is_reopened_by_an_intake(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        assert await client.state() is State.FINISHED
        await client.frontier.open_intake(SOURCE, "r1")
        await client.check()
        assert await client.state() is State.RUNNING
        assert await client.add("a/1", "b/1", "c/1", "d/1") == 4
        await client.end_all(await client.lease())
        assert await client.frontier.close_intake(SOURCE, "r1")
        assert await client.state() is State.FINISHED

    async def test_every_open_intake_counts(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        for source in ("file:/one", "file:/two"):
            await client.frontier.open_intake(source, "r1")
        await client.end(await client.one())
        assert await client.frontier.close_intake("file:/one", "r1")
        assert await client.state() is State.RUNNING
        assert await client.frontier.close_intake("file:/two", "r1")
        assert await client.state() is State.FINISHED
        assert [intake.source for intake in await client.frontier.intakes()] == ["file:/one", "file:/two"]

    async def test_told_twice_it_is_the_same(self, store: ContractStore) -> None:
        client, again = store.client(), store.client()
        await client.seeded()
        for one in (client, again):
            await one.frontier.open_intake(SOURCE, "r1")
        for one in (client, again):
            assert await one.frontier.tell_intake(SOURCE, "r1", IntakeProgress(mark=b"7", read=3, added=2))
        assert (await seen(client)).read == 3
        for one in (client, again):
            await one.frontier.leave_intake(SOURCE, "r1")
        assert (await seen(client)).read == 3
        for one in (client, again):
            assert await one.frontier.close_intake(SOURCE, "r1")
        assert await client.state() is State.FINISHED

    async def test_a_limit_and_a_command_end_a_job_with_an_open_intake(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_intake(SOURCE, "r1")
        await client.end(await client.one())
        await client.tell(Command.STOP)
        assert await client.state() is State.STOPPED
        assert await client.begin() is Begun.RESUMED
        assert await client.state() is State.RUNNING

    async def test_a_new_run_has_no_intakes(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.frontier.open_intake(SOURCE, "r1")
        assert await client.frontier.tell_intake(SOURCE, "r1", IntakeProgress(mark=b"7"))
        assert await client.begin(fresh=True) is Begun.RERUN
        assert await client.frontier.intakes() == []
        assert not await client.frontier.tell_intake(SOURCE, "r1", IntakeProgress(mark=b"8"))
        await client.end(await client.one())
        assert await client.state() is State.FINISHED
        assert await client.frontier.open_intake(SOURCE, "r2") == b""


class IntakeReaders:
    """Several processes may read an intake, and any of them may die."""

    async def test_the_mark_is_what_was_told_last(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded()
        mark = b"\x00\xffoffset"
        await client.frontier.open_intake(SOURCE, "r1")
        assert await client.frontier.tell_intake(SOURCE, "r1", IntakeProgress(mark=mark, read=1))
        assert await client.frontier.tell_intake(SOURCE, "r1", IntakeProgress(read=1))
        await client.frontier.leave_intake(SOURCE, "r1")
        assert await other.frontier.open_intake(SOURCE, "r2") == mark
        assert await other.frontier.close_intake(SOURCE, "r2")
        assert await client.frontier.open_intake(SOURCE, "r3") == mark, "a source may go on after its end"
        await client.check()

    async def test_what_readers_tell_is_summed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        for owner in ("r1", "r2"):
            await client.frontier.open_intake(SOURCE, owner)
        told = IntakeProgress(read=10, added=6, dead_letters=1, backlog=90, lag_seconds=1.5, paused="max_queued")
        assert await client.frontier.tell_intake(SOURCE, "r1", told)
        assert await client.frontier.tell_intake(SOURCE, "r2", IntakeProgress(read=5, added=5, trouble="unavailable"))
        expected = IntakeSeen(
            source=SOURCE,
            closed=False,
            owners=["r1", "r2"],
            read=15,
            added=11,
            dead_letters=1,
            paused="max_queued",
            trouble="unavailable",
        )
        assert await seen(client) == expected
        assert (await seen(client)).duplicates == 3
        await client.frontier.leave_intake(SOURCE, "r1")
        left = await seen(client)
        assert (left.owners, left.read, left.added, left.dead_letters) == (["r2"], 15, 11, 1)
        assert await client.frontier.tell_intake(SOURCE, "r2", IntakeProgress(read=6, backlog=2, lag_seconds=0.25))
        told_last = await seen(client)
        assert (told_last.read, told_last.backlog, told_last.lag_seconds) == (16, 2, 0.25)
        assert (told_last.paused, told_last.trouble) == ("", "")

    async def test_the_last_reader_closes_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        for owner in ("r1", "r2"):
            await client.frontier.open_intake(SOURCE, owner)
        assert not await client.frontier.close_intake(SOURCE, "r1"), "another one reads"
        assert await client.state() is State.RUNNING
        assert await client.frontier.close_intake(SOURCE, "r2")
        assert await client.state() is State.FINISHED

    async def test_who_leaves_does_not_close_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.frontier.open_intake(SOURCE, "r1")
        await client.frontier.leave_intake(SOURCE, "r1")
        await client.check()
        assert await client.state() is State.RUNNING
        assert (await seen(client)).is_abandoned
        assert await client.frontier.close_intake(SOURCE, ""), "anybody may close what nobody reads"
        assert await client.state() is State.FINISHED

    async def test_a_dead_reader_does_not_close_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.frontier.open_intake(SOURCE, "r1")
        assert await client.frontier.tell_intake(SOURCE, "r1", IntakeProgress(read=4, added=4))
        await store.elapse(INTAKE_OWNER_SECONDS + 1)
        assert await client.state() is State.RUNNING
        assert ((await seen(client)).owners, (await seen(client)).read) == ([], 4)
        await client.frontier.open_intake(SOURCE, "r2")
        assert await client.frontier.tell_intake(SOURCE, "r2", IntakeProgress(read=1))
        assert not await client.frontier.tell_intake(SOURCE, "r1", IntakeProgress(read=5)), "it counts as dead"
        assert ((await seen(client)).owners, (await seen(client)).read) == (["r2"], 5)
        assert await client.frontier.close_intake(SOURCE, "r2")
        assert await client.state() is State.FINISHED

    async def test_a_dead_reader_does_not_keep_it_open(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.frontier.open_intake(SOURCE, "r1")
        await store.elapse(INTAKE_OWNER_SECONDS - 1)
        await client.frontier.open_intake(SOURCE, "r2")
        assert await client.frontier.tell_intake(SOURCE, "r2", IntakeProgress())
        await store.elapse(2)
        assert await client.frontier.close_intake(SOURCE, "r2")
        assert await client.state() is State.FINISHED
        assert not await client.frontier.tell_intake(SOURCE, "r1", IntakeProgress(read=1)), "it is closed"
        assert await client.state() is State.FINISHED

    async def test_a_reader_that_wants_to_be_alone_waits_for_the_other(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        assert await client.frontier.open_intake(SOURCE, "r1", alone=True) == b""
        assert await client.frontier.open_intake(SOURCE, "r2", alone=True) is None
        assert await client.frontier.open_intake(SOURCE, "r1", alone=True) == b""
        assert (await seen(client)).owners == ["r1"]
        await client.frontier.leave_intake(SOURCE, "r1")
        assert await client.frontier.open_intake(SOURCE, "r2", alone=True) == b""
        await store.elapse(INTAKE_OWNER_SECONDS + 1)
        assert await client.frontier.open_intake(SOURCE, "r1", alone=True) == b"", "the other one has failed"
        assert not await client.frontier.tell_intake(SOURCE, "r2", IntakeProgress())
