"""Database sinks: one row or document for each key, written by upserts.

``table_sink`` is the sink for tables and ``table_columns`` adapts a table to the items; ``sqlite``, ``postgresql`` and
``mysql`` are the databases. ``mongodb`` writes documents, and ``mongodb_sharding`` spreads them over several servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skitter.errors import ExtraMissingError
from skitter.sinks.contract import Sink
from skitter.sinks.targets import Target


def sqlite_sink(target: Target) -> Sink:
    from skitter.sinks.databases.sqlite import SqliteDatabase
    from skitter.sinks.databases.table_sink import TableSink

    return TableSink(SqliteDatabase(target), target.path)


def postgresql_sink(target: Target) -> Sink:
    from skitter.sinks.databases.table_sink import TableSink

    try:
        from skitter.sinks.databases.postgresql import PostgresqlDatabase
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results in PostgreSQL", "postgresql") from error
    return TableSink(PostgresqlDatabase(target))


def mysql_sink(target: Target) -> Sink:
    from skitter.sinks.databases.table_sink import TableSink

    try:
        from skitter.sinks.databases.mysql import MysqlDatabase
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results in MariaDB or MySQL", "mysql") from error
    return TableSink(MysqlDatabase(target))


def mongodb_sink(target: Target) -> Sink:
    try:
        from skitter.sinks.databases.mongodb import MongodbSink
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results in MongoDB", "mongodb") from error
    return MongodbSink(target)


def mongodb_records(target: Target) -> Iterator[dict[str, Any]]:
    """Iterate over the records that a MongoDB, or a ring of several, holds."""
    try:
        from skitter.sinks.databases.mongodb import records
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results in MongoDB", "mongodb") from error
    return records(target)
