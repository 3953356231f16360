"""The consistency check of a job in shards: each shard by itself, and then the records of all against the lead's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.consistency import Consistency, Finding, merged

_TRIES = 3
"""Records of shards are not read at one instant: what counts was found each time."""
_decode = msgspec.msgpack.decode


async def check_shards(shard_set: ShardSet, *, repair: bool) -> Consistency:
    """Compare every shard with itself and with the lead."""
    await shard_set.refresh_all()
    reports = [await _check_shard(shard_set, shard, repair=repair) for shard in shard_set.shards]
    if not any("unreadable" in report.counts for report in reports):
        reports.append(await _compare(shard_set))
    return merged(reports)


async def _check_shard(shard_set: ShardSet, shard: Shard, *, repair: bool) -> Consistency:
    report = await shard_set.call(
        shard, lambda shard: shard.check_keys(repair=repair, belongs=lambda key: shard_set.shard_of(key) is shard)
    )
    report.findings = [
        msgspec.structs.replace(finding, place=f"shard {shard.number}: {finding.place}") for finding in report.findings
    ]
    return report


async def _compare(shard_set: ShardSet) -> Consistency:
    report, found = Consistency(), [finding async for finding in _differences(shard_set)]
    for _ in range(_TRIES - 1):
        if found:
            again = [finding async for finding in _differences(shard_set)]
            found = [finding for finding in found if finding in again]
    for finding in found:
        report.add(finding)
    return report


async def _differences(shard_set: ShardSet) -> Any:
    await shard_set.refresh_all()
    # In this order: a target's positions never pass those of the shards, nor are behind what shards forget for it.
    outboxes = await shard_set.call_each(Shard.stored_sinks)
    targets = await shard_set.lead.stored_targets()
    records = await shard_set.call_each(Shard.stored_record)
    lead = records[0]
    for shard, lost in (await shard_set.lost_links()).items():
        if lost:
            yield _finding("lost_links", shard.number, "links of pages that have ended", "all", f"{lost} missing")
    for finding in _of_outbox(targets, records, outboxes):
        yield finding
    for number, (record, sinks) in enumerate(zip(records, outboxes, strict=True)):
        for finding in (*_of_record(lead, number, record), *_of_targets(targets, number, record, sinks)):
            yield finding


def _of_record(lead: dict[str, Any], number: int, record: dict[str, Any]) -> Iterator[Finding]:
    for name in ("run", "secret", "shards", "version", "state"):
        if record[name] != lead[name]:
            shown = ("another one", "its own") if name == "secret" else (lead[name], record[name])
            yield _finding("shard", number, name, *shown)
    if record["shard"] != number:
        yield _finding("shard", number, "its number", number, record["shard"])
    if record["permits"] > lead["permits"]:
        yield _finding("permit", number, "permitted hosts that it knows of", lead["permits"], record["permits"])
    given = lead["given"][number][1] if len(lead["given"]) > number else 0
    if record["settings"].get("max_pages") is not None and record["allotted"] > given:
        yield _finding("page_limit", number, "pages that it may have", f"{given} at most", record["allotted"])


def _of_targets(
    targets: dict[str, list[int] | None], number: int, record: dict[str, Any], sinks: dict[str, int]
) -> Iterator[Finding]:
    if targets.keys() != sinks.keys():
        yield _finding("shard", number, "targets that it keeps items for", sorted(targets), sorted(sinks))
    for target, positions in targets.items():
        if positions is None:
            continue
        if positions[number] > record["position"]:
            what = f"the position of {target}"
            yield _finding("sink_position", number, what, f"{record['position']} at most", positions[number])
        if sinks.get(target, 0) > positions[number]:
            what = f"items that it has forgotten for {target}"
            yield _finding("sink_position", number, what, f"{positions[number]} at most", sinks[target])


def _of_outbox(
    targets: dict[str, list[int] | None], records: list[dict[str, Any]], outboxes: list[dict[str, int]]
) -> Iterator[Finding]:
    """An outbox that is full of items which every output has: nothing would be leased any more."""
    newest = [record["position"] for record in records]
    lacking = max((sum(newest) - sum(positions) for positions in targets.values() if positions is not None), default=0)
    kept = sum(max(0, last - min(sinks.values(), default=last)) for last, sinks in zip(newest, outboxes, strict=True))
    if kept >= records[0]["settings"]["max_outbox_items"] > lacking:
        yield _finding("outbox_leftover", 0, "items that some output lacks", lacking, kept)


def _finding(code: str, number: int, what: str, expected: object, found: object) -> Finding:
    return Finding(
        code=code, place=f"shard {number}", what=what, expected=str(expected), found=str(found), mendable=False
    )
