"""The chain of the audit trail, in a SQLite file and in a Redis: tampering, concurrency, pruning."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rig.processes import HANG_SECONDS
from skitter.app.audit import TrailFilter, Trails, Verification
from skitter.app.frontiers import drop_job, open_frontier
from skitter.audit.entry import DONE, GENESIS, Draft, hash_of, sealed
from skitter.audit.entry import Stored as StoredEntry
from skitter.audit.redis_trail import _APPEND, KEY, RESENT, RedisTrail
from skitter.audit.sqlite_table import TABLE, SqliteTrail
from skitter.audit.trail import Trail
from skitter.errors import UsageError
from skitter.frontier.contract import acting_for
from skitter.model.audit import Actor, AuditRow
from skitter.model.job import Command, JobSpec

ADA = Actor("cli:ada@desk")
Rows = list[tuple[bytes, str]]
"""Body and hash of each entry, in the order of the chain."""


class Place(Protocol):
    """A store whose entries a test may overwrite, as somebody with access to it can."""

    url: str

    def trail(self) -> Trail: ...
    def rows(self) -> Rows: ...
    def overwrite(self, rows: Rows, numbers: Sequence[int] | None = None) -> None:
        """``numbers``: what each row is said to be, where a store has that; else they are counted."""
        ...


class File:
    """A SQLite file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "jobs.db"
        self.url = f"sqlite:{self._path}"
        self.overwrite([])

    def trail(self) -> Trail:
        return SqliteTrail(self._path, has_archive=True)

    def remove(self) -> None:
        self._path.unlink()

    def forget_table(self) -> None:
        """As a skitter without a trail has left it."""
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("DROP TABLE audit")

    def rows(self) -> Rows:
        with closing(sqlite3.connect(self._path)) as database, database:
            return list(database.execute("SELECT body, hash FROM audit ORDER BY seq"))

    def overwrite(self, rows: Rows, numbers: Sequence[int] | None = None) -> None:
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute(TABLE)
            database.execute("DELETE FROM audit")
            numbered = zip(numbers or range(1, len(rows) + 1), rows, strict=True)
            database.executemany("INSERT INTO audit VALUES (?, ?, ?)", [(seq, *row) for seq, row in numbered])


class Server:
    """A Redis."""

    def __init__(self, server: Any) -> None:
        self.url: str = server.url
        self._client = redis.Redis.from_url(self.url)

    def trail(self) -> Trail:
        return RedisTrail(self.url)

    def rows(self) -> Rows:
        return [(entry[64:], entry[:64].decode()) for entry in self._client.lrange(KEY, 0, -1)]

    def overwrite(self, rows: Rows, numbers: Sequence[int] | None = None) -> None:
        self._client.delete(KEY)
        for body, sum_ in rows:
            self._client.rpush(KEY, sum_.encode() + body)

    def close(self) -> None:
        self._client.close()


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, own_redis: Callable[..., Any], tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield File(tmp_path)
    else:
        server = Server(own_redis())
        yield server
        server.close()


async def append(trail: Trail, number: int) -> int:
    return await trail.append(Draft(actor=ADA, action="pause", job=f"j{number}", outcome=DONE))


async def verified(place: Place, *heads: str) -> Verification:
    async with Trails(place.url) as trails:
        return await trails.verify(heads)


def begun_anew(place: Place, length: int) -> Rows:
    """An intact chain of so many entries."""

    async def fill() -> None:
        place.overwrite([])
        for number in range(length):
            await append(place.trail(), number)
        assert (await verified(place)).ok

    asyncio.run(fill())
    return place.rows()


TAMPERING = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LENGTH = 6


@TAMPERING
@given(data=st.data())
def test_a_changed_row_is_found(place: Place, data: st.DataObject) -> None:
    rows = begun_anew(place, LENGTH)
    number = data.draw(st.integers(0, LENGTH - 1))
    body, sum_ = rows[number]
    # A part of it: a time has more digits or fewer, and what is drawn must not depend on that.
    at = data.draw(st.integers(0, 999)) * len(body) // 1000
    changed = body[:at] + bytes([body[at] ^ data.draw(st.integers(1, 255))]) + body[at + 1 :]
    # Whoever changes it may have the hash fit again: then the next one does not follow, or a noted head is gone.
    fits = data.draw(st.booleans())
    rows[number] = (changed, hash_of(changed) if fits else sum_)
    head = rows[-1][1] if number < LENGTH - 1 else sum_
    place.overwrite(rows)
    found = asyncio.run(verified(place, head))
    assert not found.ok
    if not fits or number < LENGTH - 1:
        assert not asyncio.run(verified(place)).ok, "without a noted head as well"


