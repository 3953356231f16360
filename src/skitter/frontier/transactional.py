"""The frontier contract over any store that offers ``Tables``: one transaction per call, wherever the store runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from skitter.dedup.hyperloglog import checked_changes, with_changes
from skitter.errors import VanishedError
from skitter.frontier.contract import BATCH, Frontier
from skitter.frontier.damage_errors import settings_of
from skitter.frontier.rules import consistency, grants, job, report, shares
from skitter.frontier.rules.commit import CommitRules
from skitter.frontier.rules.transaction import Transaction
from skitter.frontier.tables import (
    Answer,
    JobRow,
    Row,
    Tables,
    counts_of,
    no_such_job,
    public_job,
    sessions_seen,
    state_of,
)
from skitter.model.audit import Actor
from skitter.model.consistency import Consistency
from skitter.model.host import Halt, HostCommand, HostFilter
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.item import Item
from skitter.model.job import (
    Begun,
    CloseClaim,
    Command,
    Counts,
    FailedRequest,
    HostPage,
    Job,
    JobSpec,
    JobState,
    Report,
    SinkProgress,
    SinkSeen,
    StopReason,
    Trace,
)
from skitter.model.lease import ONCE, Call, Grant, Lease
from skitter.model.outcome import Committed, Outcome, RobotsRecord
from skitter.model.page_record import KnownPage, PageRecord
from skitter.model.proxy import ProxySeen
from skitter.model.request import Entry
from skitter.model.session import CookieNews, Jar, JarRef, SessionLogin, SessionSeen
from skitter.model.store_capacity import StoreCapacity
from skitter.model.worker import WorkerHeartbeat, WorkerSeen
from skitter.settings import Settings

T = TypeVar("T")

_REVIVE_BATCH = 1000


class Store(Protocol):
    """Where the rows are, and in which thread they are touched."""

    async def run(self, call: Callable[[Tables], T], *, write: bool = True, brief: bool = False) -> T:
        """Run a call as one transaction: everything inside happens at once, or not at all.

        Without ``write`` nothing is kept. ``brief``: it writes, and of a batch or less.
        """
        ...

    async def wait_for_turn(self) -> None:
        """Return when a transaction need not wait for another process's."""
        ...

    def use_open_file(self) -> bool:
        """After VanishedError: go on with what is still open, for what can be saved. False: nothing is."""
        ...

    async def capacity(self) -> list[StoreCapacity]:
        """See ``Frontier.capacity``."""
        ...

    async def close(self) -> None: ...


