"""Reports of a job in shards, merged from those of its shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from skitter.frontier.redis import codec
from skitter.frontier.redis import report as shard_report
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.job import Counts, Dead, Report, SinkSeen, Trace
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

    async def report(self, hosts: int, queues: int) -> Report:
        passes = 0
        while True:
            answers = await self._shard_set.call_each(Shard.report_answer)
            targets = await self._shard_set.lead.ask("targets")
            exact = [status.changes for status in await self._shard_set.refresh_all()] == [
                changes for _, changes in answers
            ]
            passes += 1
            if exact or passes == PASSES:
                break
        # What the job is, only the lead has.
        spec = answers[0][0][1]
        reports = [shard_report.report([answer[0], spec, *answer[2:]], 0, 0) for answer, _ in answers]
        job = reports[0].job
        sinks = _sinks([answer for answer, _ in answers], targets)
        return msgspec.structs.replace(
            reports[0],
            counts=_sum_counts([report.counts for report in reports]),
            tally=dict(_sum(report.tally for report in reports)),
            errors=dict(_sum(report.errors for report in reports)),
            undelivered=max((sink.undelivered for sink in sinks), default=0),
            sinks=sinks,
            workers=_workers(reports),
            hosts=shard_report.top([host for answer, _ in answers for host in shard_report.slow_hosts(answer)], hosts),
            crowded=shard_report.top(
                [host for answer, _ in answers for host in shard_report.crowded_hosts(answer)], queues
            ),
            # When the run is over, only the lead knows.
            pages_per_second=0.0 if job.ended_at else sum(report.pages_per_second for report in reports),
            overdue_seconds=max(report.overdue_seconds for report in reports),
            exact=exact,
        )

    async def trace(self, request_id: int, host_key: str) -> Trace | None:
        if host_key:
            return await self._shard_set.call(
                self._shard_set.shard_of(host_key), lambda shard: shard.trace(request_id, host_key)
            )
        found = await self._shard_set.call_each(lambda shard: shard.trace(request_id))
        return next((trace for trace in found if trace is not None), None)

    async def dead(self, error_class: str, limit: int, after: int) -> list[Dead]:
        """Shard by shard: the order in which requests were added is known inside a shard only."""
        counts = await self._shard_set.call_each(lambda shard: shard.count_dead(error_class))
        found: list[Dead] = []
        for shard, count in zip(self._shard_set.shards, counts, strict=True):
            if after < count and len(found) < limit:
                found += await shard.dead(error_class, limit - len(found), after)
            after = max(0, after - count)
        return found


def _sum_counts(counted: Sequence[Counts | codec.JobRecord]) -> Counts:
    return Counts(**{name: sum(getattr(one, name) for one in counted) for name in Counts.__struct_fields__})


def _sum(counters: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _workers(reports: Sequence[Report]) -> list[WorkerSeen]:
    """The workers: one has been silent for as long as in the shard that heard from it last."""
    seen: dict[str, WorkerSeen] = {}
    for worker in (worker for report in reports for worker in report.workers):
        other = seen.get(worker.id)
        if other is not None:
            silent = min(worker.silent_seconds, other.silent_seconds)
            leased, card = worker.leased + other.leased, worker.card or other.card
            worker = WorkerSeen(worker.id, leased, silent, card)  # noqa: PLW2901 - one of both
        seen[worker.id] = worker
    return [seen[name] for name in sorted(seen)]


def _sinks(answers: Sequence[Sequence[Any]], targets: Sequence[Any]) -> list[SinkSeen]:
    """The targets. The record at the lead has their positions; before a target's first item, only each shard has."""
    records = [codec.decode_record(answer[0]) for answer in answers]
    bound = records[0].settings["max_outbox_items"]
    total, now = sum(record.position for record in records), float(targets[0])
    seen = []
    for name, positions, owner, owned_until, rejected, trouble in targets[1]:
        if positions is None:
            position = sum(shard_report.delivered(answer, name) for answer in answers)
        else:
            position = sum(positions)
        record = codec.SinkRecord(position, False, owner.decode(), float(owned_until), rejected, trouble.decode())
        seen.append(shard_report.sink_seen(name, record, total, bound, now))
    return seen
