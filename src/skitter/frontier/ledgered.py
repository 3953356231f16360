"""The frontier contract over a ledger: one transaction per call, wherever the store runs it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

import msgspec

from skitter.errors import JobError, VanishedError
from skitter.frontier import reading
from skitter.frontier.books import no_such_job, require_job
from skitter.frontier.damaged_values import settings_of
from skitter.frontier.ledger import Ledger
from skitter.frontier.tables import JobRow, Row, SinkRow, Tables
from skitter.model.job import (
    Begun,
    Command,
    Counts,
    Dead,
    Item,
    Job,
    JobSpec,
    Report,
    SinkProgress,
    State,
    Trace,
)
from skitter.model.lease import Grant, Lease
from skitter.model.outcome import Committed, Outcome, RobotsRecord
from skitter.model.request import Entry
from skitter.model.worker import WorkerCard, WorkerSeen
from skitter.settings import Settings

T = TypeVar("T")

SINK_OWNER_SECONDS = 30.0
"""A sink whose owner has not been heard from for this long may be taken over."""
_REVIVE_BATCH = 1000


class Store(Protocol):
    """Where the rows are, and in which thread they are touched."""

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Tables]:
        """Everything inside happens at once, or not at all. Without ``write`` nothing is kept."""
        ...

    async def run(self, call: Callable[[], T], *, brief: bool = False) -> T:
        """Run a call that may block. ``brief``: it is one transaction that writes, of a batch or less."""
        ...

    def use_open_file(self) -> bool:
        """After VanishedError: go on with what is still open, for what can be saved. False: nothing is."""
        ...

    async def close(self) -> None: ...


class TransactionalFrontier:
    """A Frontier for any Store; one job, one process."""

    def __init__(self, store: Store, job_name: str) -> None:
        self._store = store
        self._name = job_name
        self._permits_known = (0, 0)
        self._exists = False
        """The job was there."""
        self._settings: tuple[dict[str, object], Settings] = ({}, Settings())

    # ---- the job

    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        def begin() -> Begun:
            with self._store.transaction() as tables:
                begun = self._begin(tables, spec, fresh)
                job = tables.load_job()
                assert job is not None
                for target in set(sinks) - {sink.target for sink in tables.sinks()}:
                    tables.save_sink(SinkRow(target, SinkProgress(position=job.position)))
                return begun

        begun = await self._store.run(begin)
        self._exists = True
        return begun

    @staticmethod
    def _begin(tables: Tables, spec: JobSpec, fresh: bool) -> Begun:
        job, now = tables.load_job(), tables.clock()
        if job is None:
            row = JobRow(spec=spec, secret=secrets.token_bytes(16), started_at=now)
            tables.save_job(row)
            return Begun.NEW
        # Finished in the store is not finished for the user while a target lacks items.
        over = job.state is State.FINISHED and all(
            sink.progress.closed and sink.progress.position >= job.position for sink in tables.sinks()
        )
        if fresh or over:
            tables.forget_run()
            row = JobRow(spec=spec, secret=job.secret, run=job.run + 1, started_at=now, position=job.position)
            row.next_epoch = job.next_epoch
            tables.save_job(row)
            return Begun.RERUN
        if not job.spec.same_work(spec):
            raise JobError(
                f"job {spec.name} is unfinished and has another spider, other seeds or other arguments",
                hint="--fresh forgets the unfinished run; --job NAME keeps both",
            )
        job.spec = spec
        # Whoever starts the job again vouches for its start(): a few kill -9 must not end the seeding.
        job.seed_losses = 0
        if job.state in (State.STOPPED, State.DRAINING):
            job.state, job.ended_at, job.reason = State.RUNNING, 0.0, ""
        tables.save_job(job)
        return Begun.RESUMED

    async def job(self) -> Job:
        def read() -> Job:
            with self._store.transaction(write=False) as tables:
                return require_job(self._found(tables.load_job()), self._name)

        return await self._store.run(read)

    async def command(self, command: Command) -> Job:
        def tell(ledger: Ledger) -> Job:
            job = ledger.job
            if command is Command.PAUSE and job.state is State.RUNNING:
                job.state = State.PAUSED
            elif command is Command.RESUME and job.state in (State.PAUSED, State.STOPPED, State.DRAINING):
                job.state, job.ended_at, job.reason = State.RUNNING, 0.0, ""
            elif command is Command.STOP and job.state in (State.RUNNING, State.PAUSED):
                job.state, job.reason = State.DRAINING, "command"
            ledger.settle()
            return require_job(job, self._name)

        return await self._in_ledger(tell)

    # ---- work

    async def add(self, entries: Sequence[Entry]) -> int:
        def add(ledger: Ledger) -> int:
            new = ledger.add(entries)
            if new:
                ledger.reopen()
            return new

        return await self._in_ledger(add, brief=True)

    async def lease(self, worker: str, limit: int) -> Grant:
        grant, known = await self._in_ledger(lambda ledger: self._lease(ledger, worker, limit), brief=True)
        self._permits_known = known
        return grant

    def _lease(self, ledger: Ledger, worker: str, limit: int) -> tuple[Grant, tuple[int, int]]:
        """The grant, and what this client will know of the permits if the transaction succeeds: (run, number)."""
        run, known = self._permits_known
        if run != ledger.job.run:
            known = 0
        grant = ledger.lease(worker, limit, known)
        return grant, (grant.run, known + len(grant.permitted))

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        return await self._in_ledger(lambda ledger: ledger.renew(worker, leases))

    async def tell(self, worker: str, card: WorkerCard | None) -> None:
        await self._in_ledger(lambda ledger: ledger.tell(worker, card))

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0) -> Committed:
        def commit(ledger: Ledger) -> tuple[Committed, tuple[int, int]]:
            committed = ledger.commit(outcomes)
            if not want:
                return committed, self._permits_known
            grant, known = self._lease(ledger, worker, want)
            return msgspec.structs.replace(committed, grant=grant), known

        committed, self._permits_known = await self._in_ledger(commit, brief=True)
        return committed

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        await self._in_ledger(lambda ledger: ledger.release(leases, late=late, touched=touched), brief=True)

    async def release_worker(self, worker: str) -> int:
        return await self._in_ledger(lambda ledger: ledger.release_worker(worker))

    async def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        return await self._in_ledger(lambda ledger: ledger.relieve_worker(worker, page, pause_seconds))

    async def reap(self) -> int:
        return await self._in_ledger(lambda ledger: ledger.reap().total())

    async def revive(self, error_class: str = "", ids: Sequence[int] = ()) -> int:
        def revive(ledger: Ledger) -> int:
            revived = ledger.revive(self._dead_rows(ledger, error_class, ids))
            if revived:
                ledger.reopen()
            return revived

        if ids:
            return await self._in_ledger(revive)
        # A transaction each, so that a million dead requests do not lock the others out.
        total = 0
        while True:
            some = await self._in_ledger(revive)
            total += some
            if some < _REVIVE_BATCH:
                return total

    def _dead_rows(self, ledger: Ledger, error_class: str, ids: Sequence[int]) -> list[Row]:
        if ids:
            found = ledger.tables.rows(ids).values()
            return [row for row in found if reading.is_dead(row) and error_class in ("", row.error_class)]
        return ledger.tables.dead_rows(error_class, _REVIVE_BATCH, 0)

    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        def read() -> dict[str, RobotsRecord]:
            with self._store.transaction(write=False) as tables:
                found = {key: tables.robots(key) for key in host_keys}
            return {key: record for key, record in found.items() if record is not None}

        return await self._store.run(read)

    # ---- the outbox

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        def open_sink(ledger: Ledger) -> SinkProgress | None:
            found = [sink for sink in ledger.tables.sinks() if sink.target == target]
            sink = found[0] if found else SinkRow(target, SinkProgress(position=ledger.job.position))
            if sink.owner not in ("", owner) and sink.owned_until > ledger.now:
                return None
            sink.owner, sink.owned_until = owner, ledger.now + SINK_OWNER_SECONDS
            ledger.tables.save_sink(sink)
            return sink.progress

        return await self._in_ledger(open_sink)

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        def read(ledger: Ledger) -> list[Item] | None:
            sink = self._owned(ledger, target, owner)
            if sink is None:
                return None
            sink.owned_until = ledger.now + SINK_OWNER_SECONDS
            ledger.tables.save_sink(sink)
            return ledger.tables.items(sink.progress.position, limit)

        return await self._in_ledger(read, brief=True)

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        def done(ledger: Ledger) -> bool:
            sink = self._owned(ledger, target, owner)
            if sink is None:
                return False
            sink.progress, sink.owned_until = progress, ledger.now + SINK_OWNER_SECONDS
            ledger.tables.save_sink(sink)
            ledger.tables.drop_items(min(other.progress.position for other in ledger.tables.sinks()))
            return True

        return await self._in_ledger(done, brief=True)

    async def peek(self, after: int, limit: int) -> list[Item]:
        def read() -> list[Item]:
            with self._store.transaction(write=False) as tables:
                return tables.items(after, limit)

        return await self._store.run(read)

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        def close(ledger: Ledger) -> None:
            sink = self._owned(ledger, target, owner)
            if sink is not None and forget:
                ledger.tables.drop_sink(target)
                left = (other.progress.position for other in ledger.tables.sinks())
                ledger.tables.drop_items(min(left, default=ledger.job.position))
            elif sink is not None:
                sink.owner, sink.owned_until = "", 0.0
                ledger.tables.save_sink(sink)

        await self._in_ledger(close)

    @staticmethod
    def _owned(ledger: Ledger, target: str, owner: str) -> SinkRow | None:
        for sink in ledger.tables.sinks():
            if sink.target == target and sink.owner == owner:
                return sink
        return None

    # ---- reading

    async def counts(self) -> Counts:
        return await self._in_ledger(lambda ledger: ledger.counts(), write=False)

    async def report(self, hosts: int = 5, queues: int = 0) -> Report:
        return await self._in_ledger(lambda ledger: reading.report(ledger, hosts, queues), write=False)

    async def workers(self) -> list[WorkerSeen]:
        return await self._in_ledger(reading.workers, write=False)

    async def trace(self, request_id: int, host_key: str = "") -> Trace | None:  # noqa: ARG002 - rows are found by id
        return await self._in_ledger(lambda ledger: reading.trace(ledger, request_id), write=False)

    async def dead(self, error_class: str = "", limit: int = 1000, after: int = 0) -> list[Dead]:
        return await self._in_ledger(
            lambda ledger: [reading.dead(row) for row in ledger.tables.dead_rows(error_class, limit, after)],
            write=False,
        )

    async def close(self) -> None:
        await self._store.close()

    def use_open_file(self) -> bool:
        """After VanishedError: go on with what is still open, for what can be saved. False: nothing is."""
        return self._store.use_open_file()

    # ---- how a call is made

    def _found(self, job: JobRow | None) -> JobRow:
        if job is not None:
            self._exists = True
            return job
        if self._exists:
            raise VanishedError(
                f"the job was removed from its store while it was in use: {self._name}",
                hint="the same crawl command begins anew",
            )
        raise no_such_job(self._name)

    async def _in_ledger(self, call: Callable[[Ledger], T], *, write: bool = True, brief: bool = False) -> T:
        def run() -> T:
            with self._ledger(write) as ledger:
                return call(ledger)

        return await self._store.run(run, brief=brief)

    @contextmanager
    def _ledger(self, write: bool) -> Iterator[Ledger]:
        with self._store.transaction(write=write) as tables:
            job = self._found(tables.load_job())
            if job.spec.settings != self._settings[0]:
                self._settings = (job.spec.settings, settings_of(job.spec))
            ledger = Ledger(tables, job, self._settings[1])
            yield ledger
            if write:
                ledger.close()
