"""Every column of a job's tables and every key of a job in Redis, damaged in turn, and every command run on it.

No command may answer with a traceback or a raw error of Python, SQLite or Redis; the error says which job it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rig import damaged_job as harm

from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.address import parse_address
from skitter.frontier.redis.jobs import JOBS_KEY, prefix_of
from skitter.frontier.redis.server import RedisServer
from skitter.frontier.sqlite import sqlite_frontier

PORT = 9
"""No command but crawl fetches anything."""
SLICE = 40
"""Of so many cases `make test` takes one."""
TABLES = "jobs requests hosts addresses parked robots permits holds workers cards staged outbox sinks".split()


class Case(NamedTuple):
    name: str
    change: Callable[[sqlite3.Connection], object]


def _update(table: str, column: str, value: object, *, one: bool) -> Callable[[sqlite3.Connection], object]:
    where = f"rowid = (SELECT min(rowid) FROM {table})" if one else "1"
    return lambda connection: connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}", (value,))


def _text(value: bytes) -> Callable[[str, str], Callable[[sqlite3.Connection], object]]:
    return lambda table, column: (
        lambda connection: connection.execute(f"UPDATE OR IGNORE {table} SET {column} = CAST(? AS TEXT)", (value,))
    )


def cases_of(table: str, file: Path) -> Iterator[Case]:
    with closing(sqlite3.connect(file)) as connection:
        connection.text_factory = bytes
        columns = [
            (name.decode(), kind.decode()) for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")
        ]
        for column, kind in columns:
            found = connection.execute(f"SELECT {column} FROM {table}").fetchone()
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
                values += [(how, value) for how, value in harm.bad_bytes(found[0])]
                values += [(how, value) for how, value in harm.bad_fields(found[0])]
            for how, value in values:
                yield Case(f"{table}.{column}: {how}", _update(table, column, value, one=False))
            yield Case(f"{table}.{column}: no UTF-8", _text(b"\xff\xfe")(table, column))
        yield Case(f"{table}: no rows", lambda connection: connection.execute(f"DELETE FROM {table}"))
        yield Case(f"{table}: no table", lambda connection: connection.execute(f"DROP TABLE {table}"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a job that is not damaged."""
    path = tmp_path_factory.mktemp("whole") / "whole.db"

    async def make() -> None:
        frontier = sqlite_frontier(path, harm.JOB)
        try:
            await harm.fill(frontier, PORT)
        finally:
            await frontier.close()

    asyncio.run(make())
    return path.read_bytes()


