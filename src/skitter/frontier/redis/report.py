"""Reports and traces of a job in Redis, decoded from the answers of its scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from skitter.frontier.contract import MAX_PRIORITY, NEEDS_TOLD
from skitter.frontier.damage_errors import checked_time
from skitter.frontier.dedup_settings import bloom_stats, dedup_of
from skitter.frontier.redis import codec
from skitter.frontier.tables import (
    DELIVERED,
    ENDED,
    MAYBE_SEEN,
    STATE_NAMES,
    JobRow,
    RequestState,
    pages_per_second,
    public_job,
    trace_without_record,
)
from skitter.model.intake import IntakeSeen
from skitter.model.job import Counts, FailedRequest, HostPage, HostSeen, JobSpec, NeedSeen, Report, SinkSeen, Trace
from skitter.model.proxy import ProxySeen, seen_of
from skitter.model.request import decode
from skitter.model.worker import WorkerHeartbeat, WorkerSeen

TRACE_BATCH = 2000
"""Queued requests that one call of trace.lua looks through: about a millisecond of the server's time."""
QUEUED_OR_ENDED = "queued-or-ended"
_decode_filled = msgspec.msgpack.Decoder(tuple[list[int], list[int]]).decode
_decode_heartbeat = msgspec.msgpack.Decoder(WorkerHeartbeat).decode


def counts(job: JobRow | codec.JobRecord) -> Counts:
    return Counts(
        queued=job.queued,
        delayed=job.delayed,
        leased=job.leased,
        done=job.done,
        redirected=job.redirected,
        failed=job.failed,
        excluded=job.excluded,
    )


def report(answer: Sequence[Any], spec: JobSpec, notable: int, queues: int) -> Report:
    record, _, time, tally, errors, _, workers, _, _, deadline, _, intakes, filled = answer
    job, now = codec.job_row(record, spec), checked_time(float(time))
    seen = sinks_seen(outbox_of_report(answer))
    return Report(
        job=public_job(job),
        counts=counts(job),
        tally={name.decode(): int(amount) for name, amount in _tuples(tally, 2)},
        errors={name.decode(): int(amount) for name, amount in _tuples(errors, 2)},
        undelivered=max((sink.undelivered for sink in seen), default=0),
        sinks=seen,
        workers=workers_seen(workers, now),
        hosts=top(slow_hosts(answer), notable),
        crowded=top(crowded_hosts(answer), queues),
        pages_per_second=pages_per_second(job, now),
        overdue_seconds=max(0.0, now - float(deadline)),
        needs=most_needed(needs_of(answer)),
        dedup=bloom_stats(dedup_of(spec), codec.shards_of(record), *_decode_filled(filled)) if filled else None,
        intakes=intakes_seen(intakes, now),
        paused_hosts=codec.decode_record(record).paused_hosts,
    )


def intakes_seen(flat: Sequence[Any], now: float) -> list[IntakeSeen]:
    """The intakes by source, from what intakes.lua answers."""
    found = [codec.decode_intake(record).seen(source.decode(), now) for source, record in _tuples(flat, 2)]
    return sorted(found, key=lambda intake: intake.source)


def proxies_seen(time: bytes, records: Sequence[bytes], at_hosts: Sequence[bytes]) -> list[ProxySeen]:
    now, bans = checked_time(float(time)), dict[str, dict[str, float]]()
    for host, record in _tuples(at_hosts, 2):
        for pair in codec.decode_host_proxies(record).pairs:
            bans.setdefault(pair.id, {})[host.decode()] = pair.until
    proxies = sorted(map(codec.decode_proxy, records), key=lambda proxy: proxy.id)
    return [
        seen_of(proxy, now, bans.get(proxy.id, {})) for proxy in proxies if proxy.in_flight or not proxy.is_gone(now)
    ]


def needs_of(answer: Sequence[Any]) -> dict[str, int]:
    """How many queued requests have each need."""
    return {codec.read_need(name): int(queued) for name, queued in _tuples(answer[10], 2)}


def most_needed(needs: dict[str, int]) -> list[NeedSeen]:
    """The needs that most requests have."""
    ordered = sorted(needs.items(), key=lambda pair: (-pair[1], pair[0]))
    return [NeedSeen(name, queued) for name, queued in ordered[:NEEDS_TOLD]]


def workers_seen(flat: Sequence[Any], now: float) -> list[WorkerSeen]:
    """The workers by id, from what list_workers answers (1_job.lua)."""
    workers = (
        WorkerSeen(
            name.decode(),
            leased,
            max(0.0, now - checked_time(float(at))),
            _decode_heartbeat(heartbeat) if heartbeat else None,
        )
        for name, at, leased, heartbeat in _tuples(flat, 4)
    )
    return sorted(workers, key=lambda worker: worker.id)


Scored = list[tuple[float, HostSeen]]
"""Hosts with their scores: how slow and troubled they are, or how long their queues."""


def slow_hosts(answer: Sequence[Any]) -> Scored:
    return _scored(answer[7], float(answer[2]))


def crowded_hosts(answer: Sequence[Any]) -> Scored:
    return _scored(answer[8], float(answer[2]))


def _scored(flat: Sequence[Any], now: float) -> Scored:
    return [(float(score), _host_seen(key.decode(), fields, now)) for key, score, fields in _tuples(flat, 3)]


def scan_cursor(after: str) -> int:
    """The cursor that a page of hosts ended with; the beginning for what is none."""
    cursor = int(after) if after.isascii() and after.isdecimal() else 0
    return cursor if cursor < 2**64 else 0


