"""Databases as sinks: a row or a document for each key, written again without harm.

``sink`` is the table's sink and ``table`` how a table follows the items; ``sqlite``, ``postgresql`` and ``mysql`` know
the servers. ``mongodb`` keeps documents, and ``homes`` spreads them over several servers.
"""

from __future__ import annotations

from skitter.errors import ExtraMissingError
from skitter.sinks.contract import Sink
from skitter.sinks.targets import Target


def sqlite_sink(target: Target) -> Sink:
    from skitter.sinks.databases.sqlite import SqliteDatabase
    from skitter.sinks.databases.table_sink import TableSink

    return TableSink(SqliteDatabase(target))


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
