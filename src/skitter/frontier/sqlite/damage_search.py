"""Search of a file for the value that cannot be read: every column of a job's rows, with its type and its meaning."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from skitter.dedup.hyperloglog import checked_registers
from skitter.frontier.damage_errors import SEARCH_SECONDS, SearchDeadline, check_job, is_time, problem_of
from skitter.frontier.sqlite.row_codec import NEEDY_PLACE, SEQ_BITS, lease_of, row_of
from skitter.frontier.tables import JobRow, public_job
from skitter.model.host import Host, Phase
from skitter.model.intake import IntakeRecord
from skitter.model.item import ItemKind
from skitter.model.job import JobSpec, SinkProgress
from skitter.model.lease import Work
from skitter.model.outcome import RobotsRecord
from skitter.model.page_record import PageRecord
from skitter.model.proxy import HostProxies, ProxyRecord
from skitter.model.request import decode
from skitter.model.session import Cookie, SessionRecord
from skitter.model.worker import WorkerHeartbeat

Row = dict[str, Any]
Check = Callable[[Any, Row], object]
"""Raises, or answers False, for a value that cannot be right; the row that it stands in is given too."""


def _integer(least: int = -(2**63), most: int = 2**63 - 1) -> Check:
    return lambda value, _: type(value) is int and least <= value <= most


def _number(value: Any, _: Row) -> bool:
    return type(value) in (int, float) and value == value  # noqa: PLR0124  not a NaN


def _time(value: Any, row: Row) -> bool:
    return _number(value, row) and is_time(value)


def _text(value: Any, _: Row) -> object:
    # Texts come as bytes: see ``_rows``.
    return isinstance(value, _Text) and value.decode()


def _blob(value: Any, _: Row) -> bool:
    return type(value) is bytes


def _packed(kind: Any) -> Check:
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(kind)
    return lambda value, _: type(value) is bytes and decoder.decode(value)


def _host(value: Any, row: Row) -> bool:
    if type(value) is not bytes:
        return False
    host = msgspec.msgpack.decode(value, type=Host)
    times = (host.due, host.blocked_until, host.struck_at, host.latency_seconds, host.robots_until)
    return host.key == row["key"].decode() and all(map(is_time, times))


def _history(value: Any, _: Row) -> object:
    if type(value) is not bytes:
        return False
    row = row_of(0, 0, "", 0, b"", 0, 0.0, "", value)
    return is_time(row.added_at) and is_time(row.ended_at)


def _lease(value: Any, row: Row) -> object:
    return type(value) is bytes and lease_of(0, row["id"], row["epoch"], "", 0.0, 0, value)


def _payload(value: Any, _: Row) -> object:
    return type(value) is bytes and decode(value)


def _job_record(value: Any, row: Row) -> bool:
    record = msgspec.msgpack.decode(value, type=JobRow)
    record.spec = msgspec.msgpack.decode(row["spec"], type=JobSpec)
    check_job(public_job(record))
    counters = (record.queued, record.delayed, record.leased, record.done, record.redirected, record.failed)
    jars = (record.jars, record.jar_version)
    sequences = (record.next_seq, record.next_epoch, record.position, record.parked, record.excluded, record.needy)
    return all(0 <= number < 2**63 for number in (*counters, *sequences, *jars, record.intakes))


_ID = _integer()
_KIND = _integer(0, len(ItemKind) - 1)
_TABLES: dict[str, tuple[str, dict[str, Check]]] = {
    # The column that names a row, and what each column has to be.
    "jobs": (
        "name",
        {"clock": _time, "spec_version": _integer(), "spec": _packed(JobSpec), "record": _job_record},
    ),
    "hosts": (
        "key",
        {
            "key": _text,
            "phase": _integer(0, len(Phase)),
            "top": _integer(),
            "turn": _integer(),
            "due": _number,
            "record": _host,
        },
    ),
    "requests": (
        "number",
        {
            "id": _ID,
            "priority": _integer(),
            "place": _integer(0, NEEDY_PLACE),
            "not_before": _time,
            "error_class": _text,
            "need": _text,
            "history": _history,
            "payload": _payload,
        },
    ),
    "addresses": ("address", {"address": _text, "leases": _integer(0)}),
    "ready_for": ("key", {"key": _text, "need": _text, "top": _integer(), "turn": _integer()}),
    "needs": ("need", {"need": _text, "queued": _integer(1)}),
    "pages": (
        "id",
        {
            "id": _ID,
            "host": _text,
            "due": _time,
            "payload": _payload,
            "record": lambda value, row: value is None or _packed(PageRecord)(value, row),
        },
    ),
    "parked": (
        "key",
        {"key": _text, "need": _text, "address": _text, "top": _integer(), "turn": _integer()},
    ),
    "robots": ("host", {"host": _text, "record": _packed(RobotsRecord)}),
    "permits": ("number", {"number": _integer(), "host": _text}),
    "holds": (
        "id",
        {
            "work": _integer(0, len(Work) - 1),
            "id": _ID,
            "epoch": _integer(0),
            "worker": _text,
            "deadline": _number,
            "alone": _integer(0, 1),
            "record": _lease,
        },
    ),
    "workers": ("worker", {"worker": _text, "heard_at": _time}),
    "heartbeats": ("worker", {"worker": _text, "heartbeat": _packed(WorkerHeartbeat)}),
    "staged": ("id", {"id": _ID, "epoch": _integer(0), "place": _integer(0), "kind": _KIND, "record": _blob}),
    "outbox": ("position", {"position": _integer(), "id": _ID, "place": _integer(0), "kind": _KIND, "record": _blob}),
    "delivered": ("id", {"id": _ID}),
    "distinct_urls": ("job", {"registers": lambda value, _: type(value) is bytes and checked_registers(value)}),
    "jars": (
        "domain",
        {
            "session": _text,
            "domain": _text,
            "version": _integer(1),
            "changed_at": _time,
            "cookies": _packed(list[Cookie]),
        },
    ),
    "sessions": ("name", {"name": _text, "record": _packed(SessionRecord)}),
    "intakes": ("source", {"source": _text, "mark": _blob, "record": _packed(IntakeRecord)}),
    "proxies": ("proxy", {"proxy": _text, "record": _packed(ProxyRecord)}),
    "host_proxies": ("host", {"host": _text, "record": _packed(HostProxies)}),
    "sinks": (
        "target",
        {"target": _text, "progress": _packed(SinkProgress), "owner": _text, "owned_until": _number},
    ),
}


class _Text(bytes):
    """A text as it lies there: it may be no UTF-8."""


def find_damage(connection: sqlite3.Connection, job_name: str, *, whole: bool = False) -> str:
    """The first value of the job that cannot be read, as ``TABLE.COLUMN of ROW: why``; empty: none was found.

    ``whole``: however long it takes.
    """
    before, connection.text_factory = connection.text_factory, _Text
    try:
        return next(_problems(connection, job_name, SearchDeadline(math.inf if whole else SEARCH_SECONDS)), "")
    except sqlite3.Error as error:
        # A table that is not there, or a page of the file that cannot be read.
        return str(error)
    finally:
        connection.text_factory = before


def _problems(connection: sqlite3.Connection, job_name: str, deadline: SearchDeadline) -> Iterator[str]:
    found = connection.execute("SELECT job FROM jobs WHERE name = ?", (job_name,)).fetchone()
    if found is None:
        return
    job = found[0]
    for table, (key, checks) in _TABLES.items():
        there = [column[0] for column in connection.execute(f"SELECT * FROM {table} LIMIT 0").description]  # noqa: S608
        if missing := [column for column in (key, *checks) if column not in there]:
            yield f"{table}: there is no column {missing[0]}"
            return
        for row in _rows(connection, f"SELECT * FROM {table} WHERE job = ?", job):  # noqa: S608  our own names
            if deadline.is_over():
                return
            for column, check in checks.items():
                value = row[column]
                if problem := problem_of(lambda: _checked(check(value, row), value)):  # noqa: B023  called at once
                    yield f"{table}.{column} of {key} {_shown(row[key])}: {problem}"
    # Requests name their host by its number, and their own number tells which job is theirs.
    lost = (
        "SELECT number, host FROM requests WHERE job = ?1 AND host NOT IN (SELECT number FROM hosts WHERE job = ?1)"
        " LIMIT 1"
    )
    for row in _rows(connection, lost, job):
        yield f"requests.host of number {row['number']}: there is no such host: {_shown(row['host'])}"
    for row in _rows(connection, "SELECT number FROM requests WHERE job = ?1 AND number >> ?2 != ?1", job, SEQ_BITS):
        yield f"requests.number: not of this job: {row['number']}"


def _rows(connection: sqlite3.Connection, query: str, *values: object) -> Iterator[Row]:
    found = connection.execute(query, values)
    names = [column[0] for column in found.description]
    for columns in found:
        yield dict(zip(names, columns, strict=True))


def _checked(verdict: object, value: object) -> None:
    if verdict is False:
        raise ValueError(f"not a value of this column: {_shown(value)}")


def _shown(value: object) -> str:
    shown = value.decode(errors="backslashreplace") if isinstance(value, _Text) else repr(value)
    return shown if len(shown) <= 100 else f"{shown[:100]}…"
