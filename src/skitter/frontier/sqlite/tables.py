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
from skitter.model.worker import WorkerCard
from skitter.policy.politeness import due_at

# Columns for what an index or a filter needs; the rest travels as one msgpack value, which costs half as much
# to bind and to read as a column each.
_ROW = "requests.number, id, hosts.key, priority, payload, place, not_before, error_class, history"
_INSERT_ROW = (
    "INSERT INTO requests (number, job, id, host, priority, payload, place, not_before, error_class, history)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SAVE_ROW = "UPDATE requests SET place = ?, not_before = ?, error_class = ?, history = ? WHERE number = ?"
_SAVE_HOST = "UPDATE hosts SET phase = ?, top = ?, served = ?, due = ?, record = ? WHERE number = ?"
_NOT_HELD = "NOT EXISTS (SELECT 1 FROM holds WHERE holds.job = requests.job AND work = 0 AND holds.id = requests.id)"
# One statement for all hosts of a grant: a statement each would cost as much again in calls.
_HEADS = (
    "SELECT wanted.value, priority, requests.number FROM json_each(?) AS wanted CROSS JOIN requests"
    " ON requests.number IN (SELECT number FROM requests INDEXED BY queue WHERE place = 0 AND host = wanted.value"
    f" AND {_NOT_HELD} ORDER BY priority DESC, number LIMIT ?) ORDER BY wanted.key, priority DESC, requests.number"
)
_HOLD = "work, id, epoch, worker, deadline, alone, record"
_SEQ_BITS = 40
"""Of requests.number; the job's number is above them."""
_SEQ_MASK = (1 << _SEQ_BITS) - 1
_MOST_NUMBERS = 100_000
"""Host numbers that are remembered; then they are read again."""
_RUN_TABLES = ("permits", "holds", "staged", "outbox", "sinks", "addresses", "parked")


class _HoldRecord(msgspec.Struct, array_like=True, gc=False):
    """holds.record: what of a lease is in no column, its request's row included."""

    host_key: str
    leased_at: float
    staged: bool
    seq: int
    priority: int
    not_before: float
    error_class: str
    history: bytes
    address: str = ""


_PLACES = list(Place)
_WORKS = list(Work)
_encode = msgspec.msgpack.encode
_decode_host = msgspec.msgpack.Decoder(Host).decode
_decode_history = msgspec.msgpack.Decoder(tuple[int, int, int, int, float, float, int, str]).decode
_decode_job = msgspec.msgpack.Decoder(JobRow).decode
_decode_spec = msgspec.msgpack.Decoder(JobSpec).decode
_decode_robots = msgspec.msgpack.Decoder(RobotsRecord).decode
_decode_card = msgspec.msgpack.Decoder(WorkerCard).decode
_decode_progress = msgspec.msgpack.Decoder(SinkProgress).decode
_decode_hold = msgspec.msgpack.Decoder(_HoldRecord).decode
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
        self._numbers: dict[str, int] = {}
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
        first = self._job << _SEQ_BITS
        self._execute("DELETE FROM requests WHERE number BETWEEN ? AND ?", (first, first | _SEQ_MASK))
        self._execute("UPDATE hosts SET phase = ? WHERE job = ?", (Phase.IDLE, self._job))

    # ---- requests

    def known(self, ids: Sequence[int]) -> set[int]:
        found = self._execute(
            "SELECT id FROM requests WHERE job = ? AND id IN (SELECT value FROM json_each(?))",
            (self._job, json.dumps(ids)),
        )
        return {request_id for (request_id,) in found}

    def insert(self, rows: Sequence[Row]) -> None:
        job, base, numbers = self._job, self._job << _SEQ_BITS, self._numbers_of({row.host_key: None for row in rows})
        self._executemany(
            _INSERT_ROW,
            [
                (
                    *(base | r.seq, job, r.id, numbers[r.host_key], r.priority),
                    *(r.payload, r.place, r.not_before, r.error_class, _history(r)),
                )
                for r in rows
            ],
        )

    def row(self, request_id: int) -> Row | None:
        return self.rows([request_id]).get(request_id)

    def rows(self, ids: Sequence[int]) -> dict[int, Row]:
        if not ids:
            return {}
        where = "requests.job = ? AND id IN (SELECT value FROM json_each(?))"
        return {row.id: row for row in self._rows("by_id", where, self._job, json.dumps(ids))}

    def queue_length(self, host_key: str, limit: int) -> int:
        found = self._execute(
            f"SELECT count(*) FROM (SELECT 1 FROM requests INDEXED BY queue WHERE place = 0 AND {_NOT_HELD}"
            " AND host = (SELECT number FROM hosts WHERE job = ? AND key = ?) LIMIT ?)",
            (self._job, host_key, limit),
        )
        length: int = found.fetchone()[0]
        return length

    def longest_queues(self, limit: int) -> list[str]:
        # Of all that is queued, by the index alone; what is held is a few, and counted too.
        found = self._execute(
            "SELECT hosts.key FROM (SELECT host, count(*) AS length FROM requests INDEXED BY queue WHERE place = 0"
            " GROUP BY host) AS queues CROSS JOIN hosts ON hosts.number = queues.host AND hosts.job = ?"
            " WHERE hosts.phase != 0 ORDER BY length DESC, hosts.key LIMIT ?",
            (self._job, limit),
        )
        return [key for (key,) in found if self.queue_length(key, 1)]

    def save_rows(self, rows: Sequence[Row]) -> None:
        base = self._job << _SEQ_BITS
        self._executemany(_SAVE_ROW, [(r.place, r.not_before, r.error_class, _history(r), base | r.seq) for r in rows])

    def rows_at(self, seqs: Sequence[int]) -> dict[int, Row]:
        base = self._job << _SEQ_BITS
        numbers = json.dumps([base | seq for seq in seqs])
        found = self._execute(
            f"SELECT {_ROW} FROM requests CROSS JOIN hosts ON hosts.number = requests.host"
            " WHERE requests.number IN (SELECT value FROM json_each(?))",
            (numbers,),
        )
        return {row.seq: row for row in (_row(*columns) for columns in found)}

    def heads(self, host_keys: Sequence[str], limit: int) -> dict[str, deque[tuple[int, int]]]:
        numbers = self._numbers_of(dict.fromkeys(host_keys))
        heads: dict[int, deque[tuple[int, int]]] = {numbers[key]: deque() for key in host_keys}
        for host, priority, number in self._execute(_HEADS, (json.dumps(list(heads)), limit)):
            heads[host].append((priority, number & _SEQ_MASK))
        return dict(zip(host_keys, heads.values(), strict=True))

    def suspects(self, limit: int) -> list[Row]:
        where = f"requests.job = ? AND place = 7 AND {_NOT_HELD} ORDER BY requests.number LIMIT ?"
        return self._rows("suspect", where, self._job, limit)

    def due_rows(self, now: float, limit: int) -> list[Row]:
        where = "requests.job = ? AND place = 1 AND not_before <= ? ORDER BY not_before, requests.number LIMIT ?"
        return self._rows("delayed", where, self._job, now, limit)

    def next_row_due(self) -> float | None:
        due: float | None = self._one("SELECT min(not_before) FROM requests WHERE job = ? AND place = 1")
        return due

    def waiting(self, host_key: str, limit: int) -> list[Row]:
        number = self._numbers_of({host_key: None})[host_key]
        where = f"host = ? AND {_NOT_HELD} ORDER BY"
        found = self._rows("queue", f"place = 0 AND {where} priority DESC, requests.number LIMIT ?", number, limit)
        left = limit - len(found)
        if left:
            found += self._rows("away", f"place IN (1, 7) AND {where} requests.number LIMIT ?", number, left)
        return found

    def dead_rows(self, error_class: str, limit: int, after: int) -> list[Row]:
        page = "ORDER BY requests.number LIMIT ? OFFSET ?"
        where = "requests.job = ? AND place = 5"
        if error_class:
            where += " AND error_class = ?"
            return self._rows("dead_class", f"{where} {page}", self._job, error_class, limit, after)
        return self._rows("dead", f"{where} {page}", self._job, limit, after)

    def _rows(self, index: str, where: str, *values: object) -> list[Row]:
        # The index is named because the planner, which has no statistics, would rather scan the job.
        query = (
            f"SELECT {_ROW} FROM requests INDEXED BY {index} CROSS JOIN hosts ON hosts.number = requests.host"
            f" WHERE {where}"
        )
        return [_row(*columns) for columns in self._execute(query, values)]

    # ---- hosts

    def hosts(self, keys: Sequence[str]) -> dict[str, Host]:
        found = self._execute(
            "SELECT number, record FROM hosts WHERE job = ? AND key IN (SELECT value FROM json_each(?))",
            (self._job, json.dumps(keys)),
        )
        hosts: dict[str, Host] = {}
        for number, record in found:
            host = _decode_host(record)
            hosts[host.key] = host
            self._numbers[host.key] = number
        return hosts

    def save_hosts(self, hosts: Sequence[Host]) -> None:
        numbers = self._numbers_of({host.key: None for host in hosts})
        self._executemany(
            _SAVE_HOST, [(h.phase, h.top, h.served, due_at(h), _encode(h), numbers[h.key]) for h in hosts]
        )

    def _numbers_of(self, keys: dict[str, None]) -> dict[str, int]:
        """The numbers of hosts. A host that has none gets one, and an empty record."""
        numbers = self._numbers
        if not keys.keys() <= numbers.keys():
            if len(numbers) > _MOST_NUMBERS:
                numbers.clear()
            self.hosts([key for key in keys if key not in numbers])
            for key in keys:
                if key not in numbers:
                    added = self._execute(
                        "INSERT INTO hosts (job, key, phase, top, served, due, record) VALUES (?, ?, 0, 0, 0, 0, ?)",
                        (self._job, key, _encode(Host(key))),
                    )
                    assert added.lastrowid is not None
                    numbers[key] = added.lastrowid
        return numbers

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

    def given_up_hosts(self, limit: int) -> list[str]:
        found = self._execute(
            "SELECT key FROM hosts INDEXED BY given_up WHERE job = ? AND phase = 4 ORDER BY key LIMIT ?",
            (self._job, limit),
        )
        return [key for (key,) in found]

    def loads(self, addresses: Sequence[str]) -> dict[str, int]:
        found = self._execute(
            "SELECT address, leases FROM addresses WHERE job = ? AND address IN (SELECT value FROM json_each(?))",
            (self._job, json.dumps(addresses)),
        )
        return dict(found.fetchall())

    def save_loads(self, loads: dict[str, int]) -> None:
        job = self._job
        self._executemany(
            "INSERT OR REPLACE INTO addresses VALUES (?, ?, ?)",
            [(job, address, leases) for address, leases in loads.items() if leases],
        )
        self._executemany(
            "DELETE FROM addresses WHERE job = ? AND address = ?",
            [(job, address) for address, leases in loads.items() if not leases],
        )

    def park(self, hosts: Sequence[Host]) -> None:
        self._executemany(
            "INSERT OR REPLACE INTO parked VALUES (?, ?, ?, ?, ?)",
            [(self._job, host.key, host.address, host.top, host.served) for host in hosts],
        )

    def unpark(self, host_keys: Sequence[str]) -> None:
        self._executemany("DELETE FROM parked WHERE job = ? AND key = ?", [(self._job, key) for key in host_keys])

    def parked_hosts(self, address: str | None, limit: int) -> list[str]:
        if address is None:
            found = self._execute("SELECT key FROM parked WHERE job = ? LIMIT ?", (self._job, limit))
        else:
            found = self._execute(
                "SELECT key FROM parked INDEXED BY parked_order WHERE job = ? AND address = ?"
                " ORDER BY top DESC, served, key LIMIT ?",
                (self._job, address, limit),
            )
        return [key for (key,) in found]

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
            f"INSERT OR REPLACE INTO holds (job, {_HOLD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(job, h.work, h.id, h.epoch, h.worker, h.deadline, h.alone, _hold_record(h)) for h in holds],
        )

    def drop_holds(self, holds: Sequence[Hold]) -> None:
        self._executemany(
            "DELETE FROM holds WHERE job = ? AND work = ? AND id = ?",
            [(self._job, hold.work, hold.id) for hold in holds],
        )

    def expired_holds(self, now: float, limit: int) -> list[Hold]:
        return self._holds("deadline <= ? ORDER BY deadline, epoch LIMIT ?", now, limit)

    def first_deadline(self) -> float | None:
        first: float | None = self._one("SELECT min(deadline) FROM holds WHERE job = ?")
        return first

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
        return [_hold(*columns) for columns in found]

    # ---- workers

    def heard_from(self, worker: str, now: float) -> None:
        self._execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", (self._job, worker, now))

    def save_card(self, worker: str, card: WorkerCard) -> None:
        self._execute("INSERT OR REPLACE INTO cards VALUES (?, ?, ?)", (self._job, worker, _encode(card)))

    def forget_worker(self, worker: str) -> None:
        for table in ("workers", "cards"):
            self._execute(f"DELETE FROM {table} WHERE job = ? AND worker = ?", (self._job, worker))

    def number_of_workers(self) -> int:
        return int(self._one("SELECT COUNT(*) FROM workers WHERE job = ?"))

    def workers(self) -> list[tuple[str, float, WorkerCard | None]]:
        found = self._execute(
            "SELECT worker, heard_at, card FROM workers LEFT JOIN cards USING (job, worker) WHERE job = ?"
            " ORDER BY worker",
            (self._job,),
        )
        return [(worker, heard_at, _decode_card(card) if card else None) for worker, heard_at, card in found]

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
    number: int,
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
    seq, where = number & _SEQ_MASK, _PLACES[place]
    times = (not_before, added_at, ended_at)
    counts = (attempts, losses, losses_alone, blocks)
    return Row(seq, request_id, host_key, priority, payload, where, *counts, *times, status, error_class, error)


def _hold_record(hold: Hold) -> bytes:
    row = hold.row
    if row is None:
        told: tuple[Any, ...] = (0, 0, 0.0, "", b"")
    else:
        told = (row.seq, row.priority, row.not_before, row.error_class, _history(row))
    # Most leases are counted under no address, and files from before have none.
    return _encode((hold.host_key, hold.leased_at, hold.staged, *told, *([hold.address] if hold.address else [])))


def _hold(work: int, request_id: int, epoch: int, worker: str, deadline: float, alone: int, record: bytes) -> Hold:
    r = _decode_hold(record)
    row = None
    if r.history:
        told = (r.not_before, r.error_class, r.history)
        row = _row(r.seq, request_id, r.host_key, r.priority, b"", Place.LEASED, *told)
    times = (r.leased_at, deadline)
    return Hold(_WORKS[work], request_id, epoch, worker, r.host_key, *times, bool(alone), r.staged, row, r.address)
