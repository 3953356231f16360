"""PostgreSQL as the database of ``postgresql://…#table``, by asyncpg on a loop of the sink's own thread.

A batch travels as one JSON text, and the server makes rows of it (``json_to_recordset``): packing an item costs this
process a microsecond or two, and the server converts into whatever type a column has. COPY into a temporary table
was measured too; bench/bench_databases.py has the figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import asyncpg
import msgspec

from skitter.errors import SinkError, SinkUnavailableError, UsageError
from skitter.sinks.databases.column_names import KEY, NameRules
from skitter.sinks.databases.database import MADE_BY, Column, OtherTableError, RefusedError, TableInfo
from skitter.sinks.databases.sql_statements import (
    certificate_error,
    driver_message,
    names,
    on_conflict,
    quoted,
    table_of,
)
from skitter.sinks.databases.value_kinds import Kind
from skitter.sinks.targets import Target

T = TypeVar("T")

_CONNECT_SECONDS = 15.0
_COMMAND_SECONDS = 300.0
"""A server that is silent for longer has gone, with its machine perhaps."""
_LOCK_SECONDS = 60
_STATEMENT_BYTES = 16 << 20
"""Of JSON in one statement; the server has several copies of it in memory."""
_TYPES = {
    Kind.INTEGER: "bigint",
    Kind.REAL: "double precision",
    Kind.BOOLEAN: "boolean",
    Kind.TEXT: "text",
    Kind.JSON: "jsonb",
}
_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8"), Kind.INTEGER),
    **dict.fromkeys(("float4", "float8", "numeric"), Kind.REAL),
    **dict.fromkeys(("text", "varchar", "bpchar"), Kind.TEXT),
    **dict.fromkeys(("json", "jsonb"), Kind.JSON),
    "bool": Kind.BOOLEAN,
}
_LOOK = """
SELECT attname, format_type(atttypid, atttypmod), typname
FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_UNIQUES = """
SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
WHERE indrelid = to_regclass($1) AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL
GROUP BY indexrelid"""

# By the first letters of the SQLSTATE, the longest that fits. https://www.postgresql.org/docs/current/errcodes-appendix.html
_AWAY = ("08", "25006", "40", "53", "55006", "55P03", "57", "58")
_REFUSED = ("21", "22", "23", "42804", "42846", "428C9", "44", "54", "P0")
_HINTS = {
    "28": "check user and password: postgresql://USER:PASSWORD@HOST/DATABASE#TABLE",
    "3D000": "create the database, or name an existing one: postgresql://HOST/DATABASE#TABLE",
    "3F000": "create the schema, or name an existing one: #SCHEMA.TABLE",
    "42501": "allow this user to create and alter the table, or name a table that it may write to",
    "42P01": "the table is missing: restore it, or start over with --fresh",
}


