"""The jobs in one file: their list, and how one is removed."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from skitter.audit.entry import DONE, Draft
from skitter.audit.sqlite_table import move_to_archive
from skitter.frontier.clock import StoreClock
from skitter.frontier.recorded_frontier import NOT_THERE
from skitter.frontier.sqlite.store import SqliteStore, missing_file
from skitter.frontier.tables import JobRow
from skitter.model.audit import Actor

_TABLES = (
    "requests pages hosts ready_for needs addresses parked robots permits holds workers heartbeats staged outbox sinks"
    " intakes proxies host_proxies jars sessions delivered distinct_urls jobs"
).split()


def list_jobs(path: Path, *, shared: bool = False) -> list[str]:
    """The names of the jobs in a file."""
    with closing(_open(path, shared)) as store:
        return store.names()


def drop_job(path: Path, job_name: str, *, shared: bool = False, actor: Actor | None = None) -> bool:
    """Remove a job, and the file when it was the last one; False: there was none of this name.

    The removal is recorded as the actor's, if there is one. What the trail has stays, in the file or beside it.
    """
    with closing(_open(path, shared)) as store:
        dropped = store.drop(job_name, actor)
        empty = not store.names()
        if dropped and empty:
            store.keep_trail()
    if dropped and empty:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return dropped


def _open(path: Path, shared: bool) -> _JobsStore:
    if not os.path.lexists(path):
        raise missing_file(path)
    return _JobsStore(path, "", StoreClock(), shared=shared)


class _JobsStore(SqliteStore):
    """The file without any one job in view, in the thread of the caller."""

    def names(self) -> list[str]:
        with self._errors():
            # As bytes: a name that is no text must not hide the other jobs.
            found = self._connection.execute("SELECT CAST(name AS BLOB) FROM jobs ORDER BY name").fetchall()
        return [name.decode(errors="backslashreplace") for (name,) in found]

    def drop(self, job_name: str, actor: Actor | None) -> bool:
        def drop() -> bool:
            before = self._seen(job_name) if actor is not None else {}
            dropped = self._drop(job_name)
            if actor is not None:
                outcome = DONE if dropped else NOT_THERE
                self.append_to_trail(Draft(actor=actor, action="drop", job=job_name, before=before, outcome=outcome))
            return dropped

        return self._transact(lambda _: drop())

    def keep_trail(self) -> None:
        """Copy the entries of the trail to the file beside this one, which is about to be removed."""
        with self._errors():
            if self._connection.execute("SELECT 1 FROM audit LIMIT 1").fetchone():
                move_to_archive(self._connection, self._path, shared=self._shared)

    def _seen(self, job_name: str) -> dict[str, Any]:
        found = self._connection.execute("SELECT record FROM jobs WHERE name = ?", (job_name,)).fetchone()
        try:
            record = msgspec.msgpack.decode(found[0], type=JobRow) if found is not None else None
        except (msgspec.MsgspecError, TypeError):
            return {"state": "damaged"}
        return {} if record is None else {"state": str(record.state), "run": record.run}

    def _drop(self, job_name: str) -> bool:
        found = self._connection.execute("SELECT job FROM jobs WHERE name = ?", (job_name,)).fetchone()
        if found is None:
            return False
        # Those that are there: a damaged job is what people want to drop.
        known = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        for table in _TABLES:
            if table in known:
                self._connection.execute(f"DELETE FROM {table} WHERE job = ?", found)
        return True

    def close(self) -> None:  # type: ignore[override]
        self._connection.close()
        self._thread.shutdown()
