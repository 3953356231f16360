"""A file keeps the coordinator contract for the processes of one machine."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from pathlib import Path

import pytest

from skitter.cluster import Put, SessionState, sqlite_file
from skitter.cluster.contract import Coordinator
from skitter.cluster.sqlite_coordinator import SqliteCoordinator
from skitter.errors import ClusterError, ClusterUnavailableError
from skitter.testing import CoordinatorContract, CoordinatorPlace


class SqlitePlace(CoordinatorPlace):
    """A file of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cluster.db"
        self.url = f"sqlite:{self.path}"

    def coordinator(self, session_seconds: float) -> Coordinator:
        return SqliteCoordinator(self.url, session_seconds=session_seconds)


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


class TestSqlite(CoordinatorContract): ...


async def test_a_file_that_is_deleted_is_noticed_and_tokens_go_on_growing(place: SqlitePlace) -> None:
    async with place.cluster() as cluster:
        held = await cluster.lock("lock", lifetime_seconds=60).acquire()
        for path in place.path.parent.glob("cluster.db*"):
            path.unlink()
        async with place.cluster() as other:
            with pytest.raises(ClusterError, match="deleted or replaced"):
                await held.extend()
            async with other.lock("lock", timeout_seconds=60.0) as second:
                assert held.token is not None
                assert second.token is not None
                assert second.token > held.token


async def test_what_was_held_before_a_reboot_is_free(place: SqlitePlace) -> None:
    async with place.opened() as before:
        first = await before.locks.acquire("lock", "A", lifetime_seconds=1e9, wait_seconds=0)
        assert before.members is not None
        assert before.keys is not None
        await before.members.join("group", "name", b"", lifetime_seconds=1e9)
        await before.keys.change([Put("key", b"kept")])
    with sqlite3.connect(place.path) as file:
        file.execute("UPDATE coordinator SET boot = 'an earlier one'")
    file.close()
    async with place.cluster() as cluster:
        async with cluster.lock("lock", timeout_seconds=60.0) as held:
            assert first is not None
            assert held.token is not None
            assert first.token is not None
            assert held.token > first.token
        assert await cluster.members("group") == {}
        entry = await cluster.read("key")
        assert entry is not None
        assert entry.value == b"kept"


async def test_members_of_processes_that_are_dead_are_gone(place: SqlitePlace) -> None:
    async with place.cluster() as cluster:
        await cluster.join("group", "living")
        with sqlite3.connect(place.path) as file:
            file.execute(
                "INSERT INTO member SELECT team, 'dead', 'x', ?, data, ends_at + 1000 FROM member",
                (f"{socket.gethostname()}:999999999:1",),
            )
        file.close()
        assert await cluster.members("group") == {"living": b""}
        # And its name is free.
        await cluster.join("group", "dead")
        assert set(await cluster.members("group")) == {"living", "dead"}


async def test_a_file_of_something_else_is_refused_and_stays_as_it_is(place: SqlitePlace) -> None:
    with sqlite3.connect(place.path) as file:
        file.execute("CREATE TABLE books (title)")
    file.close()
    with pytest.raises(ClusterError, match="not of a coordinator"):
        async with place.cluster():
            pass
    place.path.write_bytes(b"no database at all, " * 100)
    with pytest.raises(ClusterError, match="cannot be used"):
        async with place.cluster():
            pass
    assert place.path.read_bytes().startswith(b"no database")


async def test_only_its_owner_may_read_the_file(place: SqlitePlace) -> None:
    async with place.cluster():
        assert place.path.stat().st_mode & 0o777 == 0o600


async def test_a_process_that_is_stopped_in_a_transaction_suspends_the_others(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.2)
    async with place.cluster(session_seconds=3.0) as cluster:
        states = cluster.states()
        assert await anext(states) == SessionState.CONNECTED
        other = sqlite3.connect(place.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ClusterUnavailableError, match="busy"):
            await cluster.read("key")
        async with asyncio.timeout(60):
            assert await anext(states) == SessionState.SUSPENDED
            other.execute("ROLLBACK")
            while await anext(states) != SessionState.CONNECTED:
                pass
        other.close()
        assert await cluster.read("key") is None
