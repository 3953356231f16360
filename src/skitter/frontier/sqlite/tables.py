"""``Tables`` as SQL. The tables and indexes are described in schema.sql."""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.frontier.clock import StoreClock
from skitter.frontier.tables import Hold, JobRow, Place, Row, SinkRow
from skitter.model.host import Host, Phase
from skitter.model.job import Item, JobSpec, SinkProgress
from skitter.model.lease import Work
from skitter.model.outcome import RobotsRecord
from skitter.policy.politeness import due_at

# Columns for what an index or a filter needs; the rest travels as one msgpack value, which costs half as much
# to bind and to read as a column each.
_ROW = "seq, id, host, priority, payload, place, not_before, error_class, history"
# Not INSERT OR REPLACE, which would take the row out of its indexes and put it in again.
_SAVE_HOST = (
    "INSERT INTO hosts (job, key, phase, top, served, due, record) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, key)"
    " DO UPDATE SET phase = excluded.phase, top = excluded.top, served = excluded.served, due = excluded.due,"
    " record = excluded.record"
)
# One statement for all hosts of a grant: a statement each would cost as much again in calls.
_HEADS = (
    f"SELECT {_ROW} FROM json_each(?2) AS wanted CROSS JOIN requests ON requests.job = ?1 AND requests.seq IN"
    " (SELECT seq FROM requests INDEXED BY queue WHERE job = ?3 AND place = 0 AND host = wanted.value"
    " ORDER BY priority DESC, seq LIMIT ?4)"
).replace(" id,", " requests.id,")
_HOLD = "work, id, epoch, worker, host, leased_at, deadline, alone, staged"
_RUN_TABLES = ("requests", "permits", "holds", "staged", "outbox", "sinks")

_PLACES = list(Place)
_WORKS = list(Work)
_encode = msgspec.msgpack.encode
_decode_host = msgspec.msgpack.Decoder(Host).decode
_decode_history = msgspec.msgpack.Decoder(tuple[int, int, int, int, float, float, int, str]).decode
_decode_job = msgspec.msgpack.Decoder(JobRow).decode
_decode_spec = msgspec.msgpack.Decoder(JobSpec).decode
_decode_robots = msgspec.msgpack.Decoder(RobotsRecord).decode
_decode_progress = msgspec.msgpack.Decoder(SinkProgress).decode
_NO_SPEC = JobSpec(name="", spider="")


