"""The four kinds of databases as a test sees them: an address, and what stands there, read by a plain client."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg
import pymongo
import pymysql

Records = dict[str, dict[str, Any]]


class Place:
    """One table or collection that nobody else uses."""

    kind = ""
    key = "_key"
    typed = True
    """A column has a type, and follows its values."""

    def __init__(self, url: str, table: str) -> None:
        self.url, self.table = url, table

    @property
    def target(self) -> str:
        return f"{self.url}#{self.table}"

    def with_options(self, options: str) -> str:
        return f"{self.url}?{options}#{self.table}"

    def rows(self) -> list[dict[str, Any]]:
        """Every row, as the driver reads it."""
        raise NotImplementedError

    def run(self, statement: str) -> Any:
        """SQL, with the table called ``{table}``."""
        raise NotImplementedError

    def records(self) -> Records:
        """By key; a doubled key fails."""
        rows = self.rows()
        records = {row.pop(self.key): row for row in rows}
        assert len(records) == len(rows), "a key stands there twice"
        return records

    def plain(self, record: dict[str, Any]) -> dict[str, Any]:
        """What a record is expected to look like there."""
        return record


class SqlitePlace(Place):
    kind = "sqlite"
    typed = False

    def rows(self) -> list[dict[str, Any]]:
        connection = sqlite3.connect(self.url.removeprefix("sqlite:"))
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(f'SELECT * FROM "{self.table}"')]
        finally:
            connection.close()

    def run(self, statement: str) -> Any:
        connection = sqlite3.connect(self.url.removeprefix("sqlite:"))
        try:
            with connection:
                return connection.execute(statement.replace("{table}", f'"{self.table}"')).fetchall()
        finally:
            connection.close()

    def plain(self, record: dict[str, Any]) -> dict[str, Any]:
        return {field: _json_text(value, booleans=True) for field, value in record.items()}


class PostgresqlPlace(Place):
    kind = "postgresql"

    def rows(self) -> list[dict[str, Any]]:
        async def read() -> list[dict[str, Any]]:
            connection = await asyncpg.connect(self.url)
            try:
                for kind in ("json", "jsonb"):
                    await connection.set_type_codec(kind, schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
                return [dict(row) for row in await connection.fetch(f'SELECT * FROM "{self.table}"')]
            finally:
                await connection.close()

        return asyncio.run(read())

    def run(self, statement: str) -> Any:
        async def run() -> Any:
            connection = await asyncpg.connect(self.url)
            try:
                return await connection.fetch(statement.replace("{table}", f'"{self.table}"'))
            finally:
                await connection.close()

        return asyncio.run(run())


class MariadbPlace(Place):
    kind = "mariadb"

    def _connect(self) -> Any:
        parts = urlsplit(self.url)
        return pymysql.connect(
            host=parts.hostname,
            port=parts.port or 0,
            user=parts.username,
            password=unquote(parts.password or ""),
            database=parts.path[1:],
            autocommit=True,
        )

    def rows(self) -> list[dict[str, Any]]:
        with self._connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SELECT * FROM `{self.table}`")
            return list(cursor.fetchall())

    def run(self, statement: str) -> Any:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement.replace("{table}", f"`{self.table}`"))
            return cursor.fetchall()

    def plain(self, record: dict[str, Any]) -> dict[str, Any]:
        return {field: _json_text(value, booleans=True) for field, value in record.items()}


class MongodbPlace(Place):
    kind = "mongodb"
    key = "_id"
    typed = False

    def collection(self, client: pymongo.MongoClient[Any]) -> Any:
        return client[urlsplit(self.url).path[1:]][self.table]

    def rows(self) -> list[dict[str, Any]]:
        with pymongo.MongoClient(self.url) as client:
            return list(self.collection(client).find())


PLACES = {place.kind: place for place in (SqlitePlace, PostgresqlPlace, MariadbPlace, MongodbPlace)}


def _json_text(value: Any, *, booleans: bool) -> Any:
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return int(value) if booleans and isinstance(value, bool) else value
