"""The report, the trace and the lists that people read, from a job's tables."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.frontier.contract import BATCH, NEEDS_TOLD
from skitter.frontier.damage_errors import checked_text, checked_time
from skitter.frontier.rules.transaction import Transaction
from skitter.frontier.tables import (
    DELIVERED,
    ENDED,
    MAYBE_SEEN,
    STATE_NAMES,
    RequestState,
    Row,
    counts_of,
    pages_per_second,
    public_job,
    trace_without_record,
)
from skitter.model.host import Halt, Host, HostFilter
from skitter.model.job import FailedRequest, HostPage, HostSeen, NeedSeen, Report, SinkSeen, Trace
from skitter.model.lease import Work
from skitter.model.request import decode
from skitter.model.worker import WorkerSeen
from skitter.policy import politeness

MOST_COUNTED = 100_000
"""Of a host's queue. People need no exact figure beyond, and counting a million would hold up the crawl."""
MOST_COUNTED_IN_LISTS = 10_000
"""The same where many hosts are listed."""


def is_dead(row: Row) -> bool:
    return row.state is RequestState.FAILED


def report(transaction: Transaction, notable: int, queues: int) -> Report:
    job, seen = transaction.record, sinks(transaction)
    return Report(
        job=public_job(job),
        counts=counts_of(job),
        tally=dict(job.tally),
        errors=dict(job.errors),
        undelivered=max((sink.undelivered for sink in seen), default=0),
        sinks=seen,
        workers=workers(transaction),
        hosts=_hosts_seen(transaction, sorted(job.notable, key=lambda key: (-job.notable[key], key))[:notable]),
        crowded=_hosts_seen(transaction, transaction.tables.longest_queues(queues) if queues else []),
        pages_per_second=pages_per_second(job, transaction.now),
        overdue_seconds=max(0.0, transaction.now - (transaction.tables.first_deadline() or transaction.now)),
        needs=[NeedSeen(need, queued) for need, queued in transaction.tables.needs(NEEDS_TOLD)] if job.needy else [],
        dedup=transaction.tables.filter_stats(),
        intakes=transaction.intakes.seen(),
        paused_hosts=job.paused_hosts,
    )


def hosts(transaction: Transaction, state: HostFilter, limit: int, after: str) -> HostPage:
    """The hosts in a state among the next ones by key."""
    found = transaction.tables.hosts_after(after, max(1, min(limit, BATCH)))
    listed = [host for host in found if _is_in(transaction, host, state)]
    return HostPage(
        [_host_seen(transaction, host, MOST_COUNTED_IN_LISTS) for host in listed],
        found[-1].key if len(found) == max(1, min(limit, BATCH)) else "",
    )


def _is_in(transaction: Transaction, host: Host, state: HostFilter) -> bool:
    if state is HostFilter.PAUSED:
        return _halt_of(transaction, host) is Halt.PAUSED
    if state is HostFilter.GIVEN_UP:
        return _is_given_up(transaction, host)
    return state is HostFilter.ALL or host.blocked_until > transaction.now


def _halt_of(transaction: Transaction, host: Host) -> Halt:
    return host.halt if host.run == transaction.record.run else Halt.NONE


def _is_given_up(transaction: Transaction, host: Host) -> bool:
    if host.run != transaction.record.run:
        return False
    is_down = host.given_up is not None or politeness.is_down(host, transaction.settings.retry)
    return host.halt is Halt.GIVEN_UP or is_down


def _hosts_seen(transaction: Transaction, keys: Sequence[str]) -> list[HostSeen]:
    found = transaction.tables.hosts(keys)
    return [_host_seen(transaction, found[key]) for key in keys if key in found]


def sinks(transaction: Transaction) -> list[SinkSeen]:
    position, bound = transaction.record.position, transaction.settings.limits.max_outbox_items
    return [
        SinkSeen(
            target=sink.target,
            undelivered=position - sink.progress.position,
            owner=sink.owner if sink.owned_until > transaction.now else "",
            blocking=position - sink.progress.position >= bound,
            closed=sink.progress.closed,
            rejected=sink.progress.rejected,
            trouble=sink.progress.trouble if sink.owned_until > transaction.now else "",
        )
        for sink in transaction.tables.sinks()
    ]


def workers(transaction: Transaction) -> list[WorkerSeen]:
    tables = transaction.tables
    return [
        WorkerSeen(worker, tables.load_of(worker)[0], max(0.0, transaction.now - checked_time(heard_at)), heartbeat)
        for worker, heard_at, heartbeat in tables.workers()
    ]


def trace(transaction: Transaction, request_id: int) -> Trace | None:
    tables = transaction.tables
    row = tables.row(request_id)
    if row is None:
        return _trace_without_row(transaction, request_id)
    request = decode(row.payload)
    host = transaction.tables.hosts([row.host_key]).get(row.host_key)
    lease = transaction.tables.leases([(Work.PAGE, request_id)]).get((Work.PAGE, request_id))
    waits = lease is None and row.state in (RequestState.QUEUED, RequestState.SUSPECT, RequestState.DELAYED)
    ready_at = max(row.not_before, politeness.due_at(host) if host else 0.0) if waits else 0.0
    return Trace(
        state=STATE_NAMES[RequestState.LEASED if lease else row.state],
        url=request.url,
        depth=request.depth,
        priority=row.priority,
        attempts=row.attempts,
        losses=row.losses,
        referrer=request.referrer,
        added_at=checked_time(row.added_at),
        ended_at=checked_time(row.ended_at),
        status=row.status,
        error_class=checked_text(row.error_class),
        error=row.error,
        ready_in_seconds=max(0.0, checked_time(ready_at) - transaction.now),
        worker=lease.worker if lease else "",
        host=_host_seen(transaction, host) if host else None,
        need=row.need,
    )


def _trace_without_row(transaction: Transaction, request_id: int) -> Trace | None:
    tables = transaction.tables
    if tables.can_forget and tables.known([request_id]):
        return trace_without_record(ENDED)
    if tables.can_forget and tables.maybe_known([request_id]):
        return trace_without_record(MAYBE_SEEN)
    is_delivered = transaction.settings.dedup.dedup_scope == "job" and tables.delivered([request_id])
    return trace_without_record(DELIVERED) if is_delivered else None


def failed_request(row: Row) -> FailedRequest:
    request = decode(row.payload)
    return FailedRequest(
        id=row.id,
        url=request.url,
        error_class=checked_text(row.error_class),
        error=row.error,
        status=row.status,
        attempts=row.attempts,
        losses=row.losses,
        referrer=request.referrer,
        ended_at=checked_time(row.ended_at),
        position=row.seq,
    )


def _host_seen(transaction: Transaction, host: Host, most_counted: int = MOST_COUNTED) -> HostSeen:
    now, is_current = transaction.now, host.run == transaction.record.run
    return HostSeen(
        key=host.key,
        queued=transaction.tables.queue_length(host.key, most_counted),
        in_flight=host.in_flight if is_current else 0,
        due_seconds=max(0.0, checked_time(politeness.due_at(host)) - now),
        blocked_seconds=max(0.0, checked_time(host.blocked_until) - now),
        latency_seconds=checked_time(host.latency_seconds),
        strikes=host.strikes + host.blocks if is_current else 0,
        error_class=host.error_class,
        address=host.address,
        address_full=transaction.hosts.addresses.is_full(host.address),
        pages=host.pages if is_current else 0,
        stopped_by=transaction.hosts.budgets.rule(host) if is_current and transaction.hosts.budgets is not None else "",
        paused=_halt_of(transaction, host) is Halt.PAUSED,
        given_up=_is_given_up(transaction, host),
    )
