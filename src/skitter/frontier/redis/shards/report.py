"""Reports of a job in shards, merged from those of its shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from skitter.dedup.bloom_layout import stats_together
from skitter.frontier.redis import codec
from skitter.frontier.redis import report as shard_report
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.frontier.tables import MAYBE_SEEN
from skitter.model.host import HostFilter
from skitter.model.job import Counts, FailedRequest, HostPage, Report, SinkSeen, Trace
from skitter.model.proxy import ProxySeen
from skitter.model.worker import WorkerSeen

PASSES = 3
"""The most passes over the shards, until two of them agree."""


class MergedReport:
    """Reads all shards, and again, until nothing has changed in between."""

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set

    async def counts(self) -> Counts:
        records = await self._shard_set.call_each(Shard.record)
        for _ in range(PASSES):
            before = [record.changes for record in records]
            records = await self._shard_set.call_each(Shard.record)
            if [record.changes for record in records] == before:
                break
        return _sum_counts(records)

    async def workers(self) -> list[WorkerSeen]:
        return _workers(await self._shard_set.call_each(Shard.workers))

    async def sinks(self) -> list[SinkSeen]:
        # In this order: what is delivered or committed meanwhile can only make a target seem to lack more.
        targets = await self._shard_set.lead.ask("targets")
        return _sinks(targets, await self._shard_set.call_each(Shard.outbox))

    async def report(self, hosts: int, queues: int) -> Report:
        passes = 0
        while True:
            answers = await self._shard_set.call_each(lambda shard: shard.report_and_changes(hosts, queues))
            targets = await self._shard_set.lead.ask("targets")
            exact = [status.changes for status in await self._shard_set.refresh_all()] == [
                changes for _, changes in answers
            ]
            passes += 1
            if exact or passes == PASSES:
                break
        # What the job is, only the lead has.
        spec = self._shard_set.lead.spec
        reports = [shard_report.report(answer, spec, 0, 0) for answer, _ in answers]
        job = reports[0].job
        sinks = _sinks(targets, [shard_report.outbox_of_report(answer) for answer, _ in answers])
        return msgspec.structs.replace(
            reports[0],
            counts=_sum_counts([report.counts for report in reports]),
            tally=dict(_sum(report.tally for report in reports)),
            errors=dict(_sum(report.errors for report in reports)),
            undelivered=max((sink.undelivered for sink in sinks), default=0),
            sinks=sinks,
            workers=_workers(report.workers for report in reports),
            hosts=shard_report.top([host for answer, _ in answers for host in shard_report.slow_hosts(answer)], hosts),
            crowded=shard_report.top(
                [host for answer, _ in answers for host in shard_report.crowded_hosts(answer)], queues
            ),
            # When the run is over, only the lead knows.
            pages_per_second=0.0 if job.ended_at else sum(report.pages_per_second for report in reports),
            overdue_seconds=max(report.overdue_seconds for report in reports),
            needs=shard_report.most_needed(_sum(shard_report.needs_of(answer) for answer, _ in answers)),
            dedup=stats_together(filled) if (filled := [each.dedup for each in reports if each.dedup]) else None,
            paused_hosts=sum(report.paused_hosts for report in reports),
            exact=exact,
        )

    async def hosts(self, state: HostFilter, limit: int, after: str) -> HostPage:
        """A piece of one shard; its number and a colon stand before where to go on there."""
        shards = self._shard_set.shards
        number, _, cursor = after.partition(":")
        index = shard_report.scan_cursor(number)
        if index >= len(shards):
            return HostPage([], "")
        page = await self._shard_set.call(shards[index], lambda shard: shard.hosts(state, limit, cursor))
        following = f"{index}:{page.after}" if page.after else f"{index + 1}:" if index + 1 < len(shards) else ""
        return HostPage(page.hosts, following)

    async def trace(self, request_id: int, host_key: str) -> Trace | None:
        if host_key:
            return await self._shard_set.call(
                self._shard_set.shard_of(host_key), lambda shard: shard.trace(request_id, host_key)
            )
        found = await self._shard_set.call_each(lambda shard: shard.trace(request_id))
        # A filter takes some ids for known by mistake: who really has the request comes first.
        traces = sorted((trace for trace in found if trace is not None), key=lambda trace: trace.state == MAYBE_SEEN)
        return next(iter(traces), None)

    async def failures(self, error_class: str, limit: int, after: int, *, newest: bool) -> list[FailedRequest]:
        """By their position in a shard, then by shard: positions of this method are made of both."""
        shards = len(self._shard_set.shards)

        async def ask(shard: Shard) -> list[FailedRequest]:
            # The position of this shard to go on from; sequences begin with 1, and 0 is the beginning of the list.
            if not after:
                passed = 0
            elif newest:
                passed = max(1, -((shard.number - after) // shards))
            else:
                passed = max(0, (after - shard.number) // shards)
            found = await shard.failures(error_class, limit, passed, newest=newest)
            return [
                msgspec.structs.replace(failed, position=failed.position * shards + shard.number) for failed in found
            ]

        found = [failed for listed in await self._shard_set.call_each(ask) for failed in listed]
        return sorted(found, key=lambda failed: failed.position, reverse=newest)[:limit]


def _sum_counts(counted: Sequence[Counts | codec.JobRecord]) -> Counts:
    return Counts(**{name: sum(getattr(one, name) for one in counted) for name in Counts.__struct_fields__})


def _sum(counters: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _workers(of_shards: Iterable[Iterable[WorkerSeen]]) -> list[WorkerSeen]:
    """The workers: one has been silent for as long as in the shard that heard from it last."""
    seen: dict[str, WorkerSeen] = {}
    for worker in (worker for workers in of_shards for worker in workers):
        other = seen.get(worker.id)
        if other is not None:
            silent = min(worker.silent_seconds, other.silent_seconds)
            leased, heartbeat = worker.leased + other.leased, worker.heartbeat or other.heartbeat
            worker = WorkerSeen(worker.id, leased, silent, heartbeat)  # noqa: PLW2901 - one of both
        seen[worker.id] = worker
    return [seen[name] for name in sorted(seen)]


def joined_proxies(of_shards: Iterable[Iterable[ProxySeen]]) -> list[ProxySeen]:
    """The proxies of all shards: counts are sums, averages are weighted by answers and failures."""
    groups: dict[str, list[ProxySeen]] = {}
    for proxy in (proxy for proxies in of_shards for proxy in proxies):
        groups.setdefault(proxy.id, []).append(proxy)
    return [_joined(groups[known]) for known in sorted(groups)]


def _joined(parts: Sequence[ProxySeen]) -> ProxySeen:
    total = sum(part.answers + part.failures for part in parts)
    answers = sum(part.answers for part in parts)
    rate = sum(part.success_rate * (part.answers + part.failures) for part in parts) / total if total else 1.0
    latency = sum(part.latency_seconds * part.answers for part in parts) / answers if answers else 0.0
    return msgspec.structs.replace(
        parts[0],
        in_flight=sum(part.in_flight for part in parts),
        answers=answers,
        failures=sum(part.failures for part in parts),
        success_rate=rate,
        latency_seconds=latency,
        # Each shard finds out by itself that a proxy is dead.
        resting_seconds=max(part.resting_seconds for part in parts),
        banned_seconds=max(part.banned_seconds for part in parts),
        banned_hosts={host: seconds for part in parts for host, seconds in part.banned_hosts.items()},
        bytes=sum(part.bytes for part in parts),
        error=next((part.error for part in parts if part.error), ""),
    )


def _sinks(targets: Sequence[Any], outboxes: Sequence[shard_report.OutboxSeen]) -> list[SinkSeen]:
    """The targets. The record at the lead has their positions; before a target's first item, only each shard has."""
    bound = outboxes[0].bound
    total, now = sum(outbox.position for outbox in outboxes), float(targets[0])
    seen = []
    for name, positions, closed, owner, owned_until, rejected, trouble in targets[1]:
        if positions is None:
            position = sum(outbox.delivered(name) for outbox in outboxes)
        else:
            position = sum(positions)
        record = codec.SinkRecord(position, closed == 1, owner.decode(), float(owned_until), rejected, trouble.decode())
        seen.append(shard_report.sink_seen(name, record, total, bound, now))
    return seen
