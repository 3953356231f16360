"""The SQLite coordinator (``sqlite:PATH``): for the processes of one machine, which share a file and a clock."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from sqlite3 import Connection

from skitter.cluster.clock import now_seconds
from skitter.cluster.conflicts import conflict_error, conflict_of, parents_of
from skitter.cluster.contract import Check, Delete, Entry, Hold, Member, Put, Snapshot, Step
from skitter.cluster.gcra import next_event
from skitter.cluster.process_identity import is_dead, worker_id
from skitter.cluster.sqlite_file import SqliteFile
from skitter.errors import UsageError

POLL_SECONDS = 0.1
"""Between two looks of one who waits for a change."""


class SqliteCoordinator:
    """A coordinator in a file. What a process held that is certainly dead is free at once."""

    def __init__(self, url: str, *, session_seconds: float) -> None:
        path = url.partition(":")[2]
        if not path or path.startswith("//") or "?" in path:
            raise UsageError(
                f"not the path of a file: {url}", hint="as in sqlite:cluster.db or sqlite:/var/lib/x/cluster.db"
            )
        self.address = url
        self.session_seconds = session_seconds
        self._file = SqliteFile(Path(path))
        self.locks = SqliteLocks(self._file)
        self.members = SqliteMembers(self._file)
        self.keys = SqliteKeys(self._file)
        self.rates = SqliteRates(self._file)

    async def open(self) -> None:
        await self._file.open()

    async def close(self) -> None:
        await self._file.close()

    async def ping(self) -> None:
        await self._file.run(lambda connection: connection.execute("SELECT counter FROM coordinator").fetchone())

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        """A file has no connection that could break."""


class SqliteLocks:
    """Rows of the table ``lock``. The counter of tokens is one for all locks, and stays when they go."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def acquire(
        self, name: str, owner: str, *, lifetime_seconds: float, wait_seconds: float | None
    ) -> Hold | None:
        del wait_seconds  # there is no queue
        process = worker_id()

        def step(connection: Connection) -> Hold | None:
            now = now_seconds()
            row = connection.execute(
                "SELECT owner, process, token, ends_at FROM lock WHERE name = ?", (name,)
            ).fetchone()
            token = None
            if row is not None:
                holder, holders_process, held_token, ends_at = row
                if holder == owner and ends_at > now:
                    token = held_token
                elif ends_at > now and not is_dead(holders_process):
                    return None
            token = _next_number(connection) if token is None else token
            connection.execute(
                "INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?)",
                (name, owner, process, token, now + lifetime_seconds),
            )
            return Hold(token, lifetime_seconds)

        return await self._file.run(step)

    async def renew(self, name: str, owner: str, *, lifetime_seconds: float) -> Hold | None:
        def step(connection: Connection) -> Hold | None:
            now = now_seconds()
            row = connection.execute(
                "UPDATE lock SET ends_at = ? WHERE name = ? AND owner = ? AND ends_at > ? RETURNING token",
                (now + lifetime_seconds, name, owner, now),
            ).fetchone()
            return None if row is None else Hold(row[0], lifetime_seconds)

        return await self._file.run(step)

    async def release(self, name: str, owner: str) -> bool:
        def step(connection: Connection) -> bool:
            deleted = connection.execute(
                "DELETE FROM lock WHERE name = ? AND owner = ? RETURNING ends_at", (name, owner)
            ).fetchone()
            return deleted is not None and bool(deleted[0] > now_seconds())

        return await self._file.run(step)


