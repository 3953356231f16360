"""The file of a SQLite coordinator: its tables, its transactions in a thread, and the errors of its driver."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from skitter import private_files
from skitter.errors import ClusterError, ClusterUnavailableError
from skitter.sqlite_driver import error_text, use_wal

APPLICATION_ID = 0x736B636C  # "skcl"
FORMAT = 1
BUSY_SECONDS = 5.0
"""How long a transaction waits for those of others, each of which takes a moment."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SCHEMA = """
-- One row: the last token or version that was given out, and the boot that all times below belong to.
CREATE TABLE coordinator (id INTEGER PRIMARY KEY CHECK (id = 1), counter INTEGER NOT NULL, boot TEXT NOT NULL);
INSERT INTO coordinator VALUES (1, 0, '');
-- ends_at: seconds since the boot. process: NODE:PID:STARTED of the holder.
CREATE TABLE lock (name TEXT PRIMARY KEY, owner TEXT NOT NULL, process TEXT NOT NULL, token INTEGER NOT NULL,
    ends_at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE member (team TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, process TEXT NOT NULL,
    data BLOB NOT NULL, ends_at REAL NOT NULL, PRIMARY KEY (team, name)) WITHOUT ROWID;
-- due_at: the theoretical time of the next event (gcra), in seconds since the boot.
CREATE TABLE rate (key TEXT PRIMARY KEY, due_at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (path TEXT PRIMARY KEY, parent TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
    version INTEGER NOT NULL);
CREATE INDEX entry_parent ON entry (parent, name);
"""
T = TypeVar("T")


class SqliteFile:
    """A file that the processes of one machine share. Steps run one after another in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="skitter-cluster")
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False
        self._inode: tuple[int, int] | None = None

    async def open(self) -> None:
        await self._in_thread(self._open)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._in_thread(self._close)
            self._thread.shutdown(wait=False)

    async def run(self, step: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        """Run a step in a transaction that excludes all others. ``durable``: it outlives the machine's crash."""
        return await self._in_thread(lambda: self._transaction(step, durable=durable))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        # A cancelled call goes on in the thread, before those that follow: a release comes after its acquire.
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _transaction(self, step: Callable[[sqlite3.Connection], T], *, durable: bool) -> T:
        with self._errors():
            if self._connection is None or _inode(self.path) != self._inode:
                raise ClusterError(
                    f"the file of the coordinator was deleted or replaced: {self.path}", hint="connect again"
                )
            # Holds do not outlive a boot, and tokens grow with the clock: only keys need the disk at once.
            self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            with _exclusive(self._connection):
                return step(self._connection)

    def _open(self) -> None:
        with self._errors():
            private_files.make_folder(self.path.parent)
            private_files.make_file(self.path)
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            use_wal(self._connection, BUSY_SECONDS)
            self._inode = _inode(self.path)
            with _exclusive(self._connection):
                self._check_format(self._connection)
                self._begin_boot(self._connection)

    def _check_format(self, connection: sqlite3.Connection) -> None:
        ((application,),) = connection.execute("PRAGMA application_id")
        ((found,),) = connection.execute("PRAGMA user_version")
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
        if not tables and not application:
            # Not executescript, which would end the transaction.
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
        elif application != APPLICATION_ID:
            raise ClusterError(f"a database, but not of a coordinator: {self.path}", hint="give it its own file")
        elif found != FORMAT:
            raise ClusterError(
                f"written by another version of skitter: {self.path}: format {found}, this one reads {FORMAT}",
                hint="use that version, or delete the file while no process uses it",
            )

    def _begin_boot(self, connection: sqlite3.Connection) -> None:
        """Forget what was held before the machine was started again: its clock began anew, and the holders are gone."""
        boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"
        ((known,),) = connection.execute("SELECT boot FROM coordinator")
        if boot != known:
            for table in ("lock", "member", "rate"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  names of tables, from the line above
            connection.execute("UPDATE coordinator SET boot = ?", (boot,))

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._errors():
                connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise ClusterUnavailableError(
                    f"the coordinator is busy: {self.path}: {error}",
                    hint="is a process suspended inside a transaction?",
                ) from error
            raise ClusterError(
                f"the coordinator cannot be used: {self.path}: {error_text(error, self.path.parent)}",
                hint="check the disk",
            ) from error
        except OSError as error:
            raise ClusterError(
                f"the coordinator cannot be used: {self.path}: {error_text(error, self.path.parent)}",
                hint="check path and owner",
            ) from error


@contextmanager
def _exclusive(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
