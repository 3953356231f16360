"""The trail in a table of a SQLite file: of jobs, of schedules, or the archive that a file of dropped jobs leaves.

A file of jobs is removed with its last job. Its entries then move to a file beside it, ``PATH-audit``, and a new file
at the same path goes on from there.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from skitter import private_files
from skitter.audit.entry import Draft, Stored, sealed
from skitter.errors import AuditError, TrailMissingError
from skitter.sqlite_driver import error_text

T = TypeVar("T")
TABLE = "CREATE TABLE IF NOT EXISTS audit (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash TEXT NOT NULL)"
ARCHIVE_SUFFIX = "-audit"
BUSY_SECONDS = 120.0
BEFORE_ALL = -(2**63)
"""No reader sees an entry of this number: it is the least that SQLite has."""
_COLUMNS = "SELECT seq, body, hash FROM audit"


def archive_of(path: Path) -> Path:
    """The file that keeps the entries of a file of jobs that was removed."""
    return path.with_name(path.name + ARCHIVE_SUFFIX)


def append(database: sqlite3.Connection, draft: Draft, archive: Path | None) -> int:
    """Append an entry in the transaction that the caller has begun; its number."""
    database.execute(TABLE)
    last = _last(database)
    if last is None and archive is not None and archive.exists():
        with closing(sqlite3.connect(archive, timeout=BUSY_SECONDS)) as older:
            last = _last(older)
    entry = sealed(draft, last, time.time())
    database.execute("INSERT INTO audit VALUES (?, ?, ?)", entry)
    return entry.seq


def move_to_archive(database: sqlite3.Connection, path: Path, *, shared: bool) -> None:
    """Copy all entries to the archive. Killed before the file is removed, they are in both, which is no harm."""
    archive = archive_of(path)
    if not shared:
        private_files.make_file(archive)
    with closing(sqlite3.connect(archive, timeout=BUSY_SECONDS, isolation_level=None)) as older:
        older.execute("PRAGMA synchronous=FULL")
        older.execute("BEGIN IMMEDIATE")
        older.execute(TABLE)
        older.executemany("INSERT OR IGNORE INTO audit VALUES (?, ?, ?)", database.execute(_COLUMNS))
        older.execute("COMMIT")


class SqliteTrail:
    """The chain of one file, and of its archive, for whoever reads it or appends what is no call of a store."""

    def __init__(self, path: Path, *, has_archive: bool) -> None:
        self._path = path
        self._archive = archive_of(path) if has_archive else None

    @property
    def store(self) -> str:
        return f"sqlite:{self._path}"

    async def append(self, draft: Draft) -> int:
        return await asyncio.to_thread(self._transact, lambda database: append(database, draft, self._archive))

    async def entries(self, after: int, limit: int) -> list[Stored]:
        return await asyncio.to_thread(
            self._read, f"{_COLUMNS} WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit), newest_first=False
        )

    async def entries_before(self, before: int | None, limit: int) -> list[Stored]:
        last = 2**63 - 1 if before is None else before - 1
        return await asyncio.to_thread(
            self._read,
            f"{_COLUMNS} WHERE seq <= ? AND seq > {BEFORE_ALL} ORDER BY seq DESC LIMIT ?",
            (last, limit),
            newest_first=True,
        )

    async def prune(self, through: int, draft: Draft) -> None:
        def prune(database: sqlite3.Connection) -> None:
            append(database, draft, self._archive)
            database.execute("DELETE FROM audit WHERE seq <= ?", (through,))

        def prune_both() -> None:
            # In this order: what is left of the archive meanwhile is no gap.
            self._transact(prune)
            if self._archive is not None and self._archive.exists():
                with self._errors(self._archive), closing(_connect(self._archive)) as older:
                    older.execute("DELETE FROM audit WHERE seq <= ?", (through,))

        await asyncio.to_thread(prune_both)

    async def close(self) -> None:
        """Nothing stays open."""

    # ---- the files

    def _transact(self, step: Callable[[sqlite3.Connection], T]) -> T:
        path = self._path
        if not path.exists() and self._archive is not None and self._archive.exists():
            path = self._archive
        if not path.exists():
            raise _missing(path)
        with self._errors(path), closing(_connect(path)) as database:
            database.execute("PRAGMA synchronous=FULL")
            database.execute("BEGIN IMMEDIATE")
            if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
                # Another process has made the file and not yet its tables; with one of ours in it, it could not.
                raise _missing(path)
            answer = step(database)
            database.execute("COMMIT")
            return answer

    def _read(self, query: str, values: tuple[int, int], *, newest_first: bool) -> list[Stored]:
        found: dict[int, Stored] = {}
        for path in (self._archive, self._path):
            if path is None or not path.exists():
                continue
            with self._errors(path), closing(_connect(path)) as database:
                if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'audit'").fetchone():
                    continue
                for row in database.execute(query, values):
                    found[row[0]] = _stored(row)
        # Those of both files together, in one order: the archive's are the older ones.
        return [found[seq] for seq in sorted(found, reverse=newest_first)][: values[1]]

    @contextmanager
    def _errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise AuditError(
                f"the audit trail cannot be used: {path}: {error_text(error, path.parent)}",
                hint="check its folder, its owner and the disk",
            ) from error


def _missing(path: Path) -> TrailMissingError:
    return TrailMissingError(
        f"there is no store yet to record in: {path}", hint="start a crawl with it, or check the --frontier"
    )


def _connect(path: Path) -> sqlite3.Connection:
    # It is never made by looking at it.
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _last(database: sqlite3.Connection) -> Stored | None:
    found = database.execute(f"{_COLUMNS} ORDER BY seq DESC LIMIT 1").fetchone()
    return _stored(found) if found is not None else None


def _stored(row: tuple[int, object, object]) -> Stored:
    """An entry, whatever somebody has written into it."""
    seq, body, sum_ = row
    as_bytes = body if isinstance(body, bytes) else str(body).encode("utf-8", "replace")
    return Stored(seq, as_bytes, sum_ if isinstance(sum_, str) else str(sum_))