@TAMPERING
@given(data=st.data())
def test_a_removed_row_is_found(place: Place, data: st.DataObject) -> None:
    rows = begun_anew(place, LENGTH)
    removed = data.draw(st.sets(st.integers(0, LENGTH - 2), min_size=1, max_size=LENGTH - 2))
    left = [number for number in range(LENGTH) if number not in removed]
    counted = data.draw(st.booleans())
    place.overwrite([rows[number] for number in left], None if counted else [number + 1 for number in left])
    found = asyncio.run(verified(place))
    assert not found.ok, left


@TAMPERING
@given(data=st.data())
def test_an_inserted_row_is_found(place: Place, data: st.DataObject) -> None:
    rows = begun_anew(place, LENGTH)
    at = data.draw(st.integers(0, LENGTH - 1))
    # A copy of a row, or one that looks like the right one at its place.
    draft = Draft(actor=ADA, action="drop", job="j", outcome=DONE)
    last = StoredEntry(at, *rows[at - 1]) if at else None
    forged = sealed(draft, last, time.time())
    copied = data.draw(st.integers(-1, LENGTH - 1))
    new = (forged.body, forged.hash) if copied < 0 else rows[copied]
    place.overwrite([*rows[:at], new, *rows[at:]])
    assert not asyncio.run(verified(place)).ok


@TAMPERING
@given(order=st.permutations(range(LENGTH)).filter(lambda order: list(order) != sorted(order)))
def test_rows_in_another_order_are_found(place: Place, order: list[int]) -> None:
    rows = begun_anew(place, LENGTH)
    place.overwrite([rows[number] for number in order])
    assert not asyncio.run(verified(place)).ok


@TAMPERING
@given(kept=st.integers(0, LENGTH - 1))
def test_a_cut_end_is_found_against_a_noted_head(place: Place, kept: int) -> None:
    rows = begun_anew(place, LENGTH)
    noted = rows[-1][1]
    assert asyncio.run(verified(place, noted)).ok
    place.overwrite(rows[:kept])
    assert asyncio.run(verified(place)).ok, "nobody can tell without it"
    found = asyncio.run(verified(place, noted))
    assert not found.ok
    assert noted in found.problems[-1]


async def test_a_noted_head_stays_in_a_chain_that_goes_on(place: Place) -> None:
    trail = place.trail()
    await append(trail, 0)
    async with Trails(place.url) as trails:
        noted = await trails.head()
        for number in range(3):
            await append(trail, number)
        assert (await trails.verify([noted])).ok
        assert (await trails.verify([GENESIS])).ok
        assert noted != await trails.head()


async def test_a_damaged_end_does_not_stop_operators_and_is_found(place: Place) -> None:
    trail = place.trail()
    for number in range(3):
        await append(trail, number)
    rows = place.rows()
    for garbage in ((b"", ""), (b"\xff not JSON", "0" * 64), (b"[]", "f" * 64), (b"{}", "?"), (b"", "ü" * 32)):
        place.overwrite([*rows[:2], garbage])
        assert await append(trail, 4) == 4
        found = await verified(place)
        assert not found.ok
        async with Trails(place.url) as trails:
            assert [row.action for row in await trails.rows(TrailFilter())] == ["pause", "?", "pause", "pause"]


APPEND = """
import asyncio, sys
from skitter.app.frontiers import open_frontier
from skitter.frontier.contract import acting_for
from skitter.model.audit import Actor, AuditRow
from skitter.model.job import Command

async def work():
    frontier = open_frontier(sys.argv[1], "j", create=False)
    mine = acting_for(frontier, Actor("cli:" + sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[3])):
        await mine.command(Command.PAUSE if number % 2 else Command.RESUME)
    await frontier.close()

asyncio.run(work())
"""


def test_two_processes_that_append_at_once_keep_one_chain(place: Place) -> None:
    each = 25
    if isinstance(place, File):
        place.remove()

    async def begin() -> None:
        frontier = open_frontier(place.url, "j", create=True)
        await frontier.begin(JobSpec(name="j", spider=""))
        await frontier.close()

    async def read() -> tuple[list[AuditRow], Verification]:
        async with Trails(place.url) as trails:
            return await trails.rows(TrailFilter(limit=1000)), await trails.verify()

    asyncio.run(begin())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [[sys.executable, "-c", APPEND, place.url, name, str(each)] for name in ("ada", "bob")]
    started = [subprocess.Popen(command, **pipes) for command in words]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0
    rows, found = asyncio.run(read())
    assert found.ok, found.problems
    assert {row.outcome for row in rows} == {"done"}
    assert sorted(row.actor for row in rows) == ["cli:ada"] * each + ["cli:bob"] * each
    assert [row.at for row in rows] == sorted((row.at for row in rows), reverse=True)