class SqliteTables:
    """The rows of one job in an open connection. The caller begins and ends the transactions."""

    def __init__(self, connection: sqlite3.Connection, job_name: str, clock: StoreClock) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._name = job_name
        self._clock = clock
        self._time = 0.0
        self.forget_cache()

    def forget_cache(self) -> None:
        """After a rollback nothing that was remembered is certain."""
        self._job = 0
        self._spec: JobSpec = _NO_SPEC
        self._spec_version = -1

    def clock(self) -> float:
        return self._clock.now(self._time)

    # ---- the job

    def load_job(self) -> JobRow | None:
        found = self._execute(
            "SELECT job, clock, record, spec_version FROM jobs WHERE name = ?", (self._name,)
        ).fetchone()
        if found is None:
            return None
        self._job, self._time, record, version = found
        if version != self._spec_version:
            spec = self._execute("SELECT spec FROM jobs WHERE job = ?", (self._job,)).fetchone()[0]
            self._spec, self._spec_version = _decode_spec(spec), version
        job = _decode_job(record)
        job.spec = self._spec
        return job

    def save_job(self, job: JobRow) -> None:
        # The spec may hold a hundred thousand seeds: it is written when it changes, not with each commit.
        spec, job.spec = job.spec, _NO_SPEC
        record = _encode(job)
        job.spec = spec
        if spec is self._spec:
            self._execute("UPDATE jobs SET clock = ?, record = ? WHERE job = ?", (self.clock(), record, self._job))
            return
        self._execute(
            "INSERT INTO jobs (name, clock, record, spec_version, spec) VALUES (?, ?, ?, 0, ?) ON CONFLICT (name)"
            " DO UPDATE SET clock = excluded.clock, record = excluded.record, spec = excluded.spec,"
            " spec_version = spec_version + 1",
            (self._name, self.clock(), record, _encode(spec)),
        )
        self.forget_cache()

    def forget_run(self) -> None:
        for table in _RUN_TABLES:
            self._execute(f"DELETE FROM {table} WHERE job = ?", (self._job,))
        self._execute("UPDATE hosts SET phase = ? WHERE job = ?", (Phase.IDLE, self._job))

    # ---- requests

    def known(self, ids: Sequence[int]) -> set[int]:
        found = self._execute(
            "SELECT id FROM requests WHERE job = ? AND id IN (SELECT value FROM json_each(?))",
            (self._job, json.dumps(ids)),
        )
        return {request_id for (request_id,) in found}

    def insert(self, rows: Sequence[Row]) -> None:
        job = self._job
        self._executemany(
            f"INSERT INTO requests (job, {_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (job, r.seq, r.id, r.host_key, r.priority, r.payload, r.place, r.not_before, r.error_class, _history(r))
                for r in rows
            ],
        )

    def row(self, request_id: int) -> Row | None:
        return self.rows([request_id]).get(request_id)

    def rows(self, ids: Sequence[int]) -> dict[int, Row]:
        if not ids:
            return {}
        where = "id IN (SELECT value FROM json_each(?))"
        return {row.id: row for row in self._rows("by_id", where, json.dumps(ids))}

    def save_rows(self, rows: Sequence[Row]) -> None:
        job = self._job
        self._executemany(
            "UPDATE requests SET place = ?, not_before = ?, error_class = ?, history = ? WHERE job = ? AND seq = ?",
            [(r.place, r.not_before, r.error_class, _history(r), job, r.seq) for r in rows],
        )

    def heads(self, host_keys: Sequence[str], limit: int) -> dict[str, deque[Row]]:
        found = self._execute(_HEADS, (self._job, json.dumps(host_keys), self._job, limit))
        heads: dict[str, deque[Row]] = {key: deque() for key in host_keys}
        for row in sorted((_row(*columns) for columns in found), key=lambda row: (-row.priority, row.seq)):
            heads[row.host_key].append(row)
        return heads

    def suspects(self, limit: int) -> list[Row]:
        return self._rows("suspect", "place = 7 ORDER BY seq LIMIT ?", limit)

    def due_rows(self, now: float, limit: int) -> list[Row]:
        return self._rows("delayed", "place = 1 AND not_before <= ? ORDER BY not_before, seq LIMIT ?", now, limit)

    def next_row_due(self) -> float | None:
        due: float | None = self._one("SELECT min(not_before) FROM requests WHERE job = ? AND place = 1")
        return due

    def waiting(self, host_key: str, limit: int) -> list[Row]:
        found: list[Row] = []
        for index, place in (("queue", Place.QUEUED), ("delayed", Place.DELAYED), ("suspect", Place.SUSPECT)):
            if len(found) < limit:
                found += self._rows(index, f"place = {place:d} AND host = ? LIMIT ?", host_key, limit - len(found))
        return found

    def dead_rows(self, error_class: str, limit: int, after: int) -> list[Row]:
        return self._rows(
            "dead",
            "place = 5 AND (? = '' OR error_class = ?) ORDER BY seq LIMIT ? OFFSET ?",
            error_class,
            error_class,
            limit,
            after,
        )

    def _rows(self, index: str, where: str, *values: object) -> list[Row]:
        # The index is named because the planner, which has no statistics, would rather scan the job.
        query = f"SELECT {_ROW} FROM requests INDEXED BY {index} WHERE job = ? AND {where}"
        found = self._execute(query, (self._job, *values))
        return [_row(*columns) for columns in found]

    # ---- hosts

    def hosts(self, keys: Sequence[str]) -> dict[str, Host]:
        found = self._hosts("key IN (SELECT value FROM json_each(?))", json.dumps(keys))
        return {host.key: host for host in found}

    def save_hosts(self, hosts: Sequence[Host]) -> None:
        job = self._job
        self._executemany(_SAVE_HOST, [(job, h.key, h.phase, h.top, h.served, due_at(h), _encode(h)) for h in hosts])

    def ready_hosts(self, limit: int) -> list[tuple[int, int, str]]:
        return self._execute(
            "SELECT top, served, key FROM hosts INDEXED BY ready WHERE job = ? AND phase = 1"
            " ORDER BY top DESC, served, key LIMIT ?",
            (self._job, limit),
        ).fetchall()

    def due_hosts(self, now: float, limit: int) -> list[str]:
        found = self._execute(
            "SELECT key FROM hosts INDEXED BY waiting WHERE job = ? AND phase = 2 AND due <= ?"
            " ORDER BY due, key LIMIT ?",
            (self._job, now, limit),
        )
        return [key for (key,) in found]

    def next_host_due(self) -> float | None:
        due: float | None = self._one("SELECT min(due) FROM hosts WHERE job = ? AND phase = 2")
        return due

    def _hosts(self, where: str, *values: object) -> list[Host]:
        found = self._execute(f"SELECT record FROM hosts WHERE job = ? AND {where}", (self._job, *values))
        return [_decode_host(record) for (record,) in found]

    def robots(self, host_key: str) -> RobotsRecord | None:
        record = self._one("SELECT record FROM robots WHERE job = ? AND host = ?", host_key)
        return None if record is None else _decode_robots(record)

    def save_robots(self, host_key: str, record: RobotsRecord) -> None:
        self._execute("INSERT OR REPLACE INTO robots VALUES (?, ?, ?)", (self._job, host_key, _encode(record)))

    def permit(self, host_key: str) -> None:
        self._execute(
            "INSERT INTO permits SELECT ?, coalesce(max(number), 0) + 1, ? FROM permits WHERE job = ?",
            (self._job, host_key, self._job),
        )

    def permitted(self, after: int) -> list[str]:
        found = self._execute(
            "SELECT host FROM permits WHERE job = ? AND number > ? ORDER BY number", (self._job, after)
        )
        return [host for (host,) in found]

    # ---- leases

    def holds(self, keys: Sequence[tuple[Work, int]]) -> dict[tuple[Work, int], Hold]:
        found: list[Hold] = []
        for work in {work for work, _ in keys}:
            ids = json.dumps([request_id for other, request_id in keys if other is work])
            found += self._holds("work = ? AND id IN (SELECT value FROM json_each(?))", work, ids)
        return {(hold.work, hold.id): hold for hold in found}

    def save_holds(self, holds: Sequence[Hold]) -> None:
        job = self._job
        self._executemany(
            f"INSERT OR REPLACE INTO holds (job, {_HOLD}) VALUES (?,?,?,?,?,?,?,?,?,?)",
            [(job, *msgspec.structs.astuple(hold)) for hold in holds],
        )

    def drop_holds(self, holds: Sequence[Hold]) -> None:
        self._executemany(
            "DELETE FROM holds WHERE job = ? AND work = ? AND id = ?",
            [(self._job, hold.work, hold.id) for hold in holds],
        )

    def expired_holds(self, now: float, limit: int) -> list[Hold]:
        return self._holds("deadline <= ? ORDER BY deadline, epoch LIMIT ?", now, limit)

    def holds_of(self, worker: str) -> list[Hold]:
        return self._holds("worker = ? ORDER BY epoch", worker)

    def load_of(self, worker: str) -> tuple[int, bool]:
        held, alone = self._execute(
            "SELECT count(*), max(alone) FROM holds WHERE job = ? AND worker = ?", (self._job, worker)
        ).fetchone()
        return held, bool(alone)

    def any_hold(self) -> bool:
        return self._one("SELECT 1 FROM holds WHERE job = ? LIMIT 1") is not None

    def _holds(self, where: str, *values: object) -> list[Hold]:
        found = self._execute(f"SELECT {_HOLD} FROM holds WHERE job = ? AND {where}", (self._job, *values))
        holds = [Hold(*columns) for columns in found]
        for hold in holds:
            hold.work = _WORKS[hold.work]
            hold.alone, hold.staged = bool(hold.alone), bool(hold.staged)
        return holds

    # ---- workers

    def heard_from(self, worker: str, now: float) -> None:
        self._execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", (self._job, worker, now))

    def forget_worker(self, worker: str) -> None:
        self._execute("DELETE FROM workers WHERE job = ? AND worker = ?", (self._job, worker))

    def workers(self) -> list[tuple[str, float]]:
        return self._execute(
            "SELECT worker, heard_at FROM workers WHERE job = ? ORDER BY worker", (self._job,)
        ).fetchall()

    # ---- outbox

    def stage(self, request_id: int, epoch: int, items: Sequence[bytes], after: int | None) -> None:
        first = self._one(
            "SELECT coalesce(max(place) + 1, 0) FROM staged WHERE job = ? AND id = ? AND epoch = ?", request_id, epoch
        )
        if after is None or first == after:
            self._executemany(
                "INSERT INTO staged VALUES (?, ?, ?, ?, ?)",
                [(self._job, request_id, epoch, first + n, record) for n, record in enumerate(items)],
            )

    def publish(self, request_id: int, epoch: int, after: int, *, keep: bool) -> int:
        if keep:
            self._execute(
                "INSERT INTO outbox SELECT job, ? + 1 + place, id, place, record FROM staged"
                " WHERE job = ? AND id = ? AND epoch = ?",
                (after, self._job, request_id, epoch),
            )
        gone = self._execute(
            "DELETE FROM staged WHERE job = ? AND id = ? AND epoch = ?", (self._job, request_id, epoch)
        )
        return gone.rowcount

    def save_items(self, items: Sequence[Item]) -> None:
        job = self._job
        self._executemany(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, ?)",
            [(job, i.position, i.request_id, i.place, i.record) for i in items],
        )

    def items(self, after: int, limit: int) -> list[Item]:
        found = self._execute(
            "SELECT position, id, place, record FROM outbox WHERE job = ? AND position > ? ORDER BY position LIMIT ?",
            (self._job, after, limit),
        )
        return [Item(*columns) for columns in found]

    def drop_items(self, up_to: int) -> None:
        self._execute("DELETE FROM outbox WHERE job = ? AND position <= ?", (self._job, up_to))

    def sinks(self) -> list[SinkRow]:
        found = self._execute(
            "SELECT target, progress, owner, owned_until FROM sinks WHERE job = ? ORDER BY target", (self._job,)
        )
        return [SinkRow(target, _decode_progress(progress), owner, until) for target, progress, owner, until in found]

    def save_sink(self, sink: SinkRow) -> None:
        self._execute(
            "INSERT OR REPLACE INTO sinks VALUES (?, ?, ?, ?, ?)",
            (self._job, sink.target, _encode(sink.progress), sink.owner, sink.owned_until),
        )

    def drop_sink(self, target: str) -> None:
        self._execute("DELETE FROM sinks WHERE job = ? AND target = ?", (self._job, target))

    def _one(self, query: str, *values: object) -> Any:
        found = self._execute(query, (self._job, *values)).fetchone()
        return None if found is None else found[0]


def _history(row: Row) -> bytes:
    return _encode(
        (
            *(row.attempts, row.losses, row.losses_alone, row.blocks),
            *(row.added_at, row.ended_at, row.status, row.error),
        )
    )


def _row(
    seq: int,
    request_id: int,
    host_key: str,
    priority: int,
    payload: bytes,
    place: int,
    not_before: float,
    error_class: str,
    history: bytes,
) -> Row:
    attempts, losses, losses_alone, blocks, added_at, ended_at, status, error = _decode_history(history)
    where = _PLACES[place]
    times = (not_before, added_at, ended_at)
    counts = (attempts, losses, losses_alone, blocks)
    return Row(seq, request_id, host_key, priority, payload, where, *counts, *times, status, error_class, error)
