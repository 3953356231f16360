"""What people are told about a job, read from its tables."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.frontier.books import pages_per_second, require_job
from skitter.frontier.damaged_values import checked_text, checked_time
from skitter.frontier.ledger import Ledger
from skitter.frontier.tables import RequestState, Row
from skitter.model.host import Host
from skitter.model.job import Dead, HostSeen, Report, SinkSeen, Trace
from skitter.model.lease import Work
from skitter.model.request import decode
from skitter.model.worker import WorkerSeen
from skitter.policy import politeness

MOST_COUNTED = 100_000
"""Of a host's queue. People need no exact figure beyond, and counting a million would hold up the crawl."""
STATE_OF = {place: place.name.lower() for place in RequestState} | {RequestState.SUSPECT: "queued"}


def is_dead(row: Row) -> bool:
    return row.place is RequestState.DEAD


def report(ledger: Ledger, notable: int, queues: int) -> Report:
    job, bound = ledger.job, ledger.settings.limits.max_outbox_items
    sinks = [
        SinkSeen(
            target=sink.target,
            undelivered=job.position - sink.progress.position,
            owner=sink.owner if sink.owned_until > ledger.now else "",
            blocking=job.position - sink.progress.position >= bound,
            rejected=sink.progress.rejected,
            trouble=sink.progress.trouble if sink.owned_until > ledger.now else "",
        )
        for sink in ledger.tables.sinks()
    ]
    return Report(
        job=require_job(job, job.spec.name),
        counts=ledger.counts(),
        tally=dict(job.tally),
        errors=dict(job.errors),
        undelivered=max((sink.undelivered for sink in sinks), default=0),
        sinks=sinks,
        workers=workers(ledger),
        hosts=_hosts_seen(ledger, sorted(job.notable, key=lambda key: (-job.notable[key], key))[:notable]),
        crowded=_hosts_seen(ledger, ledger.tables.longest_queues(queues) if queues else []),
        pages_per_second=pages_per_second(job, ledger.now),
        overdue_seconds=max(0.0, ledger.now - (ledger.tables.first_deadline() or ledger.now)),
    )


def _hosts_seen(ledger: Ledger, keys: Sequence[str]) -> list[HostSeen]:
    found = ledger.tables.hosts(keys)
    return [_host_seen(ledger, found[key]) for key in keys if key in found]


def workers(ledger: Ledger) -> list[WorkerSeen]:
    return [
        WorkerSeen(worker, ledger.tables.load_of(worker)[0], max(0.0, ledger.now - checked_time(heard_at)), card)
        for worker, heard_at, card in ledger.tables.workers()
    ]


def trace(ledger: Ledger, request_id: int) -> Trace | None:
    row = ledger.tables.row(request_id)
    if row is None:
        return None
    request = decode(row.payload)
    host = ledger.tables.hosts([row.host_key]).get(row.host_key)
    hold = ledger.tables.holds([(Work.PAGE, request_id)]).get((Work.PAGE, request_id))
    waits = hold is None and row.place in (RequestState.QUEUED, RequestState.SUSPECT, RequestState.DELAYED)
    ready_at = max(row.not_before, politeness.due_at(host) if host else 0.0) if waits else 0.0
    return Trace(
        state=STATE_OF[RequestState.LEASED if hold else row.place],
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
        ready_in_seconds=max(0.0, checked_time(ready_at) - ledger.now),
        worker=hold.worker if hold else "",
        host=_host_seen(ledger, host) if host else None,
    )


def dead(row: Row) -> Dead:
    request = decode(row.payload)
    return Dead(
        id=row.id,
        url=request.url,
        error_class=checked_text(row.error_class),
        error=row.error,
        status=row.status,
        attempts=row.attempts,
        losses=row.losses,
        referrer=request.referrer,
        ended_at=checked_time(row.ended_at),
    )


def _host_seen(ledger: Ledger, host: Host) -> HostSeen:
    now, is_current = ledger.now, host.run == ledger.job.run
    return HostSeen(
        key=host.key,
        queued=ledger.tables.queue_length(host.key, MOST_COUNTED),
        in_flight=host.in_flight,
        due_seconds=max(0.0, checked_time(politeness.due_at(host)) - now),
        blocked_seconds=max(0.0, checked_time(host.blocked_until) - now),
        latency_seconds=checked_time(host.latency_seconds),
        strikes=host.strikes + host.blocks,
        error_class=host.error_class,
        address=host.address,
        address_full=ledger.addresses.is_full(host.address),
        pages=host.pages if is_current else 0,
        stopped_by=ledger.budgets.rule(host) if is_current and ledger.budgets is not None else "",
    )
