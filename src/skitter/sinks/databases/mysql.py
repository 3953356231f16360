"""MariaDB and MySQL as databases of ``mysql://…#table``, by PyMySQL.

A table that skitter makes compares text byte by byte, spaces at the end included: elsewhere ``a``, ``A`` and ``a ``
would be one key, and items would be lost in each other. Neither booleans nor JSON are types of their own here: true
is 1, and lists and records are text that the JSON functions read.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pymysql
from pymysql.constants import CLIENT, CR, ER

from skitter.errors import SinkError, SinkUnavailableError, UsageError
from skitter.sinks.databases.column_names import KEY, NameRules
from skitter.sinks.databases.database import MADE_BY, Column, OtherTableError, RefusedError, TableInfo
from skitter.sinks.databases.sql_statements import certificate_error, driver_message, names, quoted, table_of
from skitter.sinks.databases.value_kinds import Kind, as_json, as_text, driver_value
from skitter.sinks.targets import Target

_CONNECT_SECONDS = 15
_COMMAND_SECONDS = 300
"""A server that is silent for longer has gone, with its machine perhaps."""
_STATEMENT_BYTES = 1 << 20
_PORT = 3306
_TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.REAL: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TEXT: "LONGTEXT",
    Kind.JSON: "LONGTEXT",
}
_KINDS = {
    **dict.fromkeys(("smallint", "mediumint", "int", "bigint"), Kind.INTEGER),
    **dict.fromkeys(("float", "double", "decimal"), Kind.REAL),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), Kind.TEXT),
    "json": Kind.JSON,
}
_FORMS: dict[Kind | None, Callable[[Any], Any]] = {Kind.TEXT: as_text, Kind.JSON: as_json}

_DUPLICATE_COLUMN = 1060
"""The error code for a column that exists already."""
_OTHER_TABLE = {ER.BAD_FIELD_ERROR}
_AWAY = {
    *(ER.CON_COUNT_ERROR, ER.SERVER_SHUTDOWN, ER.NORMAL_SHUTDOWN, ER.ABORTING_CONNECTION, ER.NEW_ABORTING_CONNECTION),
    *(ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.OPTION_PREVENTS_STATEMENT, ER.QUERY_INTERRUPTED, ER.DISK_FULL),
    *(
        ER.RECORD_FILE_FULL,
        ER.TOO_MANY_USER_CONNECTIONS,
        ER.USER_LIMIT_REACHED,
        ER.HOST_IS_BLOCKED,
        ER.OUT_OF_RESOURCES,
    ),
    # In words: a lock that is not granted; read-only, twice; killed; out of time, twice; disconnected for being idle.
    *(1015, 1792, 1836, 1927, 1969, 3024, 4031),
    # Of the client: no connection, or a broken one.
    *(CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 0),
}
_REFUSED = {
    *(ER.TOO_LONG_KEY, ER.TOO_BIG_ROWSIZE, ER.TOO_MANY_FIELDS, ER.WRONG_COLUMN_NAME, ER.TOO_LONG_IDENT),
    *(ER.NET_PACKET_TOO_LARGE, ER.NO_DEFAULT_FOR_FIELD, ER.TRUNCATED_WRONG_VALUE, ER.WARN_DATA_TRUNCATED),
    # In words: signalled by a trigger; a check, in MySQL and in MariaDB; JSON that is none; a value for a made column.
    *(1644, 3819, 4025, 3140, 3105, 1906),
}
_HINTS = {
    ER.ACCESS_DENIED_ERROR: "check user and password: mysql://USER:PASSWORD@HOST/DATABASE#TABLE",
    1698: "check user and password: mysql://USER:PASSWORD@HOST/DATABASE#TABLE",
    ER.DBACCESS_DENIED_ERROR: "give this user access to the database, or name another one: mysql://HOST/DATABASE#TABLE",
    ER.BAD_DB_ERROR: "create the database, or name an existing one: mysql://HOST/DATABASE#TABLE",
    ER.TABLEACCESS_DENIED_ERROR: "allow this user to create and alter the table, or name a table that it may write to",
    ER.NO_SUCH_TABLE: "the table is missing: restore it, or start over with --fresh",
}
_OPTIONS = ("ssl_ca", "ssl_cert", "ssl_key", "ssl_mode", "unix_socket")
_TLS_MODES = ("disabled", "required", "verify_ca", "verify_identity")


class MysqlDatabase:
    """A table on a MariaDB or MySQL server."""

    # 64 letters, of at most three bytes each; cut earlier, so that no name depends on which letters it has.
    rules = NameRules(longest_bytes=64, folds_case=True, highest_codepoint=0xFFFF)
    one_unique = True

    def __init__(self, target: Target) -> None:
        self.target = target
        self._name = table_of(target)
        self._table = quoted(self._name, "`")
        self._settings = _settings(target)
        self._connection: Any = None
        self._most_bytes = _STATEMENT_BYTES
        self._collation = ""

    def connect(self) -> None:
        self.close()
        with self._sink_errors():
            self._connection = pymysql.connect(
                **self._settings,
                charset="utf8mb4",
                # Without it a value that does not fit is cut, and nobody is told.
                sql_mode="STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_COMMAND_SECONDS,
                write_timeout=_COMMAND_SECONDS,
                client_flag=CLIENT.FOUND_ROWS,
            )
            (packet, version), *_ = self._run("SELECT @@max_allowed_packet, VERSION()")
            # A longer statement would make the server hang up.
            self._most_bytes = int(packet) - 1024
            self._collation = "utf8mb4_nopad_bin" if "mariadb" in version.lower() else "utf8mb4_0900_bin"

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    def read_table(self) -> TableInfo | None:
        here = "FROM information_schema.{} WHERE table_schema = DATABASE() AND table_name = %s"
        with self._sink_errors():
            comment = self._run("SELECT table_comment " + here.format("tables"), self._name)
            if not comment:
                return None
            described = self._run(
                "SELECT column_name, data_type, column_type, extra "
                + here.format("columns")
                + " ORDER BY ordinal_position",
                self._name,
            )
            columns = {name: Column(written, _kind(kind, written)) for name, kind, written, _ in described}
            counted = {name for name, _, _, extra in described if "auto_increment" in extra}
            uniques: dict[str, set[str]] = {}
            for index, column in self._run(
                "SELECT index_name, column_name " + here.format("statistics") + " AND non_unique = 0", self._name
            ):
                uniques.setdefault(index, set()).add(column)
            # The server itself counts in those, and no item meets another there.
            indexes = [frozenset(unique) for unique in uniques.values() if not unique & counted]
            return TableInfo(columns, MADE_BY in comment[0][0], indexes)

    def create(self) -> None:
        with self._sink_errors():
            self._run(
                f"CREATE TABLE IF NOT EXISTS {self._table} ({quoted(KEY, '`')} VARCHAR(700) NOT NULL PRIMARY KEY)"
                f" ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='{MADE_BY}' CHARSET=utf8mb4 COLLATE={self._collation}"
            )

    def add(self, columns: Mapping[str, Kind]) -> None:
        more = [f"ADD COLUMN {quoted(name, '`')} {_TYPES[kind]}" for name, kind in columns.items()]
        with self._sink_errors():
            try:
                self._run(f"ALTER TABLE {self._table} {', '.join(more)}")
            except pymysql.err.OperationalError as error:
                if error.args[0] != _DUPLICATE_COLUMN:
                    raise
                if len(columns) > 1:
                    # Somebody else has just added one of them. MySQL cannot leave out what is there.
                    for name, kind in columns.items():
                        self.add({name: kind})

    def widen(self, columns: Mapping[str, Kind]) -> None:
        wider = ", ".join(f"MODIFY COLUMN {quoted(name, '`')} {_TYPES[kind]}" for name, kind in columns.items())
        with self._sink_errors():
            self._run(f"ALTER TABLE {self._table} {wider}")

    def empty(self) -> None:
        with self._sink_errors():
            self._run(f"TRUNCATE TABLE {self._table}")

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[None]:
        with self._sink_errors():
            self._connection.begin()
            try:
                yield
                if commit:
                    self._connection.commit()
                else:
                    self._connection.rollback()
            except BaseException:
                with suppress(Exception):
                    self._connection.rollback()
                raise

    def upsert(self, key: Sequence[str], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> None:
        order = list(columns)
        forms = [(name, _FORMS.get(column.kind, driver_value)) for name, column in columns.items()]
        literal = self._connection.escape
        begin = f"INSERT INTO {self._table} ({names(order, '`')}) VALUES "  # noqa: S608  names in quotes
        # Where there is nothing but the key, it is set to itself.
        settings = [name for name in order if name not in key] or key[:1]
        end = " ON DUPLICATE KEY UPDATE " + ", ".join(
            f"{quoted(name, '`')} = VALUES({quoted(name, '`')})" for name in settings
        )
        room = min(_STATEMENT_BYTES, self._most_bytes)
        waiting: list[str] = []
        size = 0
        for row in rows:
            values = "(" + ",".join([literal(form(row[name])) for name, form in forms]) + ")"
            length = len(values.encode()) + 1
            if length + len(begin.encode()) + len(end.encode()) > self._most_bytes:
                raise RefusedError(f"an item of {length} bytes exceeds max_allowed_packet of the server")
            if waiting and size + length > room:
                self._send(begin + ",".join(waiting) + end)
                waiting, size = [], 0
            waiting.append(values)
            size += length
        self._send(begin + ",".join(waiting) + end)

    def _send(self, statement: str) -> None:
        self._connection.query(statement)

    def _run(self, statement: str, *values: object) -> list[Any]:
        with self._connection.cursor() as cursor:
            # Without values nothing is looked for in the statement: a name may hold a percent sign.
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.err.DataError, pymysql.err.IntegrityError) as error:
            raise RefusedError(self._words(error)) from error
        except (pymysql.err.Error, OSError) as error:
            raise self._failure(error) from error
        except RuntimeError as error:
            # The driver needs a package for passwords that are sent without TLS.
            raise SinkError(
                f"cannot log in: {self.target.name}: {driver_message(self.target, error)}",
                hint="use TLS (?ssl_mode=required), or pip install cryptography",
            ) from error

    def _failure(self, error: Exception) -> Exception:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else -1
        text = self._words(error)
        if code in _OTHER_TABLE:
            return OtherTableError(text)
        if refused := certificate_error(self.target, error, "ssl_ca"):
            return refused
        if code in _AWAY or isinstance(error, (pymysql.err.InterfaceError, OSError)):
            return SinkUnavailableError(
                f"the server does not accept data now: {self.target.name}: {text}",
                hint="is it running? check host, port and network; nothing is lost",
            )
        if code in _REFUSED:
            return RefusedError(text)
        return SinkError(
            f"the server says: {text}: {self.target.name}", hint=_HINTS.get(code, "run with -v for the details")
        )

    def _words(self, error: Exception) -> str:
        words = error.args[1] if len(error.args) > 1 else str(error) or "the connection is broken"
        return driver_message(self.target, Exception(words))


def _kind(kind: str, written: str) -> Kind | None:
    if kind == "tinyint":
        return Kind.BOOLEAN if written == "tinyint(1)" else Kind.INTEGER
    return _KINDS.get(kind)


def _settings(target: Target) -> dict[str, Any]:
    """Return the driver's connection settings for a target."""
    host, _, port = target.hosts.rpartition(":") if _has_port(target.hosts) else (target.hosts, "", "")
    database = target.path.strip("/")
    unknown = set(target.options) - set(_OPTIONS)
    mode = target.options.get("ssl_mode", "verify_ca" if "ssl_ca" in target.options else "disabled").lower()
    if not database or "," in host or unknown or mode not in _TLS_MODES:
        raise UsageError(
            f"not the address of a MariaDB or MySQL server: {target.name}",
            hint="mysql://USER:PASSWORD@HOST:PORT/DATABASE#TABLE;"
            f" options are {', '.join(_OPTIONS)}, and ssl_mode is one of {', '.join(_TLS_MODES)}",
        )
    settings: dict[str, Any] = {"database": database, "password": target.password or ""}
    if target.user:
        settings["user"] = target.user
    if socket := target.options.get("unix_socket"):
        settings["unix_socket"] = socket
    else:
        settings |= {"host": host.strip("[]") or "127.0.0.1", "port": int(port or _PORT)}
    return settings | _tls(target.options, mode)


def _tls(options: Mapping[str, str], mode: str) -> dict[str, Any]:
    files = {name.removeprefix("ssl_"): options[name] for name in ("ssl_ca", "ssl_cert", "ssl_key") if name in options}
    if mode == "disabled":
        return {"ssl_disabled": True}
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        context.check_hostname = mode == "verify_identity"
        context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify") else ssl.CERT_NONE
        if "cert" in files:
            context.load_cert_chain(files["cert"], files.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"cannot be used: {', '.join(files.values())}: {error.strerror or error}",
            hint="check its path, owner and mode",
        ) from error
    return {"ssl": context}


def _has_port(hosts: str) -> bool:
    return ":" in hosts.rpartition("]")[2]
