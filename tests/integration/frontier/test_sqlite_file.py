"""What only a file can do wrong: its format, its disk, its processes, its clock."""

from __future__ import annotations

import asyncio
import contextlib
import math
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.processes import HANG_SECONDS
from skitter.errors import FormatError, FrontierError
from skitter.frontier.sqlite import sqlite_frontier
from skitter.frontier.sqlite.jobs import drop_job
from skitter.frontier.sqlite.store import FORMAT, LOOK_EVERY, SqliteStore
from skitter.frontier.transactional import TransactionalFrontier
from skitter.model.job import Begun, Command, JobSpec, SinkProgress, State
from skitter.model.outcome import Ending, HostNews, Outcome, RobotsRecord
from skitter.model.request import Fingerprinter
from skitter.model.worker import WorkerHeartbeat
from skitter.testing.clock import FakeClock
from skitter.testing.contract import Client

NAMES = [f"h{number % 3}/{number}" for number in range(30)]


@contextlib.asynccontextmanager
async def opened(path: Path, job: str = "job", clock: FakeClock | None = None) -> AsyncIterator[Client]:
    frontier = sqlite_frontier(path, job, clock=(clock or FakeClock()).of_store())
    try:
        yield Client(frontier, job, set())
    finally:
        await frontier.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "frontier.db"


def store_of(client: Client) -> SqliteStore:
    assert isinstance(client.frontier, TransactionalFrontier)
    store = client.frontier._store
    assert isinstance(store, SqliteStore)
    return store


def connection_of(client: Client) -> sqlite3.Connection:
    return store_of(client)._connection


def damage(path: Path) -> None:
    """All but the first page."""
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)