class SqliteMembers:
    """Rows of the table ``member``."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._owner = secrets.token_hex(8)

    async def join(self, group: str, member: str, data: bytes, *, lifetime_seconds: float) -> float | None:
        process = worker_id()

        def step(connection: Connection) -> float | None:
            now = now_seconds()
            row = connection.execute(
                "SELECT owner, process, ends_at FROM member WHERE team = ? AND name = ?", (group, member)
            ).fetchone()
            if row is not None and row[0] != self._owner and row[2] > now and not is_dead(row[1]):
                return None
            connection.execute(
                "INSERT OR REPLACE INTO member VALUES (?, ?, ?, ?, ?, ?)",
                (group, member, self._owner, process, data, now + lifetime_seconds),
            )
            return lifetime_seconds

        return await self._file.run(step)

    async def leave(self, group: str, member: str) -> None:
        def step(connection: Connection) -> None:
            connection.execute(
                "DELETE FROM member WHERE team = ? AND name = ? AND owner = ?", (group, member, self._owner)
            )

        await self._file.run(step)

    async def present(self, group: str) -> list[Member]:
        def step(connection: Connection) -> list[Member]:
            now = now_seconds()
            connection.execute("DELETE FROM member WHERE team = ? AND ends_at <= ?", (group, now))
            rows = connection.execute(
                "SELECT name, data, process FROM member WHERE team = ? ORDER BY name", (group,)
            ).fetchall()
            return [Member(name, data) for name, data, process in rows if not is_dead(process)]

        return await self._file.run(step)

    async def wait_for_change(self, group: str, known: Sequence[Member], *, wait_seconds: float) -> None:
        del group, known  # the caller reads again
        await asyncio.sleep(min(POLL_SECONDS, wait_seconds))


class SqliteKeys:
    """Rows of the table ``entry``. Versions come from the counter of the tokens: none is ever used again."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def snapshot(self, path: str) -> Snapshot:
        def step(connection: Connection) -> Snapshot:
            row = connection.execute("SELECT value, version FROM entry WHERE path = ?", (path,)).fetchone()
            children = connection.execute("SELECT name FROM entry WHERE parent = ? ORDER BY name", (path,)).fetchall()
            return Snapshot(Entry(path, *row) if row is not None else None, tuple(name for (name,) in children))

        return await self._file.run(step)

    async def change(self, steps: Sequence[Step]) -> list[int]:
        def step(connection: Connection) -> list[int]:
            return [_apply(connection, one) for one in steps]

        return await self._file.run(step, durable=True)

    async def delete_tree(self, path: str) -> bool:
        def step(connection: Connection) -> bool:
            if not path:
                return connection.execute("DELETE FROM entry").rowcount > 0
            # From the slash to the character behind it: all paths that begin with "path/".
            below = "DELETE FROM entry WHERE path = ? OR (path > ? AND path < ?)"
            return connection.execute(below, (path, f"{path}/", f"{path}0")).rowcount > 0

        return await self._file.run(step, durable=True)

    async def wait_for_change(self, path: str, known: Snapshot, *, wait_seconds: float) -> None:
        del path, known  # the caller reads again
        await asyncio.sleep(min(POLL_SECONDS, wait_seconds))


class SqliteRates:
    """Rows of the table ``rate``."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def reserve(self, key: str, *, per_second: float, burst: int, wait_seconds: float | None) -> float | None:
        def step(connection: Connection) -> float | None:
            now = now_seconds()
            row = connection.execute("SELECT due_at FROM rate WHERE key = ?", (key,)).fetchone()
            delay, due_at = next_event(
                row[0] if row is not None else None, now, per_second=per_second, burst=burst, wait_seconds=wait_seconds
            )
            if delay is not None:
                # What lies in the past says nothing any more.
                connection.execute("DELETE FROM rate WHERE due_at <= ?", (now,))
                connection.execute("INSERT OR REPLACE INTO rate VALUES (?, ?)", (key, due_at))
            return delay

        return await self._file.run(step)


def _apply(connection: Connection, step: Step) -> int:
    row = connection.execute("SELECT version FROM entry WHERE path = ?", (step.path,)).fetchone()
    version = row[0] if row is not None else 0
    children = connection.execute("SELECT 1 FROM entry WHERE parent = ? LIMIT 1", (step.path,)).fetchone()
    conflict = conflict_of(step, version, has_children=children is not None)
    if conflict is not None:
        raise conflict_error(step.path, conflict)
    match step:
        case Check():
            return version
        case Delete():
            connection.execute("DELETE FROM entry WHERE path = ?", (step.path,))
            return 0
        case Put():
            for parent in parents_of(step.path):
                _write(connection, "INSERT OR IGNORE", parent, b"")
            return _write(connection, "INSERT OR REPLACE", step.path, step.value)


def _write(connection: Connection, insert: str, path: str, value: bytes) -> int:
    version = _next_number(connection)
    parent, _, name = path.rpartition("/")
    connection.execute(f"{insert} INTO entry VALUES (?, ?, ?, ?, ?)", (path, parent, name, value, version))
    return version


def _next_number(connection: Connection) -> int:
    """The next token or version: greater than all before, also those of a file that was deleted."""
    ((number,),) = connection.execute(
        "UPDATE coordinator SET counter = max(counter + 1, ?) RETURNING counter", (int(time.time() * 1_000_000),)
    )
    return int(number)
