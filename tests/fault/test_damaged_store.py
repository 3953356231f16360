"""Every column of a job's tables and every key of a job in Redis, damaged in turn, and every command run on it.

No command answers with a traceback or with a raw error of Python, SQLite or Redis; errors name the job and the place of
the damage; ``crawl`` and ``worker`` do not replace workers for ever. Commands run in this process, and for a share of
the cases ``crawl`` and ``worker`` in processes of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rig import damaged_job as harm
from rig.soak import chance_of
from skitter.model.job import JobSpec
from skitter.settings import Settings
from skitter.testing.frontiers import open_frontier
from skitter.testing.redis_jobs import JOBS_KEY, RawRedis, prefixes_of

PORT = 9
"""Where nothing is fetched, the job's pages may be anywhere."""
SLICE = 40
"""Of so many cases `make test` takes one, of each table and of the keys."""
CRAWLS = 1
"""Cases for which `make test` starts a crawl and a worker, of each store."""
CRAWL_SHARE = 12
"""Of so many cases `make soak` starts them for one."""
(PREFIX,) = prefixes_of(harm.JOB, 1)
TABLES = (
    "jobs requests pages hosts addresses parked robots permits holds workers heartbeats staged outbox sinks jars"
    " distinct_urls"
).split()
NEED_TABLES = ["ready_for", "needs"]
PARTS = 8
"""Of the cases of Redis, for a report that says which failed."""


# ---- SQLite


class Case(NamedTuple):
    name: str
    change: Callable[[sqlite3.Connection], object]


def _set(table: str, column: str, value: object, expression: str = "?") -> Callable[[sqlite3.Connection], object]:
    return lambda connection: connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {expression}", (value,))


def table_cases(table: str, file: Path) -> Iterator[Case]:
    """Every column with everything that may be in it and should not."""
    with closing(sqlite3.connect(file)) as connection:
        for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            found = connection.execute(f"SELECT {column} FROM {table} WHERE {column} NOT NULL").fetchone()
            assert found is not None, f"the job has no row in {table}"
            values: list[tuple[str, Any]] = [
                ("a text", "abc"),
                ("a negative number", -1),
                ("a huge number", 2**63 - 1),
                ("a fraction", 1e300),
                ("a blob", b"\xc1\xff"),
                ("zero", 0),
                ("an empty text", ""),
            ]
            if kind == "BLOB":
                values += [*harm.bad_bytes(found[0]), *harm.bad_fields(found[0])]
            for how, value in values:
                yield Case(f"{table}.{column}: {how}", _set(table, column, value))
            yield Case(f"{table}.{column}: no UTF-8", _set(table, column, b"\xff\xfe", "CAST(? AS TEXT)"))
    yield Case(f"{table}: no rows", lambda connection: connection.execute(f"DELETE FROM {table}"))
    yield Case(f"{table}: no table", lambda connection: connection.execute(f"DROP TABLE {table}"))


class DamagedFile:
    """The file of a job, as it was and damaged."""

    def __init__(self, folder: Path, port: int = PORT, *, needs: bool = True) -> None:
        self.path = folder / "harmed.db"
        self.url = f"sqlite:{self.path}"

        async def make() -> None:
            frontier = open_frontier(self.url, harm.JOB)
            try:
                await harm.fill(frontier, port, needs=needs)
            finally:
                await frontier.close()

        asyncio.run(make())
        self._whole = self.path.read_bytes()

    def damage(self, case: Case) -> None:
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(self._whole)
        # What SQLite itself refuses, such as a text for the number of a row, cannot lie there.
        with closing(sqlite3.connect(self.path)) as connection, contextlib.suppress(sqlite3.IntegrityError), connection:
            case.change(connection)

    def faults(self, case: Case) -> Iterator[str]:
        self.damage(case)
        for words in [*harm.commands(self.url, PORT), ("drop", "--frontier", self.url, "--job", harm.JOB)]:
            for fault in harm.faults(harm.run(words), case.name.partition(":")[0]):
                yield f"{case.name}: {' '.join(words[:2])}: {fault}"
        self.damage(case)
        try:
            frontier = open_frontier(self.url, harm.JOB)
        except harm.SkitterError:
            return
        for fault in asyncio.run(harm.work(frontier)):
            yield f"{case.name}: {fault}"