class TestFormat:
    async def test_a_folder_that_does_not_exist_is_made(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "deep" / "er" / "frontier.db") as client:
            assert await client.begin() is Begun.NEW

    def test_a_missing_file_is_not_made_for_a_reader(self, path: Path) -> None:
        with pytest.raises(FrontierError, match=r"no frontier at this path: .*frontier\.db") as caught:
            sqlite_frontier(path, "job", create=False)
        assert caught.value.hint
        assert not path.exists()

    async def test_a_file_of_a_newer_skitter_is_refused_by_name(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA user_version={FORMAT + 1}")
        with pytest.raises(FormatError, match=f"newer skitter .format {FORMAT + 1}"):
            sqlite_frontier(path, "job")

    @pytest.mark.parametrize(("number", "age"), [(FORMAT - 1, "an older"), (FORMAT + 1, "a newer")])
    async def test_a_file_that_gets_another_format_while_it_is_open_is_left_soon(
        self, path: Path, number: int, age: str
    ) -> None:
        async with opened(path) as client:
            await client.seeded(*NAMES)
            with contextlib.closing(sqlite3.connect(path)) as other:
                other.execute(f"PRAGMA user_version={number}")
            calls = 0
            with pytest.raises(FormatError, match=f"written by {age} skitter .format {number}"):  # noqa: PT012
                while calls <= LOOK_EVERY:
                    calls += 1
                    await client.frontier.renew("w", [])
            assert calls <= LOOK_EVERY

    async def test_a_file_from_before_workers_told_of_themselves_is_taken_as_it_is(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE heartbeats")
            other.commit()
        async with opened(path) as client:
            await client.frontier.tell("w", WorkerHeartbeat(pid=7))
            assert [worker.heartbeat for worker in await client.frontier.workers()] == [WorkerHeartbeat(pid=7)]

    async def test_a_file_from_before_addresses_were_counted_is_taken_as_it_is(self, path: Path) -> None:
        async with opened(path) as client:
            await client.seeded("a/1", "a/2", "b/1", "b/2", per_host=1)
            old = await client.lease()
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE addresses")
            other.execute("DROP TABLE parked")
            other.commit()
        async with opened(path) as client:
            client.remember(await client.entries(["a/1", "a/2", "b/1", "b/2"]))
            await client.begin(per_ip=1)
            for lease in old:
                assert await client.answered(lease, address="192.0.2.1")
            assert len(await client.lease()) == 1

    async def test_a_job_that_is_dropped_leaves_no_row_behind(self, path: Path) -> None:
        """The next job in the file may have its number."""
        async with opened(path, "kept") as client:
            await client.begin()
        async with opened(path, "dropped") as client:
            await client.seeded("a/1", "b/1", "b/2", per_ip=1)
            for lease in await client.lease():
                await client.answered(lease, address="192.0.2.1")
            await client.add("a/2", "b/3", "c/1", need="browser")
        assert drop_job(path, "dropped")
        with contextlib.closing(sqlite3.connect(path)) as other:
            # What operators did stays.
            found = other.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'audit'")
            tables = [name for (name,) in found]
            left = {name: other.execute(f"SELECT count(*) FROM {name} WHERE job = 2").fetchone()[0] for name in tables}
        assert left == dict.fromkeys(tables, 0)

    @pytest.mark.parametrize("identity", [0, 42])
    def test_a_database_of_another_program_is_refused_and_left_alone(self, path: Path, identity: int) -> None:
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE precious (thing)")
            other.execute(f"PRAGMA application_id={identity}")
            other.commit()
        before = path.read_bytes()
        with pytest.raises(FormatError, match="not a skitter frontier"):
            sqlite_frontier(path, "job")
        assert path.read_bytes() == before

    @pytest.mark.parametrize("content", [b"just a text file, and not a short one at all " * 9, b"\x00" * 4096])
    def test_a_file_that_is_no_database_is_refused_and_left_alone(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(FormatError, match="not a database"):
            sqlite_frontier(path, "job")
        assert path.read_bytes() == content

    def test_a_folder_is_no_frontier(self, tmp_path: Path) -> None:
        with pytest.raises(FrontierError, match="cannot use the file"):
            sqlite_frontier(tmp_path, "job")

    def test_a_file_under_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(FrontierError, match="cannot use the file"):
            sqlite_frontier(tmp_path / "file" / "frontier.db", "job")

    async def test_a_damaged_file_is_told_as_such(self, path: Path) -> None:
        async with opened(path) as client:
            await client.seeded(*NAMES)
        damage(path)
        with pytest.raises(FormatError, match="damaged") as caught:
            async with opened(path) as client:
                await client.lease()
        assert caught.value.__cause__ is not None

    async def test_a_damaged_record_is_told_as_such(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            connection_of(client).execute("UPDATE jobs SET record = x'c1'")
            with pytest.raises(FormatError, match="damaged"):
                await client.counts()

    async def test_closing_twice_is_harmless(self, path: Path) -> None:
        async with opened(path) as client:
            await client.frontier.close()


async def life(client: Client, clock: FakeClock) -> AsyncIterator[Any]:
    """A bit of everything, step by step, and what the job tells of it."""
    client._fingerprinter = Fingerprinter(b"the same in all")
    robots = HostNews(robots=RobotsRecord(b"Disallow: /%d" % int(clock())))
    yield await client.begin(per_host=2, delay_seconds=0.5, max_attempts=2, obey_robots=True)
    yield await client.frontier.open_sink("out", "me")
    yield await client.add("a/1", "a/2", "b/1", "c/1", "d/1", seed=True)
    for gate in (await client.lease("reader"))[1:]:
        yield await client.end(gate, news=robots)
    clock.advance(1)
    for _ in range(2):
        yield await client.grant("doomed", 3)
        yield await client.lose("doomed")
        clock.advance(1)
    for ending in (Ending.DONE, Ending.RETRY, Ending.FAILED, Ending.DONE):
        for lease in await client.lease(f"worker {ending}", 2):
            for number in range(2):
                yield await client.end(lease, items=[b"%d" % number], more=True)
            yield await client.end(lease, ending, ["e/1"], items=[b"x"], retry_seconds=2, error_class="dns")
        yield await client.items(limit=3)
        clock.advance(1)
    yield await client.frontier.items_done("out", "me", SinkProgress(2))
    for told in (client.items, client.frontier.failures, client.frontier.workers, client.frontier.reap):
        yield await told()
    yield await client.frontier.revive("dns")
    lease, *_ = await client.lease("blocked", 1)
    yield await client.blocked(lease, 5)
    yield (await client.grant("last", 1)).ask_again_seconds
    yield await client.tell(Command.STOP)
    yield await client.lose("last")
    yield await client.lose("reader")
    yield await client.state()
    report = await client.frontier.report()
    yield msgspec.structs.replace(report, job=msgspec.structs.replace(report.job, secret=b""))
    yield await client.frontier.robots(["http://a.example"])
    yield await client.frontier.close_sink("out", "me", forget=True)
    yield await client.begin(fresh=True)
    yield await client.grant("again")


class TestJobs:
    @pytest.mark.parametrize("ahead", [0, 1, 2, 5, 11])
    async def test_jobs_in_one_file_do_not_touch_each_other(self, tmp_path: Path, ahead: int) -> None:
        """Two jobs live their lives in turns, one some steps ahead, and each as if it were alone."""
        clocks = [FakeClock(1_000_000.0), FakeClock(2_000_000.0)]
        alone = []
        for number, clock in enumerate(clocks):
            lone = FakeClock(clock())
            async with opened(tmp_path / f"{number}.db", f"job {number}", lone) as client:
                alone.append([told async for told in life(client, lone)])
        both = tmp_path / "both.db"
        async with opened(both, "job 0", clocks[0]) as first, opened(both, "job 1", clocks[1]) as second:
            lives = [life(first, clocks[0]), life(second, clocks[1])]
            told: list[list[Any]] = [[], []]
            for step in range(max(map(len, alone)) + ahead):
                for which in (0, 1):
                    if len(told[which]) < len(alone[which]) and (which == 0 or step >= ahead):
                        told[which].append(await anext(lives[which]))
        assert told == alone
        assert len(alone[0]) > 40


class TestSpecification:
    async def test_a_job_that_follows_a_dropped_one_of_its_name_is_read_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs.db"
        for name in ("j", "another"):
            frontier = sqlite_frontier(path, name)
            await frontier.begin(JobSpec(name=name, spider="one.py:One"))
            await frontier.close()
        reader = sqlite_frontier(path, "j")
        assert (await reader.job()).spec.spider == "one.py:One"
        assert drop_job(path, "j")
        writer = sqlite_frontier(path, "j")
        await writer.begin(JobSpec(name="j", spider="two.py:Two"))
        assert (await reader.job()).spec.spider == "two.py:Two"
        for frontier in (reader, writer):
            await frontier.close()


class TestKnownPages:
    async def test_known_pages_go_with_their_job(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs.db"
        for name in ("j", "another"):
            async with opened(path, name) as client:
                await client.seeded("a/1", "a/2", recrawl="due")
        assert drop_job(path, "j")
        async with opened(path, "j") as client:
            await client.begin(recrawl="due")
            assert await client.frontier.known_pages(0.0, math.inf, 10) == []
        async with opened(path, "another") as client:
            assert len(await client.frontier.known_pages(0.0, math.inf, 10)) == 2


class TestClock:
    async def test_a_clock_that_is_set_back_freezes_nothing(self, path: Path) -> None:
        clock = FakeClock()
        async with opened(path, clock=clock) as client:
            await client.seeded("a/1", "a/2", "b/1", delay_seconds=1.0, lease_seconds=5.0)
            first, second = await client.lease()
            await client.retry(second, 2.0)
            clock.set_back(86_400)
            assert await client.names() == []
            clock.advance(1.1)
            assert await client.names() == ["a/2"]
            clock.advance(1.1)
            assert await client.names() == ["b/1"]
            clock.advance(5.1)
            assert await client.frontier.reap() == 3
            assert not await client.end(first)

    async def test_a_process_that_starts_after_the_clock_was_set_back_goes_on(self, path: Path) -> None:
        clock = FakeClock()
        async with opened(path, clock=clock) as client:
            await client.seeded("a/1", "a/2", delay_seconds=1.0)
            await client.one()
            started = (await client.frontier.job()).started_at
        clock.set_back(3_600)
        async with opened(path, clock=clock) as client:
            assert await client.frontier.lease("w", 1)
            clock.advance(1.1)
            (lease,) = (await client.frontier.lease("w", 1)).leases
            assert lease.leased_at >= started + 1.0

    async def test_time_never_goes_back_between_processes(self, path: Path) -> None:
        ahead, behind = FakeClock(2_000.0), FakeClock(1_000.0)
        async with opened(path, clock=ahead) as first, opened(path, clock=behind) as second:
            await first.seeded("a/1", "b/1")
            (early,) = (await first.frontier.lease("w", 1)).leases
            (late,) = (await second.frontier.lease("w", 1)).leases
            assert late.leased_at >= early.leased_at


class TestFullDisk:
    async def test_a_full_disk_undoes_the_call_and_loses_nothing(self, path: Path) -> None:
        async with opened(path) as client:
            await client.seeded(*NAMES)
            connection = connection_of(client)
            leases = await client.lease(limit=4)
            before = await client.frontier.report()
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={pages}")
            many = await client.entries(f"x{number}/{'y' * 500}{number}" for number in range(200))
            with pytest.raises(FrontierError, match="disk is full") as caught:
                await client.frontier.add(many)
            assert "nothing is lost" in caught.value.hint
            outcome = Outcome(lease=leases[0], ending=Ending.DONE, links=many)
            with pytest.raises(FrontierError, match="disk is full"):
                await client.frontier.commit("w", [outcome], 10)
            assert await client.frontier.report() == before
            connection.execute("PRAGMA max_page_count=1000000")
            assert (await client.frontier.commit("w", [outcome])).accepted == [True]
            assert (await client.counts()).seen == len(NAMES) + 200

    async def test_what_a_failed_grant_would_have_permitted_is_told_by_the_next(self, path: Path) -> None:
        async with opened(path) as client:
            await client.seeded("a/1")
            await client.add("b/1", seed=True)
            connection = connection_of(client)
            connection.execute("CREATE TRIGGER fails BEFORE INSERT ON holds BEGIN SELECT RAISE(ABORT, 'no'); END")
            with pytest.raises(FrontierError, match="no"):
                await client.frontier.lease("w", 5)
            with pytest.raises(FrontierError, match="no"):
                await client.frontier.commit("w", [], 5)
            connection.execute("DROP TRIGGER fails")
            grant = await client.grant("w", 5)
            assert grant.permitted == ["http://b.example"]
            assert len(grant.leases) == 2

    def test_a_disk_that_fills_up_while_crawling_is_told_and_resumed(self, path: Path) -> None:
        """The limit on a file's size stands in for a small disk."""
        filled = run_script(FILL, path, preexec_fn=_small_files)
        assert filled.returncode == 3, filled.stderr
        assert "disk" in filled.stderr
        seen, queued = (int(number) for number in filled.stdout.split()[-2:])
        assert seen == queued > 0

        async def resume() -> None:
            async with opened(path) as client:
                assert await client.frontier.begin(client.spec()) is Begun.RESUMED
                assert (await client.counts()).queued == queued
                assert await client.frontier.add(await client.entries(["z/1"])) == 1

        asyncio.run(resume())


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))


class TestRollback:
    @pytest.mark.parametrize("brief", [True, False])
    async def test_a_call_that_fails_while_it_reads_keeps_no_old_state_of_the_file(
        self, path: Path, *, brief: bool
    ) -> None:
        """A query that was not read to its end would: as soon as another process writes, no transaction could begin."""

        def fails_while_it_reads(_: object) -> None:
            rows = connection_of(client).execute("SELECT name FROM sqlite_master")
            raise LookupError(next(rows))

        async with opened(path) as client:
            await client.seeded(*NAMES)
            with pytest.raises(FrontierError) as kept:
                await store_of(client).run(fails_while_it_reads, brief=brief)
            async with opened(path) as other:
                await other.frontier.command(Command.PAUSE)
            await asyncio.wait_for(client.frontier.command(Command.RESUME), 60)
            await asyncio.wait_for(store_of(client).run(lambda _: None, brief=True), 60)
            assert kept.value is not None

    async def test_a_job_that_was_not_begun_after_all_is_not_remembered(self, path: Path) -> None:
        async with opened(path) as first, opened(path) as second:
            connection = connection_of(first)
            connection.execute("CREATE TRIGGER fails BEFORE INSERT ON sinks BEGIN SELECT RAISE(ABORT, 'no'); END")
            with pytest.raises(FrontierError, match="no"):
                await first.frontier.begin(first.spec(["mine"]), sinks=["out"])
            connection.execute("DROP TRIGGER fails")
            assert await second.begin(second.spec(["yours"])) is Begun.NEW
            assert (await first.frontier.job()).spec.seeds == ["yours"]

    @pytest.mark.parametrize("table", ["requests", "hosts", "holds", "outbox", "jobs"])
    async def test_a_call_that_fails_half_way_leaves_nothing_behind(self, path: Path, table: str) -> None:
        """Whichever write fails, and whatever this client remembered of the transaction."""
        async with opened(path) as client:
            await client.seeded(*NAMES)
            await client.frontier.open_sink("out", "me")
            leases = await client.lease(limit=3)
            before = await client.frontier.report()
            outcomes = [await client.outcome(lease, links=["new/1"], items=[b"x"]) for lease in leases]
            connection = connection_of(client)
            for event in ("INSERT", "UPDATE"):
                connection.execute(
                    f"CREATE TRIGGER fails_{event} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END"
                )
            with pytest.raises(FrontierError, match="no"):
                await client.frontier.commit("w", outcomes, 5)
            for event in ("INSERT", "UPDATE"):
                connection.execute(f"DROP TRIGGER fails_{event}")
            assert await client.frontier.report() == before
            assert await client.records() == []
            assert (await client.commit(*outcomes, want=5)).accepted == [True] * 3
            assert len(await client.records()) == 3


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is no frontier's, with a transaction that writes."""
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


async def tried(store: SqliteStore, times: int) -> None:
    """Until the store has tried so many times more to begin."""
    target = store._transactions + times
    while store._transactions < target:  # noqa: ASYNC110 - nothing is told of a try
        await asyncio.sleep(0)


def stand_still_beside(other: sqlite3.Connection) -> None:
    """The loop does not come round, and the other connection has one transaction after the other."""
    for _ in range(100):
        time.sleep(0.001)
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")


@contextlib.contextmanager
def locked_by_process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process inside a transaction."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield holder


class TestBrief:
    """Transactions whose rules run in the loop, and whose end is a thread's."""

    async def test_who_waits_for_another_process_lets_the_loop_go_on(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            store = store_of(client)
            with locked(path) as other:
                waiting = asyncio.create_task(client.frontier.lease("w1", 1))
                await tried(store, 3)
                assert not waiting.done()
                other.execute("ROLLBACK")
                assert len((await waiting).leases) == 1

    async def test_a_loop_that_stands_still_locks_nobody_out(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            with locked(path) as other:
                waiting = asyncio.create_task(client.frontier.lease("w1", 1))
                await tried(store_of(client), 1)
                other.execute("ROLLBACK")
                stand_still_beside(other)
            assert len((await waiting).leases) == 1

    async def test_who_is_killed_inside_a_transaction_holds_up_nobody(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            with locked_by_process(path) as holder:
                waiting = asyncio.create_task(client.frontier.lease("w1", 1))
                await tried(store_of(client), 3)
                holder.kill()
                holder.wait()
                assert len((await waiting).leases) == 1

    async def test_a_file_that_stays_locked_is_an_error(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("skitter.frontier.sqlite.store.BUSY_SECONDS", 0.05)
        async with opened(path) as client:
            await client.begin()
            with locked(path), pytest.raises(FrontierError, match="locked by another process"):
                await client.frontier.lease("w1", 1)
            assert len(await client.lease("w1", 1)) == 1

    async def test_a_turn_comes_when_the_other_process_has_ended_its_transaction(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            store = store_of(client)
            with locked(path) as other:
                leasing = asyncio.create_task(client.frontier.lease("w1", 1))
                await tried(store, 1)
                other.execute("ROLLBACK")
                await leasing
                other.execute("BEGIN IMMEDIATE")
                turn = asyncio.create_task(client.frontier.wait_for_turn())
                await tried(store, 3)
                assert not turn.done()
                other.execute("ROLLBACK")
                await turn
                # To have a turn is not to have the file.
                other.execute("BEGIN IMMEDIATE")
                assert not store._connection.in_transaction

    async def test_who_never_met_another_process_asks_for_no_turn(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            await client.frontier.lease("w1", 1)
            tries = store_of(client)._transactions
            with locked(path):
                await client.frontier.wait_for_turn()
            assert store_of(client)._transactions == tries

    async def test_who_is_cancelled_before_it_could_begin_has_done_nothing(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            with locked(path):
                waiting = asyncio.create_task(client.frontier.lease("w1", 1))
                await tried(store_of(client), 1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            assert len(await client.lease("w2", 1)) == 1

    async def test_who_is_cancelled_leaves_a_whole_transaction(self, path: Path) -> None:
        async with opened(path) as client:
            await client.begin()
            await client.add(*NAMES[:3])
            store = store_of(client)
            idle = store._in_work
            leasing = asyncio.create_task(client.frontier.lease("w1", 3))
            await asyncio.sleep(0)
            assert store._in_work is not idle
            leasing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leasing
            # The next one waits for what was left to the thread, and finds it done.
            assert (await client.frontier.counts()).leased > 0
            assert not store._connection.in_transaction


class TestStaged:
    @pytest.mark.parametrize("end", ["released", "lost", "failed", "done", "new run"])
    async def test_what_was_staged_is_gone_when_its_lease_is(self, path: Path, end: str) -> None:
        async with opened(path) as client:
            await client.seeded("a/1")
            lease = await client.one("w")
            assert await client.end(lease, items=[b"x"], more=True)
            assert connection_of(client).execute("SELECT count(*) FROM staged").fetchone() == (1,)
            match end:
                case "released":
                    await client.release(lease)
                case "lost":
                    await client.lose("w")
                case "new run":
                    await client.begin(fresh=True)
                case _:
                    await client.end(lease, Ending(end))
            assert connection_of(client).execute("SELECT count(*) FROM staged").fetchone() == (0,)


CHILD = """
import asyncio, sys
from pathlib import Path
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.item import NewItem
from skitter.model.job import JobSpec
from skitter.model.lease import Work
from skitter.model.outcome import Ending, HostNews, Outcome, RobotsRecord
from skitter.model.request import Fingerprinter
from skitter.model.worker import WorkerHeartbeat
from skitter.model.request import Fingerprinter, Request

async def main(path, worker, pages):
    frontier = sqlite_frontier(Path(path), "job")
    await frontier.begin(JobSpec(name="job", spider="", settings={"obey_robots": False, "per_host": 64}))
    fingerprinter = Fingerprinter((await frontier.job()).secret)

    def entries(numbers):
        return [fingerprinter.entry(Request(f"http://h{n % 7}.example/{n}")) for n in numbers if n < pages]

    def outcome(lease):
        # Page n links to pages 2n+1 and 2n+2, and yields one item.
        if lease.work is Work.SEED:
            return Outcome(lease=lease, ending=Ending.DONE, links=entries([0]))
        n = int(lease.request.url.rpartition("/")[2])
        return Outcome(lease=lease, ending=Ending.DONE, links=entries([2*n+1, 2*n+2]), items=[NewItem(b"%d" % n)])

    await frontier.open_sink("out", "me")
    grant = await frontier.lease(worker, 8)
    print("ready", flush=True)
    while grant.state == "running":
        answer = await frontier.commit(worker, [outcome(lease) for lease in grant.leases], 8)
        grant = answer.grant
    await frontier.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

FILL = """
import asyncio, sys
from pathlib import Path
from skitter.errors import FrontierError
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import JobSpec
from skitter.model.request import Fingerprinter, Request

async def main(path):
    frontier = sqlite_frontier(Path(path), "job")
    await frontier.begin(JobSpec(name="job", spider="", settings={"obey_robots": False, "delay_seconds": 0}))
    fingerprinter = Fingerprinter((await frontier.job()).secret)
    number = 0
    while True:
        batch = [fingerprinter.entry(Request(f"http://a.example/{'x' * 300}/{number + n}")) for n in range(64)]
        try:
            await frontier.add(batch)
        except FrontierError as error:
            print(error, file=sys.stderr)
            counts = await frontier.counts()
            print(counts.seen, counts.queued)
            sys.exit(error.exit_code)
        number += 64

asyncio.run(main(sys.argv[1]))
"""


def run_script(script: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False, **options)


def start_child(path: Path, worker: str, pages: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(path), worker, str(pages)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


class TestProcesses:
    PAGES = 2_000

    async def _verify(self, path: Path) -> None:
        async with opened(path) as client:
            counts = await client.counts()
            assert (counts.done, counts.seen) == (self.PAGES, self.PAGES)
            assert await client.state() is State.FINISHED
            records = [item.record for item in await client.items(limit=self.PAGES + 1)]
            assert sorted(map(int, records)) == list(range(self.PAGES)), "each item once"

    async def test_two_processes_share_a_file(self, path: Path) -> None:
        children = [start_child(path, worker, self.PAGES) for worker in ("w1", "w2")]
        for child in children:
            child.communicate(timeout=HANG_SECONDS)
        assert [child.returncode for child in children] == [0, 0]
        await self._verify(path)

    async def test_a_process_killed_at_any_moment_leaves_a_whole_file(self, path: Path) -> None:
        for number in range(4):
            child = start_child(path, f"w{number}", self.PAGES)
            # Not a wait for something: any moment will do, and each is another one.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=0.01 + 0.02 * number)
            child.kill()
            child.communicate()
            async with opened(path, clock=FakeClock(4_000_000_000.0 + number)) as client:
                check = connection_of(client).execute("PRAGMA integrity_check").fetchone()[0]
                assert check == "ok"
                counts = await client.counts()
                assert counts.leased <= 8
                assert await client.frontier.release_worker(f"w{number}") >= counts.leased
        last = start_child(path, "last", self.PAGES)
        last.communicate(timeout=HANG_SECONDS)
        assert last.returncode == 0
        await self._verify(path)