class PostgresqlDatabase:
    """A table on a PostgreSQL server."""

    rules = NameRules(
        longest_bytes=63,
        folds_case=False,
        reserved=frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")),
    )
    one_unique = False

    def __init__(self, target: Target) -> None:
        self.target = target
        table = table_of(target).split(".")
        if len(table) > 2:
            raise UsageError(f"invalid table name: {target.name}", hint="write #TABLE or #SCHEMA.TABLE")
        self._table = ".".join(map(quoted, table))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None
        """asyncpg's types are not complete; everything that comes from it is checked here."""

    def connect(self) -> None:
        user = f"{quote(self.target.user, safe='')}@" if self.target.user else ""
        query = urlencode(self.target.options)
        address = f"postgresql://{user}{self.target.hosts}{quote(self.target.path)}{query and '?' + query}"
        self.close()
        # Plain asyncio: it serves one connection, and must not take the policy of the worker's loop.
        self._loop = asyncio.SelectorEventLoop()
        with self._sink_errors():
            self._connection = self._wait(
                asyncpg.connect(
                    address,
                    password=self.target.password,
                    timeout=_CONNECT_SECONDS,
                    command_timeout=_COMMAND_SECONDS,
                    # Behind a pooler only a transaction stays on one server process: nothing outlives one here.
                    statement_cache_size=0,
                    server_settings={"application_name": "skitter"},
                )
            )

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._wait(self._connection.close(timeout=5))
            self._connection = None
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def read_table(self) -> TableInfo | None:
        with self.transaction(commit=False):
            rows = self._fetch(_LOOK, self._table)
            if not rows:
                return None
            columns = {name: Column(written, _KINDS.get(kind)) for name, written, kind in rows}
            uniques = [frozenset(row[0]) for row in self._fetch(_UNIQUES, self._table)]
            comment = self._fetch("SELECT obj_description(to_regclass($1)::oid)", self._table)[0][0]
            return TableInfo(columns, MADE_BY in (comment or ""), uniques)

    def create(self) -> None:
        # Two that make it at the same instant may meet in the catalogue; the later one finds it there.
        with (
            self._sink_errors(),
            suppress(asyncpg.UniqueViolationError, asyncpg.DuplicateTableError),
            self._block(commit=True),
        ):
            self._run(f"CREATE TABLE IF NOT EXISTS {self._table} ({quoted(KEY)} text PRIMARY KEY)")
            # In the same transaction, so that a table of ours is known as ours.
            self._run(f"COMMENT ON TABLE {self._table} IS '{MADE_BY}'")

    def add(self, columns: Mapping[str, Kind]) -> None:
        more = ", ".join(f"ADD COLUMN IF NOT EXISTS {quoted(name)} {_TYPES[kind]}" for name, kind in columns.items())
        with self.transaction(commit=True):
            self._run(f"ALTER TABLE {self._table} {more}")

    def widen(self, columns: Mapping[str, Kind]) -> None:
        wider = ", ".join(
            f"ALTER COLUMN {quoted(name)} TYPE {_TYPES[kind]} USING {quoted(name)}::{_TYPES[kind]}"
            for name, kind in columns.items()
        )
        with self.transaction(commit=True):
            self._run(f"ALTER TABLE {self._table} {wider}")

    def empty(self) -> None:
        with self.transaction(commit=True):
            self._run(f"TRUNCATE {self._table}")

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[None]:
        with self._sink_errors(), self._block(commit=commit):
            yield

    @contextmanager
    def _block(self, *, commit: bool) -> Iterator[None]:
        # What a user's constraint defers to the end would refuse a batch after it has been tried.
        self._run(f"BEGIN; SET LOCAL lock_timeout = {_LOCK_SECONDS * 1000:.0f}; SET CONSTRAINTS ALL IMMEDIATE")
        try:
            yield
            self._run("COMMIT" if commit else "ROLLBACK")
        except BaseException:
            with suppress(Exception):
                self._run("ROLLBACK")
            raise

    def upsert(self, key: Sequence[str], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> None:
        stored = msgspec.json.encode(rows)
        if len(stored) > _STATEMENT_BYTES and len(rows) > 1:
            for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                self.upsert(key, columns, half)
            return
        order = list(columns)
        typed = ", ".join(f"{quoted(name)} {column.type}" for name, column in columns.items())
        statement = (
            f"INSERT INTO {self._table} ({names(order)}) SELECT {names(order)}"  # noqa: S608  names in quotes
            f" FROM json_to_recordset($1::json) AS items({typed}) {on_conflict(key, order)}"
        )
        self._wait(self._connection.execute(statement, stored.decode()))

    def _run(self, statement: str) -> None:
        self._wait(self._connection.execute(statement))

    def _fetch(self, statement: str, *values: object) -> list[Any]:
        return list(self._wait(self._connection.fetch(statement, *values)))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "connect() comes first"
        return self._loop.run_until_complete(work)

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        try:
            yield
        except asyncpg.PostgresError as error:
            raise self._answer(error) from error
        except asyncpg.ClientConfigurationError as error:
            raise UsageError(
                f"not the address of a PostgreSQL server: {self.target.name}: {driver_message(self.target, error)}",
                hint="postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…#TABLE",
            ) from error
        # InternalClientError: a server that goes says so to an idle connection, and asyncpg takes it for an answer
        # under way; the next statement fails there, before the end of the connection has been read.
        except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError) as error:
            reason = _reason(error, driver_message(self.target, error))
            raise certificate_error(self.target, error, "sslrootcert") or SinkUnavailableError(
                f"PostgreSQL cannot be reached: {self.target.name}: {reason}",
                hint="is it running? check host, port and network; nothing is lost",
            ) from error

    def _answer(self, error: asyncpg.PostgresError) -> Exception:
        state = error.sqlstate or ""
        text = driver_message(self.target, error)
        if state == "42703":
            return OtherTableError(text)
        if state.startswith(_AWAY):
            return SinkUnavailableError(
                f"PostgreSQL does not accept data now: {self.target.name}: {text}",
                hint="nothing is lost; skitter tries again",
            )
        if state.startswith(_REFUSED):
            return RefusedError(text)
        hint = next((hint for begin, hint in _HINTS.items() if state.startswith(begin)), "run with -v for the details")
        return SinkError(f"PostgreSQL says: {text}: {self.target.name}", hint=hint)


def _reason(error: Exception, text: str) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return text
