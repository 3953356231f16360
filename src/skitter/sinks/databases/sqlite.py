"""SQLite as the database of ``sqlite:PATH#table``: types belong to values, so no value is changed to fit a column.

Lists and records are kept as JSON text, and booleans as 1 and 0: SQLite has neither.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from skitter.errors import SinkError, SinkUnavailableError
from skitter.sinks.databases.column_names import KEY, NameRules
from skitter.sinks.databases.database import MADE_BY, Column, OtherTableError, RefusedError, TableInfo
from skitter.sinks.databases.sql_statements import driver_message, names, on_conflict, quoted, table_of
from skitter.sinks.databases.value_kinds import Kind, driver_value
from skitter.sinks.durable_files import resolve_file
from skitter.sinks.targets import Target

_BUSY_SECONDS = 5.0
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}


class SqliteDatabase:
    """A table in an SQLite file, which is created if needed."""

    rules = NameRules(longest_bytes=1000, folds_case=True)
    one_unique = False

    def __init__(self, target: Target) -> None:
        self.target = target
        self._name = table_of(target)
        self._table = quoted(self._name)
        self._path = target.path
        self._connection: sqlite3.Connection | None = None

    def connect(self) -> None:
        path = resolve_file(self._path)
        new = not path.exists()
        with self._sink_errors():
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._run("PRAGMA synchronous = FULL")
            if new:
                # Readers and the writer do not wait for each other. A file that was there keeps what it has.
                self._run("PRAGMA journal_mode = WAL")

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def read_table(self) -> TableInfo | None:
        with self._sink_errors():
            made = self._run(
                "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", self._name
            )
            if not made:
                return None
            described = self._run(f"PRAGMA table_info({self._table})")
            primary = frozenset(row[1] for row in described if row[5])
            uniques = [primary] if primary else []
            for _, index, unique, _, partial in self._run(f"PRAGMA index_list({self._table})"):
                if unique and not partial:
                    uniques.append(frozenset(row[2] for row in self._run(f"PRAGMA index_info({quoted(index)})")))
            columns = {row[1]: Column(row[2], None) for row in described}
            return TableInfo(columns, MADE_BY in made[0][0], uniques)

    def create(self) -> None:
        with self._sink_errors():
            # SQLite keeps the statement, and with it the comment.
            self._run(
                f"CREATE TABLE IF NOT EXISTS {self._table} ({quoted(KEY)} TEXT NOT NULL PRIMARY KEY /* {MADE_BY} */)"
            )

    def add(self, columns: Mapping[str, Kind]) -> None:
        with self.transaction(commit=True):
            for column in columns:
                try:
                    self._run(f"ALTER TABLE {self._table} ADD COLUMN {quoted(column)}")
                except sqlite3.OperationalError as error:
                    if "duplicate column" not in str(error):
                        raise

    def widen(self, columns: Mapping[str, Kind]) -> None:
        """Do nothing: every column holds every value."""

    def empty(self) -> None:
        with self._sink_errors():
            self._run(f"DELETE FROM {self._table}")  # noqa: S608  the table's name, in quotes

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[None]:
        with self._sink_errors():
            self._run("BEGIN IMMEDIATE")
            try:
                yield
                self._run("COMMIT" if commit else "ROLLBACK")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._run("ROLLBACK")
                raise

    def upsert(self, key: Sequence[str], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> None:
        order = list(columns)
        marks = ", ".join("?" * len(order))
        statement = f"INSERT INTO {self._table} ({names(order)}) VALUES ({marks}) {on_conflict(key, order)}"  # noqa: S608
        self._open().executemany(statement, ([driver_value(row[column]) for column in order] for row in rows))

    def _run(self, statement: str, *values: object) -> list[Any]:
        return self._open().execute(statement, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None, "connect() comes first"
        return self._connection

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            raise RefusedError(driver_message(self.target, error)) from error
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> Exception:
        text = driver_message(self.target, error)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _BUSY:
            return SinkUnavailableError(
                f"the database is busy: {self.target.name}: {text}",
                hint="another program holds its lock; nothing is lost",
            )
        if "no column named" in text or "no such column" in text:
            return OtherTableError(text)
        if "too many columns" in text:
            return RefusedError(text)
        hint = "nothing is lost: correct the cause and run the same command again"
        if code == sqlite3.SQLITE_FULL:
            hint = "nothing is lost: free some space and run the same command again"
        elif code == sqlite3.SQLITE_NOTADB:
            hint = "choose the file of a SQLite database, or a new one"
        return SinkError(f"cannot write results: {self.target.name}: {text}", hint=hint)