def _look(whole: bytes, table: str, folder: Path, share: int) -> list[str]:
    file = folder / "harmed.db"
    file.write_bytes(whole)
    cases = list(cases_of(table, file))
    chosen = random.Random(table).sample(cases, -(-len(cases) // share))
    return [f"{case.name}: {fault}" for case in chosen for fault in _faults(whole, case, file)]


def _faults(whole: bytes, case: Case, file: Path) -> Iterator[str]:
    def damage() -> None:
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        file.write_bytes(whole)
        with closing(sqlite3.connect(file)) as connection, contextlib.suppress(sqlite3.IntegrityError), connection:
            # What SQLite itself refuses, such as a text for a row's number, cannot lie there.
            case.change(connection)

    damage()
    url = f"sqlite:{file}"
    for words in [*harm.commands(url, PORT), ("drop", "--frontier", url, "--job", harm.JOB)]:
        for fault in harm.faults(harm.run(words), case.name.partition(":")[0]):
            yield f"{' '.join(words[:2])}: {fault}"
    damage()
    try:
        frontier = sqlite_frontier(file, harm.JOB)
    except harm.SkitterError:
        return
    yield from asyncio.run(harm.work(frontier))


@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_table_is_told_in_words(table: str, whole: bytes, tmp_path: Path) -> None:
    with harm.in_folder(tmp_path):
        assert _look(whole, table, tmp_path, SLICE) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("table", TABLES)
def test_every_damage_to_a_table_is_told_in_words(table: str, whole: bytes, tmp_path: Path) -> None:
    with harm.in_folder(tmp_path):
        assert _look(whole, table, tmp_path, 1) == []


# ---- Redis


async def _snapshot(server: RedisServer) -> dict[bytes, bytes]:
    keys = await server.command("KEYS", prefix_of(harm.JOB) + "*")
    return {key: await server.command("DUMP", key) for key in sorted(keys)}


async def _restore(server: RedisServer, snapshot: dict[bytes, bytes]) -> None:
    await server.command("FLUSHALL")
    for key, dump in snapshot.items():
        await server.command("RESTORE", key, 0, dump)
    await server.command("SADD", JOBS_KEY, harm.JOB)


Change = list[tuple[Any, ...]]
"""Commands that damage the store."""


async def redis_cases(server: RedisServer, snapshot: dict[bytes, bytes]) -> list[tuple[str, Change]]:
    cases: list[tuple[str, Change]] = []
    for key in snapshot:
        name = key.decode(errors="replace")
        kind = (await server.command("TYPE", key)).decode()
        cases.append((f"{name}: deleted", [("DEL", key)]))
        other = ("RPUSH", key, b"\xff") if kind != "list" else ("SET", key, b"\xff")
        cases.append((f"{name}: of another type", [("DEL", key), other]))
        if kind == "string":
            good = await server.command("GET", key)
            values = [*harm.bad_bytes(good), *harm.bad_fields(good)]
            cases += [(f"{name}: {how}", [("SET", key, value)]) for how, value in values]
        elif kind == "hash":
            fields = await server.command("HGETALL", key)
            field, good = fields[0], fields[1]
            every = fields[::2]
            values = [*harm.bad_bytes(good), *harm.bad_fields(good), *_bad_numbers()]
            cases += [(f"{name}: {how}", [("HSET", key, one, value) for one in every]) for how, value in values]
            cases.append((f"{name}: a field of bad UTF-8", [("HDEL", key, field), ("HSET", key, b"\xff\xfe", good)]))
            cases.append((f"{name}: a field left out", [("HDEL", key, field)]))
        elif kind == "list":
            good, size = await server.command("LINDEX", key, 0), await server.command("LLEN", key)
            values = harm.bad_bytes(good)
            cases += [(f"{name}: {how}", [("LSET", key, n, value) for n in range(size)]) for how, value in values]
        elif kind == "set":
            members = await server.command("SMEMBERS", key)
            cases += [
                (f"{name}: {how}", [("SREM", key, *members), ("SADD", key, value)])
                for how, value in harm.bad_bytes(members[0])
            ]
        else:
            members = await server.command("ZRANGE", key, 0, -1)
            for how, value in harm.bad_bytes(members[0]):
                cases.append((f"{name}: {how}", [("ZREM", key, *members), ("ZADD", key, 1, value)]))
            for score in ("-1", "1e300", "inf", "-inf", "0.5"):
                cases.append((f"{name}: score {score}", [("ZADD", key, score, member) for member in members]))
    return cases


def _bad_numbers() -> list[tuple[str, bytes]]:
    return [(f"the number {number.decode()}", number) for number in (b"-1", b"abc", b"1e300", b"9" * 30)]


async def _redis_faults(server: RedisServer, snapshot: dict[bytes, bytes], case: tuple[str, Change]) -> list[str]:
    name, change = case
    url, faults = str(server.address), []

    async def damage() -> None:
        await _restore(server, snapshot)
        for words in change:
            await server.command(*words)

    await damage()
    for words in [*harm.commands(url, PORT), ("drop", "--frontier", url, "--job", harm.JOB)]:
        said = await asyncio.to_thread(harm.run, words)
        faults += [f"{name}: {' '.join(words[:2])}: {fault}" for fault in harm.faults(said, name.split(": ")[0])]
    if not said.code and (left := await server.command("KEYS", prefix_of(harm.JOB) + "*")):
        faults.append(f"{name}: not dropped: {left}")
    await damage()
    faults += [f"{name}: {fault}" for fault in await harm.work(redis_frontier(url, harm.JOB))]
    return faults


async def _look_into_redis(own_redis: Callable[..., Any], folder: Path, share: int, part: int, parts: int) -> list[str]:
    server = RedisServer(parse_address(own_redis().url))
    faults: list[str] = []
    with harm.in_folder(folder):
        try:
            frontier = redis_frontier(str(server.address), harm.JOB)
            await harm.fill(frontier, PORT)
            await frontier.close()
            snapshot = await _snapshot(server)
            cases = await redis_cases(server, snapshot)
            for case in random.Random(part).sample(cases[part::parts], -(-len(cases) // share // parts)):
                faults += await _redis_faults(server, snapshot, case)
        finally:
            await server.close()
    return faults


async def test_a_damaged_key_is_told_in_words(own_redis: Callable[..., Any], tmp_path: Path) -> None:
    assert await _look_into_redis(own_redis, tmp_path, SLICE, 0, 1) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
async def test_every_damage_to_a_key_is_told_in_words(own_redis: Callable[..., Any], tmp_path: Path, part: int) -> None:
    assert await _look_into_redis(own_redis, tmp_path, 1, part, 8) == []