class TransactionalFrontier:
    """A Frontier for any Store; one job, one process."""

    def __init__(self, store: Store, job_name: str) -> None:
        self._store = store
        self._name = job_name
        self._exists = False
        """The job was there."""
        self._settings: tuple[dict[str, object], Settings] = ({}, Settings())

    # ---- the job

    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        begun = await self._store.run(lambda tables: job.begin(tables, spec, fresh=fresh, sinks=sinks))
        self._exists = True
        return begun

    async def job(self) -> Job:
        return await self._store.run(lambda tables: public_job(self._found(tables.load_job())), write=False)

    async def state(self) -> JobState:
        return await self._store.run(lambda tables: state_of(self._found(tables.load_job())), write=False)

    async def command(self, command: Command, reason: StopReason = StopReason.COMMAND) -> Job:
        def act(transaction: Transaction) -> Job:
            transaction.job.command(command, reason)
            return public_job(transaction.record)

        return await self._run(act)

    async def claim_close(self, owner: str, *, done: bool = False) -> CloseClaim:
        return await self._run(lambda transaction: transaction.job.claim_close(owner, done=done))

    async def change_settings(self, values: Mapping[str, Any]) -> Job:
        def change(tables: Tables) -> Job:
            record = self._found(tables.load_job())
            job.use_spec(record, public_job(record).changed_spec(values), tables.clock())
            # With the new settings: a job that has done more than its new limit stops at once.
            Transaction(tables, record, settings_of(record.spec)).close()
            return public_job(record)

        return await self._store.run(change)

    # ---- work

    async def add(self, entries: Sequence[Entry]) -> int:
        def add(transaction: Transaction) -> int:
            new = transaction.requests.add(entries)
            if new:
                transaction.job.reopen()
            return new

        return await self._run(add, brief=True)

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        def lease(transaction: Transaction) -> Grant:
            if (earlier := _recall(transaction, worker, call)) is not None:
                return grants.lease_again(transaction, worker, earlier, call)
            grant = grants.lease(transaction, worker, limit, call)
            _remember(transaction, worker, call, [], grant)
            return grant

        return await self._run(lease, brief=True)

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        return await self._run(lambda transaction: transaction.leases.renew(worker, leases))

    async def tell(self, worker: str, heartbeat: WorkerHeartbeat | None) -> None:
        await self._run(lambda transaction: transaction.leases.tell(worker, heartbeat))

    async def count_distinct(self, changes: bytes) -> None:
        checked_changes(changes)

        def merge(transaction: Transaction) -> None:
            tables = transaction.tables
            tables.save_distinct_registers(with_changes(tables.distinct_registers(), changes))

        await self._run(merge)

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        def commit(transaction: Transaction) -> Committed:
            if (earlier := _recall(transaction, worker, call)) is not None:
                # What was new or struck was told with the answer that got lost.
                grant = grants.lease_again(transaction, worker, earlier, call) if want else None
                return Committed(earlier.accepted, grant)
            committed = CommitRules(transaction).commit(outcomes)
            if transaction.record.short_workers:
                shares.note_outcomes(transaction.record, transaction.now, worker, outcomes, committed.accepted)
            grant = grants.lease(transaction, worker, want, call) if want else None
            _remember(transaction, worker, call, committed.accepted, grant)
            return msgspec.structs.replace(committed, grant=grant)

        return await self._run(commit, brief=True)

    async def wait_for_turn(self) -> None:
        await self._store.wait_for_turn()

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        await self._run(lambda transaction: transaction.leases.release(leases, late=late, touched=touched), brief=True)

    async def release_worker(self, worker: str) -> int:
        def release(transaction: Transaction) -> int:
            transaction.job.release_close(worker)
            return transaction.leases.release_worker(worker)

        return await self._run(release)

    async def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        return await self._run(lambda transaction: transaction.leases.relieve_worker(worker, page, pause_seconds))

    async def reap(self) -> int:
        return await self._run(lambda transaction: transaction.leases.reap().total())

    async def revive(self, error_class: str = "", ids: Sequence[int] = ()) -> int:
        def revive(transaction: Transaction) -> int:
            revived = transaction.requests.revive(_failed_rows(transaction.tables, error_class, ids))
            if revived:
                transaction.job.reopen()
            return revived

        if ids:
            return await self._run(revive)
        # A transaction each, so that a million failed requests do not lock the others out.
        total = 0
        while True:
            some = await self._run(revive)
            total += some
            if some < _REVIVE_BATCH:
                return total

    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        def read(tables: Tables) -> dict[str, RobotsRecord]:
            found = {key: tables.robots(key) for key in host_keys}
            return {key: record for key, record in found.items() if record is not None}

        return await self._store.run(read, write=False)

    async def jars(self, wanted: Sequence[JarRef]) -> list[Jar]:
        return await self._run(lambda transaction: transaction.jars.read(wanted), write=False)

    async def log_in(self, login: SessionLogin, entries: Sequence[Entry], *, failed: bool = False) -> bool:
        def log_in(transaction: Transaction) -> bool:
            if not transaction.sessions.log_in(login.name, login.generation, entries, failed=failed):
                return False
            transaction.requests.add(entries)
            return True

        return await self._run(log_in)

    async def sessions(self) -> list[SessionSeen]:
        return await self._run(
            lambda transaction: sessions_seen(transaction.tables.all_jars(), transaction.tables.all_sessions()),
            write=False,
        )

    async def add_cookies(self, news: Sequence[CookieNews]) -> None:
        def add(transaction: Transaction) -> None:
            for one in news:
                transaction.jars.take(one)

        await self._run(add)

    async def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        return await self._run(lambda transaction: transaction.tables.known_pages(after, until, limit), write=False)

    # ---- the outbox

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        return await self._run(lambda transaction: transaction.outbox.open(target, owner))

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        return await self._run(lambda transaction: transaction.outbox.items(target, owner, limit), brief=True)

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        return await self._run(lambda transaction: transaction.outbox.done(target, owner, progress), brief=True)

    async def peek(self, after: int, limit: int) -> list[Item]:
        return await self._store.run(lambda tables: tables.items(after, limit), write=False)

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        await self._run(lambda transaction: transaction.outbox.close(target, owner, forget=forget))

    # ---- proxies

    async def register_proxy(self, url: str, owner: str, lifetime_seconds: float | None = None) -> str:
        return await self._run(lambda transaction: transaction.proxies().register(url, owner, lifetime_seconds))

    async def drain_proxy(self, proxy_id: str) -> int:
        return await self._run(lambda transaction: transaction.proxies().drain(proxy_id))

    async def remove_proxy(self, proxy_id: str) -> int:
        return await self._run(lambda transaction: transaction.proxies().remove(proxy_id))

    async def ban_proxy(self, proxy_id: str, host_key: str = "", seconds: float = 0.0) -> bool:
        return await self._run(lambda transaction: transaction.proxies().ban(proxy_id, host_key, seconds))

    async def proxies(self) -> list[ProxySeen]:
        return await self._run(lambda transaction: transaction.proxies().seen(), write=False)

    # ---- intakes

    async def open_intake(self, source: str, owner: str, *, alone: bool = False) -> bytes | None:
        return await self._run(lambda transaction: transaction.intakes.open(source, owner, alone=alone))

    async def tell_intake(self, source: str, owner: str, progress: IntakeProgress) -> bool:
        return await self._run(lambda transaction: transaction.intakes.tell(source, owner, progress), brief=True)

    async def leave_intake(self, source: str, owner: str) -> None:
        await self._run(lambda transaction: transaction.intakes.leave(source, owner))

    async def close_intake(self, source: str, owner: str) -> bool:
        return await self._run(lambda transaction: transaction.intakes.close(source, owner))

    async def intakes(self) -> list[IntakeSeen]:
        return await self._run(lambda transaction: transaction.intakes.seen(), write=False)

    # ---- hosts

    async def command_host(self, host_key: str, command: HostCommand) -> Halt | None:
        def act(transaction: Transaction) -> Halt | None:
            if not transaction.tables.hosts([host_key]):
                return None
            host = transaction.hosts.host(host_key)
            before = host.halt
            transaction.hosts.halt(host, command.halt)
            if command is HostCommand.GIVE_UP:
                transaction.requests.stop(host)
            return before

        return await self._run(act)

    async def hosts(self, state: HostFilter = HostFilter.ALL, limit: int = BATCH, after: str = "") -> HostPage:
        return await self._run(lambda transaction: report.hosts(transaction, state, limit, after), write=False)

    # ---- reading

    async def counts(self) -> Counts:
        return await self._run(lambda transaction: counts_of(transaction.record), write=False)

    async def report(self, hosts: int = 5, queues: int = 0) -> Report:
        return await self._run(lambda transaction: report.report(transaction, hosts, queues), write=False)

    async def sinks(self) -> list[SinkSeen]:
        return await self._run(report.sinks, write=False)

    async def workers(self) -> list[WorkerSeen]:
        return await self._run(report.workers, write=False)

    async def trace(self, request_id: int, host_key: str = "") -> Trace | None:  # noqa: ARG002 - rows are found by id
        return await self._run(lambda transaction: report.trace(transaction, request_id), write=False)

    async def page_record(self, request_id: int, host_key: str) -> PageRecord | None:  # noqa: ARG002 - found by id
        return await self._run(
            lambda transaction: transaction.tables.page_records([request_id]).get(request_id), write=False
        )

    async def failures(
        self, error_class: str = "", limit: int = 1000, after: int = 0, *, newest: bool = False
    ) -> list[FailedRequest]:
        def read(transaction: Transaction) -> list[FailedRequest]:
            rows = transaction.tables.failed_rows(error_class, limit, after, newest=newest)
            return [report.failed_request(row) for row in rows]

        return await self._run(read, write=False)

    async def distinct_urls(self) -> bytes:
        return await self._run(lambda transaction: transaction.tables.distinct_registers(), write=False)

    async def capacity(self) -> list[StoreCapacity]:
        return await self._store.capacity()

    async def check_consistency(self, *, repair: bool = False) -> Consistency:
        return await self._run(lambda transaction: consistency.check(transaction, repair=repair), write=repair)

    async def close(self) -> None:
        await self._store.close()

    def use_open_file(self) -> bool:
        """After VanishedError: go on with what is still open, for what can be saved. False: nothing is."""
        return self._store.use_open_file()

    def acting_for(self, actor: Actor) -> Frontier:
        """See ``contract.RecordsMutations``; a store without a trail records nothing."""
        from skitter.frontier.recorded_transactions import recorded_transactions

        return recorded_transactions(self, self._store, self._name, actor)

    # ---- how a call is made

    async def _run(self, call: Callable[[Transaction], T], *, write: bool = True, brief: bool = False) -> T:
        def run(tables: Tables) -> T:
            record = self._found(tables.load_job())
            if record.spec.settings != self._settings[0]:
                self._settings = (record.spec.settings, settings_of(record.spec))
            transaction = Transaction(tables, record, self._settings[1])
            result = call(transaction)
            if write:
                transaction.close()
            return result

        return await self._store.run(run, write=write, brief=brief)

    def _found(self, record: JobRow | None) -> JobRow:
        if record is not None:
            self._exists = True
            return record
        if self._exists:
            raise VanishedError(
                f"the job was removed from its store while it was in use: {self._name}",
                hint="run the same crawl command to start over",
            )
        raise no_such_job(self._name)


def _recall(transaction: Transaction, worker: str, call: Call) -> Answer | None:
    """What was answered before; None when it was some other call's answer."""
    answer = transaction.record.answers.get(worker) if call.token else None
    return answer if answer is not None and answer.token == call.token else None


def _remember(transaction: Transaction, worker: str, call: Call, accepted: list[bool], grant: Grant | None) -> None:
    """For when the call comes again. One that neither ended nor granted anything may well be made twice."""
    granted = len(grant.leases) if grant is not None else 0
    if call.token and (granted or accepted):
        # The newest epochs are those of this call, and none is left out.
        first = transaction.record.next_epoch - granted
        transaction.record.answers[worker] = Answer(call.token, first, granted, accepted)


def _failed_rows(tables: Tables, error_class: str, ids: Sequence[int]) -> list[Row]:
    if ids:
        found = tables.rows(ids).values()
        return [row for row in found if report.is_dead(row) and error_class in ("", row.error_class)]
    return tables.failed_rows(error_class, _REVIVE_BATCH, 0, newest=False)
