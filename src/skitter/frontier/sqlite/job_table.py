"""A job's own record, and what all its tables share: the connection, and which job it is.

The tables and indexes are described in schema.sql."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from skitter.dedup.hyperloglog import checked_registers
from skitter.frontier.clock import StoreClock
from skitter.frontier.damage_errors import checked_time
from skitter.frontier.sqlite.row_codec import SEQ_BITS, SEQ_MASK, encode
from skitter.frontier.tables import JobRow
from skitter.model.host import Phase
from skitter.model.job import JobSpec

_RUN_TABLES = (
    *("permits", "holds", "staged", "outbox", "sinks", "intakes", "addresses", "parked", "ready_for", "needs"),
    *("proxies", "host_proxies"),
)
_decode_job = msgspec.msgpack.Decoder(JobRow).decode
_decode_spec = msgspec.msgpack.Decoder(JobSpec).decode
_NO_SPEC = JobSpec(name="", spider="")


def typed(rows: list[tuple[Any, ...]], *kinds: type) -> list[tuple[Any, ...]]:
    """The rows; TypeError if a value has not the type of its column. For values that leave the store as they are."""
    for row in rows:
        if tuple(map(type, row)) != kinds:
            raise TypeError(f"not {', '.join(kind.__name__ for kind in kinds)}: {row[0]!r}")
    return rows


class JobTable:
    """The record of one job in an open connection. The caller begins and ends the transactions."""

    def __init__(self, connection: sqlite3.Connection, job_name: str, clock: StoreClock) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._name = job_name
        self._clock = clock
        self._time = 0.0
        self.forget_cache()

    def forget_cache(self) -> None:
        """After a rollback nothing that was remembered is certain."""
        self._job = 0  # its number in the file; 0: not known yet
        self._spec: JobSpec = _NO_SPEC
        self._spec_version = (-1, b"")

    def _one(self, query: str, *values: object) -> Any:
        found = self._execute(query, (self._job, *values)).fetchone()
        return None if found is None else found[0]

    def clock(self) -> float:
        return self._clock.now(self._time)

    def load_job(self) -> JobRow | None:
        found = self._execute(
            "SELECT job, clock, record, spec_version FROM jobs WHERE name = ?", (self._name,)
        ).fetchone()
        if found is None:
            return None
        self._job, self._time, record, version = found
        job = _decode_job(record)
        # By the secret too: versions count from 0 again in a job that is begun after one of the same name was dropped.
        if (version, job.secret) != self._spec_version:
            spec = self._execute("SELECT spec FROM jobs WHERE job = ?", (self._job,)).fetchone()[0]
            self._spec, self._spec_version = _decode_spec(spec), (version, job.secret)
        for time in (self._time, job.started_at, job.ended_at):
            checked_time(time)
        job.spec = self._spec
        return job

    def save_job(self, job: JobRow) -> None:
        # The spec may hold a hundred thousand seeds: it is written when it changes, not with each commit.
        spec, job.spec = job.spec, _NO_SPEC
        record = encode(job)
        job.spec = spec
        if spec is self._spec:
            self._execute("UPDATE jobs SET clock = ?, record = ? WHERE job = ?", (self.clock(), record, self._job))
            return
        self._execute(
            "INSERT INTO jobs (name, clock, record, spec_version, spec) VALUES (?, ?, ?, 0, ?) ON CONFLICT (name)"
            " DO UPDATE SET clock = excluded.clock, record = excluded.record, spec = excluded.spec,"
            " spec_version = spec_version + 1",
            (self._name, self.clock(), record, encode(spec)),
        )
        self.forget_cache()

    def distinct_registers(self) -> bytes:
        return checked_registers(self._one("SELECT registers FROM distinct_urls WHERE job = ?") or b"")

    def save_distinct_registers(self, registers: bytes) -> None:
        self._execute("INSERT OR REPLACE INTO distinct_urls VALUES (?, ?)", (self._job, registers))

    def forget_run(self) -> None:
        for table in _RUN_TABLES:
            self._execute(f"DELETE FROM {table} WHERE job = ?", (self._job,))
        first = self._job << SEQ_BITS
        self._execute("DELETE FROM requests WHERE number BETWEEN ? AND ?", (first, first | SEQ_MASK))
        self._execute("UPDATE hosts SET phase = ? WHERE job = ?", (Phase.IDLE, self._job))
