"""Opening the file, its format, its transactions, its thread, and the errors of its driver."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from skitter import private_files
from skitter.audit import sqlite_table
from skitter.audit.entry import Draft
from skitter.concurrency import wait_shielded
from skitter.errors import FormatError, FrontierError, VanishedError
from skitter.frontier.clock import StoreClock
from skitter.frontier.damage_errors import UNREADABLE, damaged
from skitter.frontier.sqlite.consistency import ConsistencyTable
from skitter.frontier.sqlite.damage_search import find_damage
from skitter.frontier.tables import Tables
from skitter.frontier.transactional import TransactionalFrontier
from skitter.model.store_capacity import StoreCapacity
from skitter.sqlite_driver import disk_errno, use_wal

T = TypeVar("T")

APPLICATION_ID = 0x736B6974  # "skit"
FORMAT = 7
BUSY_SECONDS = 120.0
"""A worker that is stopped inside a transaction locks the others out; its supervisor ends it well before this."""
_PRAGMAS = (
    # FULL: a commit that returned is on disk, whatever happens to the machine (promises 1 and 8).
    "PRAGMA synchronous=FULL",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-24000",
    # Some systems build SQLite such that it fills with zeros what is deleted. A lease and an item are, after each page.
    "PRAGMA secure_delete=OFF",
)
LOG_PAGES = range(4_000, 64_000)
"""How long the log may grow before it is worked into the file: as long as the file, within these bounds (16 to 256 MB).
The random pages of the seen index are then written to a large file once, and not many times."""
LOCK_POLL_SECONDS = 0.001
"""Between two tries of a brief transaction to begin while another process has one, which takes some milliseconds.