def host_page(answer: Sequence[Any]) -> HostPage:
    """A piece of the list of hosts, from what hosts.lua answers."""
    time, cursor, flat = answer
    # HSCAN may tell of a host twice, also in one piece.
    hosts = {key: _host_seen(key.decode(), fields, float(time)) for key, fields in _tuples(flat, 2)}
    return HostPage([hosts[key] for key in sorted(hosts)], "" if cursor == b"0" else cursor.decode())


def top(hosts: Scored, limit: int) -> list[HostSeen]:
    """The hosts with the highest scores, those first."""
    return [host for _, host in sorted(hosts, key=lambda pair: (-pair[0], pair[1].key))[:limit]]


class OutboxSeen(msgspec.Struct, frozen=True):
    """The outbox of a job, or of one of its shards."""

    now: float
    position: int
    """Of the newest item."""
    bound: int
    """Items that a target may lack before nothing is leased any more."""
    targets: dict[bytes, codec.SinkRecord]

    def delivered(self, target: bytes) -> int:
        """The position of a target; that of the newest item if it is not known here."""
        found = self.targets.get(target)
        return self.position if found is None else found.position


def outbox(answer: Sequence[Any]) -> OutboxSeen:
    """The outbox, from what sinks.lua answers."""
    time, position, bound, targets = answer
    return OutboxSeen(checked_time(float(time)), position, bound, _targets(targets))


def outbox_of_report(answer: Sequence[Any]) -> OutboxSeen:
    """The outbox, from what report.lua answers."""
    record = codec.decode_record(answer[0])
    bound = record.settings["max_outbox_items"]
    return OutboxSeen(checked_time(float(answer[2])), record.position, bound, _targets(answer[5]))


def _targets(flat: Sequence[Any]) -> dict[bytes, codec.SinkRecord]:
    return {name: codec.decode_sink(sink) for name, sink in _tuples(flat, 2)}


def sinks_seen(outbox: OutboxSeen) -> list[SinkSeen]:
    return [sink_seen(name, sink, outbox.position, outbox.bound, outbox.now) for name, sink in outbox.targets.items()]


def sink_seen(target: bytes, sink: codec.SinkRecord, position: int, bound: int, now: float) -> SinkSeen:
    """A target of a job with ``position`` items, of which it may lack fewer than ``bound``."""
    owned = sink.owned_until > now
    return SinkSeen(
        target=target.decode(),
        # A server that has lost items may have fewer than were delivered.
        undelivered=max(0, position - sink.position),
        owner=sink.owner if owned else "",
        blocking=position - sink.position >= bound,
        closed=sink.closed,
        rejected=sink.rejected,
        trouble=sink.trouble if owned else "",
    )


def trace(answer: Sequence[Any], host_key: str) -> Trace | None:
    if answer[0] == b"none":
        return None
    if answer[0] == b"maybe":
        return trace_without_record(MAYBE_SEEN)
    if answer[0] == b"seen":
        return trace_without_record(ENDED if host_key else QUEUED_OR_ENDED)
    if answer[0] == DELIVERED.encode():
        return trace_without_record(DELIVERED)
    _, time, worker, host_fields, *fields = answer
    row, now = codec.read_row(fields), checked_time(float(time))
    request = decode(row.payload)
    host = _host_seen(row.host_key, host_fields, now)
    waits = row.state in (RequestState.QUEUED, RequestState.SUSPECT, RequestState.DELAYED)
    return Trace(
        state=STATE_NAMES[row.state],
        url=request.url,
        depth=request.depth,
        # A priority beyond what Lua has counts as the last that it has.
        priority=row.priority if abs(row.priority) < MAX_PRIORITY else request.priority,
        attempts=row.attempts,
        losses=row.losses,
        referrer=request.referrer,
        added_at=0.0,
        ended_at=checked_time(row.ended_at),
        status=row.status,
        error_class=row.error_class,
        error=row.error,
        ready_in_seconds=max(checked_time(row.not_before) - now, host.due_seconds) if waits else 0.0,
        worker=worker.decode(),
        host=host,
        need=row.need,
    )


def failed_request(fields: Sequence[Any]) -> FailedRequest:
    row = codec.read_row(fields[1:])
    request = decode(row.payload)
    return FailedRequest(
        id=codec.read_id(fields[0]),
        url=request.url,
        error_class=row.error_class,
        error=row.error,
        status=row.status,
        attempts=row.attempts,
        losses=row.losses,
        referrer=request.referrer,
        ended_at=checked_time(row.ended_at),
        position=row.seq,
    )


def _host_seen(key: str, fields: Sequence[Any], now: float) -> HostSeen:
    queued, in_flight, due, blocked_until, strikes, latency, error_class, address, address_full, *rest = fields
    pages, stopped_by, paused, given_up = rest
    blocked_seconds = max(0.0, checked_time(float(blocked_until)) - now)
    return HostSeen(
        key=key,
        queued=queued,
        in_flight=in_flight,
        due_seconds=max(blocked_seconds, checked_time(float(due)) - now),
        blocked_seconds=blocked_seconds,
        latency_seconds=checked_time(float(latency)),
        strikes=strikes,
        error_class=error_class.decode(),
        address=address.decode(),
        address_full=address_full == 1,
        pages=pages,
        stopped_by=stopped_by.decode(),
        paused=paused == 1,
        given_up=given_up == 1,
    )


def _tuples(flat: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """The elements of a flat answer in groups of ``size``."""
    return zip(*[iter(flat)] * size, strict=True)