def look_into_table(table: str, folder: Path, share: int) -> list[str]:
    with harm.in_folder(folder):
        file = DamagedFile(folder)
        cases = list(table_cases(table, file.path))
        chosen = chance_of(table).sample(cases, -(-len(cases) // share))
        return [fault for case in chosen for fault in file.faults(case)]


@pytest.mark.parametrize("table", [*TABLES, *NEED_TABLES])
def test_damage_to_a_table_is_told_in_words(table: str, tmp_path: Path) -> None:
    assert look_into_table(table, tmp_path, SLICE) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("table", [*TABLES, *NEED_TABLES])
def test_every_damage_to_a_table_is_told_in_words(table: str, tmp_path: Path) -> None:
    assert look_into_table(table, tmp_path, 1) == []


def crawl_damaged_files(skitter: Any, folder: Path, share: int, most: int | None = None) -> list[str]:
    found = []
    with harm.site_of_pages() as site:
        file = DamagedFile(folder, site.port, needs=False)
        cases = [case for table in TABLES for case in table_cases(table, file.path)]
        for case in chance_of(5).sample(cases, most or len(cases) // share):
            for command in ("crawl", "worker"):
                file.damage(case)
                found += [f"{case.name}: {fault}" for fault in harm.crawl_faults(skitter, file.url, site.port, command)]
    return found


@pytest.mark.timeout(300)
def test_a_crawl_of_a_damaged_file_ends(skitter: Any, tmp_path: Path) -> None:
    assert crawl_damaged_files(skitter, tmp_path, 1, CRAWLS) == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_crawls_of_damaged_files_end(skitter: Any, tmp_path: Path) -> None:
    assert crawl_damaged_files(skitter, tmp_path, CRAWL_SHARE) == []


# ---- Redis

Words = tuple[Any, ...]


class KeyCase(NamedTuple):
    name: str
    """Begins with the key."""
    change: list[Words]
    """Commands that damage it."""


class DamagedRedis:
    """A Redis with one job, as it was and damaged."""

    def __init__(self, url: str) -> None:
        self.server = RawRedis(url)
        self.url = url
        self._whole: dict[bytes, bytes] = {}

    async def fill(self, port: int = PORT, *, needs: bool = True) -> None:
        frontier = open_frontier(self.url, harm.JOB)
        try:
            await harm.fill(frontier, port, needs=needs)
        finally:
            await frontier.close()
        for key in await self.server.command("KEYS", PREFIX + "*"):
            self._whole[key] = await self.server.command("DUMP", key)

    async def damage(self, case: KeyCase) -> None:
        ask = self.server.command
        await ask("FLUSHALL")
        for key, dump in self._whole.items():
            await ask("RESTORE", key, 0, dump)
        await ask("SADD", JOBS_KEY, harm.JOB)
        for words in case.change:
            await ask(*words)

    async def cases(self) -> list[KeyCase]:
        found: list[KeyCase] = []
        for key in sorted(self._whole):
            kind = (await self.server.command("TYPE", key)).decode()
            other: Words = ("SET", key, b"\xff") if kind == "list" else ("RPUSH", key, b"\xff")
            changes: list[tuple[str, list[Words]]] = [("deleted", [("DEL", key)])]
            changes.append(("of another type", [("DEL", key), other]))
            changes += await getattr(self, f"_damage_to_{kind}")(key)
            found += [KeyCase(f"{key.decode()}: {how}", words) for how, words in changes]
        return found

    async def _damage_to_string(self, key: bytes) -> list[tuple[str, list[Words]]]:
        good = await self.server.command("GET", key)
        return [(how, [("SET", key, value)]) for how, value in (*harm.bad_bytes(good), *harm.bad_fields(good))]

    async def _damage_to_hash(self, key: bytes) -> list[tuple[str, list[Words]]]:
        found = await self.server.command("HGETALL", key)
        fields, (first, good) = found[::2], found[:2]
        numbers = [(f"the number {number.decode()}", number) for number in (b"-1", b"abc", b"1e300", b"9" * 30)]
        values = [*harm.bad_bytes(good), *harm.bad_fields(good), *numbers]
        return [
            ("a field of bad UTF-8", [("HDEL", key, first), ("HSET", key, b"\xff\xfe", good)]),
            ("a field left out", [("HDEL", key, first)]),
            *((how, [("HSET", key, field, value) for field in fields]) for how, value in values),
        ]

    async def _damage_to_list(self, key: bytes) -> list[tuple[str, list[Words]]]:
        good, size = await self.server.command("LINDEX", key, 0), await self.server.command("LLEN", key)
        return [(how, [("LSET", key, n, value) for n in range(size)]) for how, value in harm.bad_bytes(good)]

    async def _damage_to_set(self, key: bytes) -> list[tuple[str, list[Words]]]:
        members = await self.server.command("SMEMBERS", key)
        values = harm.bad_bytes(members[0])
        return [(how, [("SREM", key, *members), ("SADD", key, value)]) for how, value in values]

    async def _damage_to_zset(self, key: bytes) -> list[tuple[str, list[Words]]]:
        members = await self.server.command("ZRANGE", key, 0, -1)
        values, scores = harm.bad_bytes(members[0]), ("-1", "1e300", "inf", "-inf", "0.5")
        return [
            *((how, [("ZREM", key, *members), ("ZADD", key, 1, value)]) for how, value in values),
            *((f"score {score}", [("ZADD", key, score, member) for member in members]) for score in scores),
        ]

    async def faults(self, case: KeyCase) -> list[str]:
        faults: list[str] = []
        await self.damage(case)
        for words in [*harm.commands(self.url, PORT), ("drop", "--frontier", self.url, "--job", harm.JOB)]:
            said = await asyncio.to_thread(harm.run, words)
            told = harm.faults(said, case.name.split(": ")[0])
            faults += [f"{case.name}: {' '.join(words[:2])}: {fault}" for fault in told]
        if not said.code and (left := await self.server.command("KEYS", PREFIX + "*")):
            faults.append(f"{case.name}: not dropped: {left}")
        await self.damage(case)
        return faults + [f"{case.name}: {fault}" for fault in await harm.work(open_frontier(self.url, harm.JOB))]


async def look_into_keys(url: str, folder: Path, share: int, part: int = 0, parts: int = 1) -> list[str]:
    redis, faults = DamagedRedis(url), []
    with harm.in_folder(folder):
        try:
            await redis.fill()
            cases = (await redis.cases())[part::parts]
            for case in chance_of(part).sample(cases, -(-len(cases) // share)):
                faults += await redis.faults(case)
        finally:
            await redis.server.close()
    return faults


async def test_damage_to_a_key_is_told_in_words(own_redis: Callable[..., Any], tmp_path: Path) -> None:
    assert await look_into_keys(own_redis().url, tmp_path, SLICE) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_every_damage_to_a_key_is_told_in_words(own_redis: Callable[..., Any], tmp_path: Path, part: int) -> None:
    assert await look_into_keys(own_redis().url, tmp_path, 1, part, PARTS) == []


async def crawl_damaged_keys(skitter: Any, url: str, share: int, most: int | None = None) -> list[str]:
    redis, found = DamagedRedis(url), []
    try:
        with harm.site_of_pages() as site:
            await redis.fill(site.port, needs=False)
            cases = await redis.cases()
            for case in chance_of(6).sample(cases, most or len(cases) // share):
                for command in ("crawl", "worker"):
                    await redis.damage(case)
                    told = await asyncio.to_thread(harm.crawl_faults, skitter, url, site.port, command)
                    found += [f"{case.name}: {fault}" for fault in told]
    finally:
        await redis.server.close()
    return found


@pytest.mark.timeout(300)
async def test_a_crawl_of_a_damaged_redis_ends(skitter: Any, own_redis: Callable[..., Any]) -> None:
    assert await crawl_damaged_keys(skitter, own_redis().url, 1, CRAWLS) == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_crawls_of_a_damaged_redis_end(skitter: Any, own_redis: Callable[..., Any]) -> None:
    assert await crawl_damaged_keys(skitter, own_redis().url, CRAWL_SHARE) == []


# ---- samples, by name


def test_a_request_without_its_host_ends_the_crawl_and_is_named(skitter: Any, tmp_path: Path) -> None:
    with harm.site_of_pages() as site:
        file = DamagedFile(tmp_path, site.port)
        file.damage(Case("requests.host", _set("requests", "host", -1)))
        place = ("--frontier", file.url, "--job", harm.JOB)
        told = skitter.run("crawl", harm.seed_of(site.port), "-o", harm.TARGET, *place, code=3).stderr
    assert "error: job harmed is damaged: requests.host of number " in told
    assert "another worker is started" not in told


async def test_a_permit_that_is_no_text_ends_the_crawl_and_is_named(
    skitter: Any, own_redis: Callable[..., Any]
) -> None:
    redis = DamagedRedis(own_redis().url)
    with harm.site_of_pages() as site:
        await redis.fill(site.port)
        key = PREFIX + "1:permits"
        await redis.damage(KeyCase(key, [("LSET", key, 0, b"\xff\xfe")]))
        await redis.server.close()
        words = ("crawl", harm.seed_of(site.port), "-o", harm.TARGET, "--frontier", redis.url, "--job", harm.JOB)
        told = (await asyncio.to_thread(skitter.run, *words, code=3)).stderr
    assert f"error: job harmed is damaged: {key} at 0: " in told
    assert "another worker is started" not in told


def test_one_damaged_job_of_a_file_does_not_hide_the_others(skitter: Any, tmp_path: Path) -> None:
    file = DamagedFile(tmp_path)

    async def add() -> None:
        frontier = open_frontier(file.url, "whole")
        await frontier.begin(JobSpec(name="whole", spider=""))
        await frontier.close()

    asyncio.run(add())
    with closing(sqlite3.connect(file.path)) as connection, connection:
        connection.execute("UPDATE jobs SET record = x'c1' WHERE name = ?", (harm.JOB,))
    told = {one["job"]: one for one in skitter.records("jobs", "--frontier", file.url)}
    assert {job: one["state"] for job, one in told.items()} == {harm.JOB: "unreadable", "whole": "running"}
    assert "jobs.record of name harmed" in told[harm.JOB]["problem"]
    skitter.run("drop", "--frontier", file.url, "--job", harm.JOB)
    assert [one["job"] for one in skitter.records("jobs", "--frontier", file.url)] == ["whole"]


def test_a_schema_that_is_no_text_does_not_hide_the_other_files(skitter: Any) -> None:
    for job in ("broken", "whole"):
        asyncio.run(_begun(skitter.folder / ".skitter" / f"{job}.db", job))
    file = skitter.folder / ".skitter" / "broken.db"
    raw = file.read_bytes()
    place = raw.index(b"CREATE TABLE hosts") + len("CREATE ")
    file.write_bytes(raw[:place] + b"\xff" + raw[place + 1 :])
    told = {one["job"]: one for one in skitter.records("jobs")}
    assert {job: one["state"] for job, one in told.items()} == {"broken": "unreadable", "whole": "running"}
    for command in (("status",), ("drop",), ("crawl", "http://127.0.0.1:9/", "-q")):
        error = skitter.run(*command, "--job", "broken", code=3).stderr
        assert "error: not a database, or a damaged one: " in error


def test_a_column_that_is_not_there_is_named(skitter: Any) -> None:
    file = skitter.folder / ".skitter" / "j.db"
    asyncio.run(_begun(file, "j"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("ALTER TABLE requests RENAME COLUMN history TO story")
    for command in (("failed",), ("why", "http://127.0.0.1:9/")):
        assert (
            "error: job j is damaged: requests: there is no column history: "
            in skitter.run(*command, "--job", "j", code=3).stderr
        )


def test_jobs_lists_a_file_whose_name_no_terminal_can_show(skitter: Any) -> None:
    for name in (b"b\xffad.db", b"\x1b[31mred.db"):
        asyncio.run(_begun(Path(os.fsdecode(os.fsencode(skitter.folder / ".skitter") + b"/" + name)), "j"))
    assert len(skitter.records("jobs")) == 2
    told = skitter.run("jobs").stdout
    assert len(told.splitlines()) == 3
    assert "\x1b" not in told


async def _begun(file: Path, job: str) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    frontier = open_frontier(f"sqlite:{file}", job)
    await frontier.begin(JobSpec(name=job, spider=""))
    await frontier.add([])
    await frontier.close()


@pytest.mark.parametrize("number", range(3))
async def test_a_damaged_shard_is_named_and_all_shards_are_dropped(
    skitter: Any, own_redis: Callable[..., Any], number: int
) -> None:
    url = own_redis().url
    server = RawRedis(url)
    frontier = open_frontier(f"{url}?shards=3", harm.JOB)
    await frontier.begin(JobSpec(name=harm.JOB, spider="", settings=Settings().job_wide()))
    await frontier.report()
    await frontier.close()
    key = prefixes_of(harm.JOB, 3)[number] + "job"
    assert await server.command("EXISTS", key)
    await server.command("SET", key, b"\xc1")
    place = ("--frontier", url, "--job", harm.JOB)
    told = (await asyncio.to_thread(skitter.run, "status", *place, code=3)).stderr
    assert f"error: job {harm.JOB} is damaged: {key}: " in told
    await asyncio.to_thread(skitter.run, "drop", *place)
    assert await server.command("KEYS", f"skitter:{{{harm.JOB}:*") == []
    await server.close()


@pytest.mark.parametrize(
    "said",
    [
        "error: nothing here\nhint: run the same command with -v for the details",
        "Traceback (most recent call last):\n  File\nLookupError: 7\nerror: LookupError: 7",
    ],
)
def test_an_error_that_nobody_has_put_into_words_is_a_fault(said: str) -> None:
    assert harm.faults(harm.Said(("status", "-v"), 1, "", said), "")
    in_words = "Traceback (most recent call last):\n  File\nskitter.errors.FormatError: 7\nerror: jobs of harmed: 7"
    assert not harm.faults(harm.Said(("status", "-v"), 3, "", in_words), "jobs")