async def test_a_pruned_chain_is_intact_and_a_head_that_is_cut_by_hand_is_not(place: Place) -> None:
    trail = place.trail()
    for number in range(8):
        await append(trail, number)
    rows = place.rows()
    place.overwrite(rows[3:], range(4, 9))
    found = await verified(place)
    assert "no entry says that they were pruned" in found.problems[0]
    place.overwrite(rows)
    async with Trails(place.url) as trails:
        times = [row.at for row in await trails.rows(TrailFilter())][::-1]
        assert await trails.prune(times[5], Actor("cli:bob@desk")) == 5
        found = await trails.verify()
        assert (found.ok, found.entries) == (True, 4)
        left = await trails.rows(TrailFilter())
        assert [row.seq for row in left] == [9, 8, 7, 6]
        assert (left[0].action, left[0].actor) == ("audit.prune", "cli:bob@desk")
        assert left[0].details == {"through": 5, "hash": rows[4][1], "removed": 5}
        assert (await trails.verify([rows[7][1]])).ok
        assert not (await trails.verify([rows[1][1]])).ok, "it was pruned"
        assert await trails.prune(times[0], ADA) == 0, "nothing is so old any more"
        await append(trail, 9)
        assert await trails.prune(time.time() + 60, ADA) == 5
        assert (await trails.verify()).entries == 1
    kept = place.rows()
    place.overwrite([(kept[0][0].replace(b'"removed":5', b'"removed":1'), kept[0][1])], [11])
    async with Trails(place.url) as trails:
        assert not (await trails.verify()).ok
        with pytest.raises(UsageError, match="not pruned"):
            await trails.prune(time.time() + 60, ADA)


def test_an_entry_that_is_sent_again_is_appended_once(own_redis: Callable[..., Any]) -> None:
    """As after an answer that was lost; another entry may have come meanwhile."""
    server = own_redis()
    place = Server(server)
    rows = begun_anew(place, 3)
    place.overwrite(rows[:2])
    body, sum_ = rows[2]
    with redis.Redis.from_url(server.url) as client:
        arguments = (rows[1][1], sum_.encode() + body, 0, RESENT)
        assert client.eval(_APPEND, 1, KEY, *arguments) == [1]
        assert client.eval(_APPEND, 1, KEY, *arguments) == [1]
        asyncio.run(append(place.trail(), 9))
        assert client.eval(_APPEND, 1, KEY, *arguments) == [1]
    assert place.rows()[:3] == rows
    assert len(place.rows()) == 4
    place.close()


async def test_a_job_in_shards_has_the_chain_of_its_cluster(services: Any) -> None:
    """Its keys, and those of the trail, are on several nodes."""
    url = services.need("redis-cluster")["url"]
    frontier = open_frontier(f"{url}?shards=3", "audited", create=True)
    recorded = acting_for(frontier, ADA)
    await recorded.begin(JobSpec(name="audited", spider=""))
    await recorded.command(Command.PAUSE)
    await frontier.close()
    assert await drop_job(url, "audited", ADA)
    async with Trails(url) as trails:
        rows = await trails.rows(TrailFilter(job="audited"))
        assert (await trails.verify([rows[0].hash])).ok
    assert [(row.action, row.outcome) for row in rows] == [("drop", "done"), ("pause", "done"), ("begin", "done")]
    assert (rows[1].before["state"], rows[1].after["state"]) == ("running", "paused")


async def test_an_older_file_gets_a_trail_when_it_is_used(tmp_path: Path) -> None:
    place = File(tmp_path)
    place.remove()
    frontier = open_frontier(place.url, "j", create=True)
    await frontier.begin(JobSpec(name="j", spider=""))
    await frontier.close()
    place.forget_table()
    assert (await verified(place)).entries == 0
    frontier = open_frontier(place.url, "j", create=False)
    await acting_for(frontier, ADA).command(Command.PAUSE)
    await frontier.close()
    assert (await verified(place)).entries == 1


async def test_pages_of_rows_leave_nothing_out(place: Place) -> None:
    trail = place.trail()
    for number in range(25):
        seq = await trail.append(Draft(actor=ADA, action="retry", job=f"j{number}"))
        await trail.append(Draft(actor=ADA, action="retry", outcome=DONE, of=seq, after={"retried": number}))
    seen, before = [], ""
    async with Trails(place.url) as trails:
        while page := await trails.rows(TrailFilter(limit=7, before=before)):
            seen += [(row.job, row.after["retried"], row.outcome) for row in page]
            before = page[-1].id
        with pytest.raises(UsageError, match="unknown row id"):
            await trails.rows(TrailFilter(before="x"))
    assert seen == [(f"j{number}", number, "done") for number in range(24, -1, -1)]