SQLite's own wait sleeps up to 100 ms between two looks. And whoever waited in a thread goes on there, with the file
locked: the loop gives the interpreter back to it at its next pause only, for each statement anew."""
CROWDED_TRANSACTIONS = 64
"""So many after one that had to wait for another process, this one asks before it takes a batch together. To ask costs
0.02 ms, and an idle file is not asked."""
LOOK_EVERY = 256
"""Transactions, between two looks at the size of the file and at its format."""
LOOK_SECONDS = 1.0
"""Between two looks of a process that writes at whether the file is still there. Whoever reads looks each time."""
_BY_CONTENT = ("", "SQLITE_ERROR", "SQLITE_MISMATCH", "SQLITE_TOOBIG")
"""Errors, besides those of constraints, that statements as ours meet only where tables or values are not as we leave
them. Without a name: a text that is no UTF-8."""


def sqlite_frontier(
    path: Path, job_name: str, *, create: bool = True, clock: StoreClock | None = None, shared: bool = False
) -> TransactionalFrontier:
    """The frontier of one job in a file. Without ``create`` the file must exist.

    ``shared``: it may be a link or belong to another user, and keeps the mode that it has.
    """
    if not create and not (path.exists() if shared else os.path.lexists(path)):
        raise missing_file(path)
    return TransactionalFrontier(SqliteStore(path, job_name, clock or StoreClock(), shared=shared), job_name)


def missing_file(path: Path) -> FrontierError:
    return FrontierError(
        f"no frontier at this path: {path}", hint="check --frontier and --job, or start with: skitter crawl"
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _schema() -> list[str]:
    """One statement each: ``executescript`` would end the transaction that makes the tables only once."""
    lines = Path(__file__).with_name("schema.sql").read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).split(";")


class SqliteTables(ConsistencyTable):
    """``Tables`` as SQL: all tables of one job."""


class SqliteStore:
    """One connection, and a thread of its own for what may wait: for the disk, or for another process's transaction.

    What lies between the beginning and the end of a brief transaction is done in the loop. It is Python for the most
    part, and a second thread would take the interpreter's lock from the loop and give it back for every statement.
    """

    def __init__(self, path: Path, job_name: str, clock: StoreClock, *, shared: bool = False) -> None:
        self._path = path
        self._shared = shared
        self._name = job_name
        self._closed = False
        self._is_open = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="skitter-sqlite")
        with self._errors():
            self._connection = self._open()
        self._is_open = True
        self._tables = SqliteTables(self._connection, job_name, clock)
        self._transactions = 0
        self._turn = asyncio.Lock()
        self._in_work: asyncio.Future[Any] | None = None
        """What the thread was given last: whoever waited for it may be gone."""
        self._looked_at = 0.0
        self._paths = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
        self._files: list[tuple[int, int] | None] = []
        """Device and inode of the file and of its log, as this connection has them open."""
        self._uses_open_file = False
        self._busy_timeout = BUSY_SECONDS
        self._crowded_until = 0
        """Until so many transactions were tried, another process may well have one."""

    def _open(self) -> sqlite3.Connection:
        self._make_private()
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            self._check_format(connection)
            use_wal(connection, BUSY_SECONDS)
            for pragma in _PRAGMAS:
                connection.execute(pragma)
            connection.execute("PRAGMA user_version").fetchone()  # the first to read makes the log, and then
            self._make_private()  # nobody else can have made it
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_private(self) -> None:
        """What SQLite puts beside the file has the mode of the file, unless somebody else was there first."""
        if self._shared:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return
        private_files.make_folder(self._path.parent)
        private_files.make_file(self._path)
        for suffix in ("-wal", "-shm", "-journal"):
            private_files.close(Path(f"{self._path}{suffix}"))

    def _check_format(self, connection: sqlite3.Connection) -> None:
        # Immediate, so that two processes that start together make the tables once.
        connection.execute("BEGIN IMMEDIATE")
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty:
            for statement in _schema():
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
        elif application_id != APPLICATION_ID:
            raise FormatError(
                f"a database, but not a skitter frontier: {self._path}", hint="give another --frontier sqlite:PATH"
            )
        else:
            self._check_version(version)
        for statement in _schema():
            if "IF NOT EXISTS" in statement:
                connection.execute(statement)
        connection.execute("COMMIT")

    def _check_version(self, version: int) -> None:
        if version != FORMAT:
            age = "a newer" if version > FORMAT else "an older"
            raise FormatError(
                f"written by {age} skitter (format {version}, this one reads {FORMAT}): {self._path}",
                hint="use the skitter that wrote it, or give another --frontier sqlite:PATH",
            )

    def _transact(self, call: Callable[[Tables], T], *, write: bool = True) -> T:
        """Begin a transaction, make the call in it, and end it."""
        with self._errors():
            self._set_busy_timeout(BUSY_SECONDS)
            self._begin(write=write)
            result = self._call(call, write=write)
            self._end("COMMIT" if write else "ROLLBACK")
        return result

    def _call(self, call: Callable[[Tables], T], *, write: bool = True) -> T:
        """Make the call in the transaction that has begun; after an error that is rolled back."""
        try:
            self._look(at_once=not write)
            return call(self._tables)
        except BaseException as error:
            self._abandon()
            # A query that was not read to its end outlives the transaction, in a frame that the traceback keeps: the
            # connection would see an old state of the file, and begin nothing once another process has written.
            traceback.clear_frames(error.__traceback__)
            if isinstance(error, UNREADABLE):
                raise self._damaged(error) from error
            raise

    def _begin(self, *, write: bool = True) -> None:
        if self._transactions % LOOK_EVERY == 0:
            self._set_log_length()
            # A newer skitter may have brought the file into its format while it is open here.
            self._check_version(self._connection.execute("PRAGMA user_version").fetchone()[0])
        self._transactions += write
        self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def _look(self, *, at_once: bool) -> None:
        """VanishedError when the path leads to another file, or to none: what is written here is lost to all others.

        SQLite itself goes on with the files that it has open. The transaction has begun, so they are all there.
        """
        now = time.monotonic()
        if self._uses_open_file or (not at_once and now - self._looked_at < LOOK_SECONDS):
            return
        self._looked_at = now
        found = [_identity(path) for path in self._paths]
        self._files = self._files or found
        for path, known, there in zip(self._paths, self._files, found, strict=True):
            if there != known or there is None:
                raise VanishedError(
                    f"the database of the job was deleted or replaced while it was open: {path}",
                    hint="the job existed in that file only; run the same crawl command to start over",
                )

    def use_open_file(self) -> bool:
        self._uses_open_file = True
        return True

    def append_to_trail(self, draft: Draft) -> int:
        """Append an entry to the audit trail, in the transaction that runs."""
        return sqlite_table.append(self._connection, draft, sqlite_table.archive_of(self._path))

    async def _begin_when_free(self) -> None:
        """Begin as soon as no other process has a transaction; the loop goes on meanwhile, and locks nobody out."""
        self._set_busy_timeout(0.0)
        deadline = 0.0
        while True:
            try:
                return self._begin()
            except sqlite3.OperationalError as error:
                deadline = deadline or time.monotonic() + BUSY_SECONDS
                self._crowded_until = self._transactions + CROWDED_TRANSACTIONS
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(LOCK_POLL_SECONDS)

    def _set_busy_timeout(self, seconds: float) -> None:
        """Set how long SQLite itself waits for another process's transaction."""
        if self._busy_timeout != seconds:
            self._connection.execute(f"PRAGMA busy_timeout={seconds * 1000:.0f}")
            self._busy_timeout = seconds

    def _end(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._tables.forget_cache()
        # A full disk may have ended the transaction already.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _set_log_length(self) -> None:
        pages = self._connection.execute("PRAGMA page_count").fetchone()[0]
        length = min(max(pages, LOG_PAGES.start), LOG_PAGES.stop)
        self._connection.execute(f"PRAGMA wal_autocheckpoint={length}")

    async def run(self, call: Callable[[Tables], T], *, write: bool = True, brief: bool = False) -> T:
        async with self._turn:
            await self._wait_for_thread()
            return await (
                self._run_briefly(call) if brief else self._in_thread(lambda: self._transact(call, write=write))
            )

    async def wait_for_turn(self) -> None:
        if self._transactions < self._crowded_until:
            async with self._turn:
                await self._wait_for_thread()
                with self._errors():
                    await self._begin_when_free()
                    self._end("ROLLBACK")

    async def _run_briefly(self, call: Callable[[Tables], T]) -> T:
        with self._errors():
            await self._begin_when_free()
            result = self._call(call)
            await self._in_thread(lambda: self._end("COMMIT"))
        return result

    async def _wait_for_thread(self) -> None:
        if self._in_work is not None and not self._in_work.done():
            await asyncio.wait([self._in_work])

    async def _in_thread(self, job: Callable[[], T]) -> T:
        """Whoever is cancelled while it waits leaves the job to its end."""
        future = self._in_work = asyncio.get_running_loop().run_in_executor(self._thread, job)
        return await wait_shielded(future)

    async def capacity(self) -> list[StoreCapacity]:
        with self._errors():
            # In a thread of its own: a disk of the network may take its time, and no transaction waits for that.
            found = await asyncio.to_thread(os.statvfs, self._path.parent)
        total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        return [StoreCapacity(place=f"the disk of {self._path}", total_bytes=total, free_bytes=free, is_disk=True)]

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            async with self._turn:
                await self._wait_for_thread()
                await self._in_thread(self._connection.close)
            self._thread.shutdown()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._mapped(error) from error
        except UnicodeDecodeError as error:
            # SQLite quotes a broken schema in its message, and sqlite3 cannot decode that.
            raise self._broken_file() from error

    def _damaged(self, error: Exception) -> FrontierError:
        """After the transaction: the search is a reader like any other."""
        return damaged(self._name, find_damage(self._connection, self._name), error, str(self._path))

    def _broken_file(self) -> FormatError:
        return FormatError(
            f"not a database, or a damaged one: {self._path}",
            hint="restore it from a backup, or move it elsewhere to start over",
        )

    def _mapped(self, error: sqlite3.Error | OSError) -> FrontierError:
        if isinstance(error, private_files.NotPrivateError):
            asked = f"--frontier 'sqlite:{self._path}?shared=yes'"
            return FrontierError(str(error), hint=f"remove it, work in another folder, or accept it: {asked}")
        name = getattr(error, "sqlite_errorname", "") or ""
        trouble = disk_errno(error, self._path.parent)
        if trouble == errno.EROFS:
            return FrontierError(
                f"the disk is read-only: {self._path}",
                hint="nothing is lost: make it writable, or copy the file elsewhere and name the copy with --frontier",
            )
        if trouble in (errno.ENOSPC, errno.EDQUOT):
            return FrontierError(
                f"the disk is full: {self._path}",
                hint="nothing is lost: free some space and run the same command again",
            )
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return self._broken_file()
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return FrontierError(
                f"locked by another process for more than {BUSY_SECONDS:.0f} s: {self._path}",
                hint="find the suspended skitter process and end it",
            )
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")) or isinstance(
            error, OSError
        ):
            return FrontierError(f"cannot use the file: {self._path}: {error}", hint="check its folder, owner and disk")
        by_content = name in _BY_CONTENT and not isinstance(error, (sqlite3.ProgrammingError, sqlite3.InterfaceError))
        if (self._is_open and by_content) or name.startswith("SQLITE_CONSTRAINT"):
            return self._damaged(error)
        return FrontierError(f"SQLite says: {error}: {self._path}", hint="run with -v for the details")
