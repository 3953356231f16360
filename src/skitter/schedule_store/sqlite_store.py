"""Schedules in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from skitter import private_files
from skitter.audit.entry import Draft
from skitter.audit.sqlite_table import append
from skitter.errors import FormatError, ScheduleStoreError
from skitter.policy.schedule_ticks import StoreTime
from skitter.schedule_store.contract import ABSENT, ROWS_KEPT, Row, Stored
from skitter.sqlite_driver import error_text

T = TypeVar("T")
APPLICATION_ID = 0x736B7363  # "sksc"
FORMAT = 1
BUSY_SECONDS = 10.0
"""Limit of the wait for a lock. A transaction takes milliseconds; a process that is suspended in one blocks others."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TABLES = (
    "CREATE TABLE documents (name TEXT PRIMARY KEY, version TEXT NOT NULL, data BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE history (written INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, at REAL NOT NULL,
                             data BLOB NOT NULL, UNIQUE (name, at))""",
)


class SqliteScheduleStore:
    """Schedules in a SQLite file. The connection has its own thread: the disk and other processes may block it."""

    def __init__(self, path: Path, *, create: bool = True, shared: bool = False) -> None:
        """Without ``create``, a missing file means no schedules, and reading does not create it.

        With ``shared``, the file may be a link or belong to another user, and keeps its mode.
        """
        self._path = path
        self._shared = shared
        self._create = create
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="skitter-schedules")
        self._connection: sqlite3.Connection | None = None
        self._boot = _boot_id()

    async def time(self) -> StoreTime:
        """Return the system time, and the time since boot as the steady clock."""
        # CLOCK_BOOTTIME is the same for all processes of a machine, and setting the system time does not change it.
        return StoreTime(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), self._boot)

    async def read(self, name: str) -> Stored | None:
        """Return a document, or None if it does not exist."""
        return await self._call(lambda database: _read(database, name), None)

    async def read_all(self) -> dict[str, Stored]:
        """Return all documents by name."""

        def read(database: sqlite3.Connection) -> dict[str, Stored]:
            found = database.execute("SELECT name, version, data FROM documents ORDER BY name")
            return {name: Stored(version, data) for name, version, data in found}

        return await self._call(read, {})

    async def write(
        self, name: str, version: str, new: Stored, rows: Sequence[Row] = (), entry: Draft | None = None
    ) -> bool:
        """Replace a document, and write its rows and audit entry, in one transaction."""

        def write(database: sqlite3.Connection) -> bool:
            found = _read(database, name)
            if (found.version if found is not None else ABSENT) != version:
                return False
            database.execute("REPLACE INTO documents VALUES (?, ?, ?)", (name, *new))
            for row in rows:
                database.execute(
                    "INSERT INTO history (name, at, data) VALUES (?, ?, ?)"
                    " ON CONFLICT (name, at) DO UPDATE SET data = excluded.data",
                    (name, *row),
                )
            if rows:
                database.execute(
                    "DELETE FROM history WHERE name = ? AND written <= (SELECT written FROM history WHERE name = ?"
                    " ORDER BY written DESC LIMIT 1 OFFSET ?)",
                    (name, name, ROWS_KEPT),
                )
            if entry is not None:
                append(database, entry, None)
            return True

        self._create = True
        return await self._call(write, False)

    async def remove(self, name: str, version: str, entry: Draft | None = None) -> bool:
        """Remove a document and its rows, and write an audit entry, in one transaction."""

        def remove(database: sqlite3.Connection) -> bool:
            found = _read(database, name)
            if found is None or found.version != version:
                return False
            database.execute("DELETE FROM documents WHERE name = ?", (name,))
            database.execute("DELETE FROM history WHERE name = ?", (name,))
            if entry is not None:
                append(database, entry, None)
            return True

        return await self._call(remove, False)

    async def rows(self, name: str, limit: int) -> list[bytes]:
        """Return the rows of a document with the latest times, latest first."""

        def read(database: sqlite3.Connection) -> list[bytes]:
            asked = "SELECT data FROM history WHERE name = ? ORDER BY at DESC LIMIT ?"
            return [data for (data,) in database.execute(asked, (name, limit))]

        return await self._call(read, [])

    def trail(self) -> None:
        """Return None: audit entries are written in the same transaction as the change."""

    async def close(self) -> None:
        """Close the connection and stop the thread."""

        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown()

    # ---- the file

    async def _call(self, step: Callable[[sqlite3.Connection], T], when_absent: T) -> T:
        """Run a step in a transaction in the thread; return ``when_absent`` if the file is missing and not created."""

        def run() -> T:
            if self._connection is None and not self._create and not self._path.exists():
                return when_absent
            try:
                if self._connection is None:
                    self._connection = self._open()
                return _transact(self._connection, step)
            except private_files.NotPrivateError as error:
                raise ScheduleStoreError(str(error), hint="give another --frontier sqlite:PATH") from error
            except (sqlite3.Error, OSError) as error:
                raise ScheduleStoreError(
                    f"the schedules file cannot be used: {self._path}: {error_text(error, self._path.parent)}",
                    hint="check its folder, its owner and the free disk space",
                ) from error

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _open(self) -> sqlite3.Connection:
        if self._shared:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        else:
            private_files.make_folder(self._path.parent)
            private_files.make_file(self._path)
        database = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            # A stored decision must survive a crash of the machine. No write-ahead log: that file would have to be
            # private too, and decisions are few.
            database.execute("PRAGMA synchronous=FULL")
            _transact(database, self._check_format)
        except BaseException:
            database.close()
            raise
        return database

    def _check_format(self, database: sqlite3.Connection) -> None:
        with closing(database.execute("SELECT count(*) FROM sqlite_master")) as found:
            is_new = found.fetchone()[0] == 0
        if is_new:
            for statement in (
                *_TABLES,
                f"PRAGMA application_id={APPLICATION_ID}",
                f"PRAGMA user_version={FORMAT}",
            ):
                database.execute(statement)
            return
        (application_id,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if application_id != APPLICATION_ID:
            raise FormatError(f"not a schedules file: {self._path}", hint="move it away, or give another --frontier")
        if version != FORMAT:
            age = "a newer" if version > FORMAT else "an older"
            raise FormatError(
                f"written by {age} skitter (format {version}, this one reads {FORMAT}): {self._path}",
                hint="use the skitter that wrote it, or give another --frontier",
            )


def _transact(database: sqlite3.Connection, step: Callable[[sqlite3.Connection], T]) -> T:
    # IMMEDIATE takes the write lock before the version is read, so that nobody else writes in between.
    database.execute("BEGIN IMMEDIATE")
    try:
        answer = step(database)
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
    return answer


def _read(database: sqlite3.Connection, name: str) -> Stored | None:
    found = database.execute("SELECT version, data FROM documents WHERE name = ?", (name,)).fetchone()
    return Stored(*found) if found is not None else None


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "this machine"
