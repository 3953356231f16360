"""The log of a job, of all its nodes: read from a stream of events, or made of what the frontier knows.

A frontier keeps no log (ADR 0016). Of what has happened it knows the beginning of the run, its workers, its newest
failures and how it stands; while it is followed, every change of these is told as the nodes tell it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import msgspec

from skitter.app.report_polling import MAX_FAILURES, NEWEST_FAILURES, ReportDiff
from skitter.cluster.process_identity import is_alive
from skitter.errors import EventStreamUnavailableError
from skitter.event_streams.contract import EventReader
from skitter.frontier.contract import Frontier
from skitter.model.job import FailedRequest, Report, State
from skitter.observe import events
from skitter.observe.event_record import event_record

WAIT_SECONDS = 1.0
AWAY_SECONDS = 2.0
POLL_SECONDS = 1.0

Record = dict[str, Any]
"""An event as ``--log-format json`` writes it."""


def stream_records(reader: EventReader, job: str, since: float, *, follow: bool) -> Iterator[Record]:
    """Give out the events of a job that a stream has, and with ``follow`` those to come.

    While it is followed, a server that is unavailable is waited for. What is repeated is given out once.
    """
    newest: dict[str, int] = {}
    reader.begin(job, since)
    while True:
        try:
            found = reader.read(WAIT_SECONDS)
        except EventStreamUnavailableError:
            if not follow:
                raise
            reader.close()
            time.sleep(AWAY_SECONDS)
            found = _begun_again(reader, job, since)
        for body in found:
            record = _decoded(body)
            if record is None or record.get("job") != job:
                continue
            since = max(since, time_of(record))
            publisher, sequence = str(record.get("publisher", "")), record.get("sequence")
            if isinstance(sequence, int):
                if sequence <= newest.get(publisher, 0):
                    continue
                newest[publisher] = sequence
            yield record
        if not follow and reader.is_at_end:
            return


def _begun_again(reader: EventReader, job: str, since: float) -> list[bytes]:
    try:
        reader.begin(job, since)
    except EventStreamUnavailableError:
        reader.close()
    return []


def _decoded(body: bytes) -> Record | None:
    """Return a record; None for what is no event: anybody may publish there."""
    try:
        record = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else None


def time_of(record: Record) -> float:
    """Return the time of a record; 0 if it has none."""
    try:
        return datetime.fromisoformat(str(record.get("time"))).timestamp()
    except (ValueError, OverflowError):
        return 0.0


async def frontier_records(frontier: Frontier, since: float, *, follow: bool) -> AsyncIterator[Record]:
    """Give out what the frontier knows to have happened, oldest first, and with ``follow`` every change of it."""
    found = _Changes()
    report = await frontier.report(0)
    await found.failures(frontier, report)
    found.look(report)
    for record in sorted(found.take(), key=time_of):
        if time_of(record) >= since:
            yield record
    while follow:
        await asyncio.sleep(POLL_SECONDS)
        report = await frontier.report(0)
        await found.failures(frontier, report)
        found.look(report)
        for record in found.take():
            yield record


class _Changes:
    """Events made of two reports, one after the other."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._job = ""
        self._diff = ReportDiff(self._add)
        self._run = 0
        self._workers: dict[str, bool] = {}
        self._failed = 0
        self._failed_at = 0.0

    def take(self) -> list[Record]:
        records, self._records = self._records, []
        return records

    def look(self, report: Report) -> None:
        """Compare a report with the one before; of the first one tell what it knows of earlier times."""
        job, self._job = report.job, report.job.spec.name
        is_first = not self._run
        if job.run != self._run:
            self._run = job.run
            self._add(_at(events.JOB_BEGUN(begun="begun", run=job.run), job.started_at))
        if is_first and job.state in (State.FINISHED, State.STOPPED):
            ended = events.JOB_STATE(state=job.state, before="running", reason=job.reason)
            self._add(_at(ended, job.ended_at))
        self._diff.update(report)
        seen: dict[str, bool] = {}
        for worker in report.workers:
            seen[worker.id] = alive = is_alive(worker, job)
            heartbeat = worker.heartbeat
            if heartbeat is not None and worker.id not in self._workers:
                told = {"version": heartbeat.version, "spider": heartbeat.spider or "built-in spider"}
                joined = events.WORKER_JOINED(
                    worker=worker.id, host_name=heartbeat.host_name, pid=heartbeat.pid, **told
                )
                self._add(_at(joined, heartbeat.started_at), heartbeat.host_name)
            if not alive and self._workers.get(worker.id, is_first):
                silent = events.WORKER_SILENT(worker=worker.id, seconds=round(worker.silent_seconds, 1))
                self._add(silent, heartbeat.host_name if heartbeat else "")
        for worker_id in self._workers.keys() - seen.keys():
            self._add(events.WORKER_LEFT(worker=worker_id, reason="it is no longer listed"))
        self._workers = seen

    async def failures(self, frontier: Frontier, report: Report) -> None:
        """Tell of the newest failures, if there are others than before."""
        failed, self._job = report.counts.failed, report.job.spec.name
        if failed == self._failed or failed > MAX_FAILURES:
            return
        self._failed = failed
        newest = await frontier.failures(limit=NEWEST_FAILURES, newest=True)
        for one in sorted(newest, key=lambda one: one.ended_at):
            if one.ended_at > self._failed_at:
                self._failed_at = one.ended_at
                self._add(_failed(one))

    def _add(self, event: events.Event, node: str = "") -> None:
        # Which machine it happened on is not known, unless a worker's heartbeat tells.
        self._records.append(event_record(event, self._job) | {"node": node})


def _failed(one: FailedRequest) -> events.Event:
    error = one.error.strip().splitlines()[-1:] or [""]
    told = events.REQUEST_FAILED(url=one.url, error_class=one.error_class, error=error[0], attempts=one.attempts)
    return _at(told, one.ended_at)


def _at(event: events.Event, at: float) -> events.Event:
    return msgspec.structs.replace(event, at=at)
