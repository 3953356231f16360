"""Leases, and the workers that hold them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skitter.frontier.sqlite.job_table import JobTable, typed
from skitter.frontier.sqlite.row_codec import encode, lease_of, lease_record, listed
from skitter.frontier.tables import LeaseRow
from skitter.model.lease import Work
from skitter.model.worker import WorkerHeartbeat

_LEASE = "work, id, epoch, worker, deadline, alone, record"
_decode_heartbeat = msgspec.msgpack.Decoder(WorkerHeartbeat).decode


class LeaseTable(JobTable):
    """A lease carries the row of its request, which is not written before the lease ends."""

    def leases(self, keys: Sequence[tuple[Work, int]]) -> dict[tuple[Work, int], LeaseRow]:
        found: list[LeaseRow] = []
        for work in {work for work, _ in keys}:
            ids = listed([request_id for other, request_id in keys if other is work])
            found += self._leases("work = ? AND id IN (SELECT value FROM json_each(?))", work, ids)
        return {(lease.work, lease.id): lease for lease in found}

    def save_leases(self, leases: Sequence[LeaseRow]) -> None:
        job = self._job
        self._executemany(
            f"INSERT OR REPLACE INTO holds (job, {_LEASE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(job, +r.work, r.id, r.epoch, r.worker, r.deadline, +r.alone, lease_record(r)) for r in leases],
        )

    def drop_leases(self, leases: Sequence[LeaseRow]) -> None:
        self._executemany(
            "DELETE FROM holds WHERE job = ? AND work = ? AND id = ?",
            [(self._job, +lease.work, lease.id) for lease in leases],
        )

    def expired_leases(self, now: float, limit: int) -> list[LeaseRow]:
        return self._leases("deadline <= ? ORDER BY deadline, epoch LIMIT ?", now, limit)

    def first_deadline(self) -> float | None:
        first: float | None = self._one("SELECT min(deadline) FROM holds WHERE job = ?")
        return first

    def leases_of(self, worker: str) -> list[LeaseRow]:
        return self._leases("worker = ? ORDER BY epoch", worker)

    def load_of(self, worker: str) -> tuple[int, bool]:
        held, alone = self._execute(
            "SELECT count(*), max(alone) FROM holds WHERE job = ? AND worker = ?", (self._job, worker)
        ).fetchone()
        return held, bool(alone)

    def any_lease(self) -> bool:
        return self._one("SELECT 1 FROM holds WHERE job = ? LIMIT 1") is not None

    def _leases(self, where: str, *values: object) -> list[LeaseRow]:
        found = self._execute(f"SELECT {_LEASE} FROM holds WHERE job = ? AND {where}", (self._job, *values))
        return [lease_of(*columns) for columns in found]

    # ---- workers

    def heard_from(self, worker: str, now: float) -> None:
        self._execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?)", (self._job, worker, now))

    def save_heartbeat(self, worker: str, heartbeat: WorkerHeartbeat) -> None:
        self._execute("INSERT OR REPLACE INTO heartbeats VALUES (?, ?, ?)", (self._job, worker, encode(heartbeat)))

    def forget_worker(self, worker: str) -> None:
        for table in ("workers", "heartbeats"):
            self._execute(f"DELETE FROM {table} WHERE job = ? AND worker = ?", (self._job, worker))

    def number_of_workers(self) -> int:
        return int(self._one("SELECT COUNT(*) FROM workers WHERE job = ?"))

    def silent_workers(self, until: float) -> list[str]:
        found = self._execute("SELECT worker FROM workers WHERE job = ? AND heard_at <= ?", (self._job, until))
        return [worker for (worker,) in typed(found.fetchall(), str)]

    def workers(self) -> list[tuple[str, float, WorkerHeartbeat | None]]:
        found = self._execute(
            "SELECT worker, heard_at, coalesce(heartbeat, x'') FROM workers LEFT JOIN heartbeats USING (job, worker)"
            " WHERE job = ? ORDER BY worker",
            (self._job,),
        )
        rows = typed(found.fetchall(), str, float, bytes)
        return [
            (worker, heard_at, _decode_heartbeat(heartbeat) if heartbeat else None)
            for worker, heard_at, heartbeat in rows
        ]
