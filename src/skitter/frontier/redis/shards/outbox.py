"""The outbox of a job in shards: every shard keeps the items of its pages, and the lead one record for each target.

The record has the target's position in every shard's outbox, and which items come next: the plan. A plan is stored
before its items are handed out, so that whoever reads them again after a crash gets them in the same order. A position
in the outbox as a whole is the number of all items up to an item, in that order.

A server that is restarted or promoted may lack the newest items while the lead's does not. So the record also has the
newest reigns of each server when it gave the items (note_reign in 1_job.lua). If they are others now, the shard is
asked which items are still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from skitter.frontier.contract import SINK_OWNER_SECONDS
from skitter.frontier.redis import codec
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.item import Item
from skitter.model.job import SinkProgress

_NOTHING_TO_ADD = -1
"""The length of a plan to which plan_items.lua adds nothing: it only answers the record."""


class _TargetRecord(msgspec.Struct):
    """The record of a target at the lead: its positions, and the items that come next."""

    positions: list[int]
    """Its position in each shard's outbox; empty: not known yet."""
    plan: list[int]
    """Shard, number of items, shard, number of items, …"""
    reigns: list[str]
    """The newest reigns of each shard's server when it gave these items; an empty text: it must not be asked."""
    lead_reign: str
    """The reign of the lead's server when it gave this record."""

    @property
    def position(self) -> int:
        return sum(self.positions)

    @property
    def planned(self) -> int:
        return sum(self.plan[1::2])

    def parts(self, limit: int) -> Iterator[tuple[int, int]]:
        """The beginning of the plan, ``limit`` items long."""
        for shard, count in zip(self.plan[::2], self.plan[1::2], strict=True):
            if limit <= 0:
                return
            yield shard, min(count, limit)
            limit -= count

    def after(self, items: int) -> _TargetRecord:
        """The record when so many more of its items are done."""
        positions, plan = list(self.positions), []
        for shard, count in zip(self.plan[::2], self.plan[1::2], strict=True):
            done = max(0, min(count, items))
            positions[shard] += done
            items -= done
            if done < count:
                plan += [shard, count - done]
        return _TargetRecord(positions, plan, self.reigns, self.lead_reign)


class ShardedOutbox:
    """The Outbox of the contract, for all shards."""

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set
        self._given_by: dict[str, str] = {}
        """By target: the reign of the lead's server when it gave the record of the items that were read last."""

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        answer = await self._shard_set.lead.ask("open_target", target, owner, SINK_OWNER_SECONDS)
        if not answer:
            return None
        *fields, mark, closed, rejected, trouble = answer
        # Every shard keeps items for it from now on, if it did not before.
        await self._shard_set.sync_with_lead()
        record = await self._reconcile(target, owner, _decode_record(*fields))
        if record is None:
            return None
        self._given_by[target] = record.lead_reign
        # An owner that died may have recorded items at the lead that the shards still keep.
        await self._forget(target, record)
        return SinkProgress(record.position, mark, closed == 1, rejected, trouble.decode())

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        record = await self._read_record(target, owner)
        if record is None or limit == 0:
            return None if record is None else []
        while record is not None:
            if self._is_restarted(record):
                record = await self._reconcile(target, owner, record)
            if record is not None:
                record = await self._extend_plan(target, owner, record, limit)
            if record is not None:
                elements = await self._read(record, limit)
                if elements is not None:
                    self._given_by[target] = record.lead_reign
                    return codec.read_items(record.position + 1, elements)
                record = await self._reconcile(target, owner, record)
        return None

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        record = await self._read_record(target, owner)
        if record is not None and progress.position > record.position + record.planned:
            record = await self._extend_plan(target, owner, record, progress.position - record.position)
        if record is None:
            return False
        record = record.after(progress.position - record.position)
        remarks = (progress.rejected, progress.trouble)
        state = (progress.mark, int(progress.closed), self._given_by.get(target, ""), *remarks)
        positions = (len(record.positions), *record.positions, *record.plan)
        lead = self._shard_set.lead
        recorded = await lead.step("target_items_done", target, owner, SINK_OWNER_SECONDS, *state, *positions)
        if recorded == 1:
            await self._forget(target, record)
        # A lead that was restarted since has recorded nothing: the items are given again, and the writer knows them.
        return recorded != 0

    async def peek(self, after: int, limit: int) -> list[Item]:
        """Items by their position in a shard, then by shard: positions of this method are made of both."""
        shards = len(self._shard_set.shards)

        async def ask(shard: Shard) -> list[Item]:
            # The last position of this shard that is not behind ``after``.
            passed = (after - shard.number) // shards
            found = codec.read_items(*await shard.ask("peek_items", passed, limit))
            return [msgspec.structs.replace(item, position=item.position * shards + shard.number) for item in found]

        found = [item for items in await self._shard_set.call_each(ask) for item in items]
        return sorted(found, key=lambda item: item.position)[:limit]

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        await self._shard_set.lead.step("close_target", target, owner, int(forget))
        await self._shard_set.sync_with_lead()

    # ---- the record at the lead

    async def _read_record(self, target: str, owner: str) -> _TargetRecord | None:
        """The record of the target. None: the ownership was lost."""
        record = await self._store_plan(target, owner, _NOTHING_TO_ADD, [])
        if record is not None and not record.positions:
            return await self._reconcile(target, owner, record)
        return record

    async def _extend_plan(
        self, target: str, owner: str, record: _TargetRecord | None, limit: int
    ) -> _TargetRecord | None:
        """The record with a plan of ``limit`` items if there are so many."""
        while (
            record is not None
            and record.planned < limit
            and (parts := await self._next_parts(record, limit - record.planned))
        ):
            record = await self._store_plan(target, owner, len(record.plan), parts)
        return record

    async def _store_plan(self, target: str, owner: str, known: int, parts: Sequence[int]) -> _TargetRecord | None:
        answer: Any = await self._shard_set.lead.ask("plan_items", target, owner, SINK_OWNER_SECONDS, known, *parts)
        return _decode_record(*answer) if answer else None

    async def _next_parts(self, record: _TargetRecord, limit: int) -> list[int]:
        """The parts that follow the plan: items of one shard after the other, in turn."""
        parts: list[int] = []
        planned = record.after(record.planned).positions
        statuses = await self._shard_set.refresh_all()
        turn = (record.plan[-2] + 1 if record.plan else 0) % len(statuses)
        for shard in [*range(turn, len(statuses)), *range(turn)]:
            count = min(limit, statuses[shard].position - planned[shard])
            if count > 0:
                parts += [shard, count]
                limit -= count
        return parts

    # ---- the items at the shards

    def _is_restarted(self, record: _TargetRecord) -> bool:
        """Whether some server was restarted or replaced since it gave these items."""
        now = [shard.status.reigns for shard in self._shard_set.shards]
        return any(then and then != present for then, present in zip(record.reigns, now, strict=True))

    async def _reconcile(self, target: str, owner: str, record: _TargetRecord) -> _TargetRecord | None:
        """The record as the shards have it: what a server has lost is undelivered, what a shard has dropped is not."""

        async def ask(shard: Shard) -> tuple[int, int, bytes]:
            number = shard.number
            known = (record.positions[number], record.reigns[number]) if record.positions else ("", "")
            position, same, reigns = await shard.ask("keep_items_for_target", target, *known)
            return position, same, reigns

        positions, same, reigns = zip(*await self._shard_set.call_each(ask), strict=True)
        reconciled = _TargetRecord(list(positions), [], [one.decode() for one in reigns], record.lead_reign)
        if reconciled.positions == record.positions:
            ends = record.after(record.planned).positions
            if all(end <= last for end, last in zip(ends, same, strict=True)):
                reconciled.plan = record.plan
        moved = (len(reconciled.positions), *reconciled.positions, *reconciled.reigns, *reconciled.plan)
        return reconciled if await self._shard_set.lead.step("set_target_positions", target, owner, *moved) else None

    async def _read(self, record: _TargetRecord, limit: int) -> list[bytes] | None:
        """The first items of the plan; None: they are not there any more."""
        parts = list(record.parts(limit))
        firsts = {shard: record.positions[shard] + 1 for shard, _ in parts}
        counts = {shard: sum(count for other, count in parts if other == shard) for shard in firsts}

        async def read(shard: Shard) -> tuple[list[bytes], bytes]:
            elements, reigns = await shard.ask("read_items", firsts[shard.number], counts[shard.number])
            return elements, reigns

        asked = [self._shard_set.shards[number] for number in firsts]
        found: dict[int, Iterator[bytes]] = {}
        for number, (elements, reigns) in zip(firsts, await self._shard_set.call_each(read, asked), strict=True):
            if len(elements) < counts[number] or reigns.decode() != record.reigns[number]:
                return None
            found[number] = iter(elements)
        return [next(found[shard]) for shard, count in parts for _ in range(count)]

    async def _forget(self, target: str, record: _TargetRecord) -> None:
        async def forget(shard: Shard) -> None:
            await shard.step("forget_items", target, record.positions[shard.number], record.reigns[shard.number])

        await self._shard_set.call_each(forget)


def _decode_record(
    positions: list[int] | None, plan: list[int], reigns: Sequence[bytes], lead_reign: bytes
) -> _TargetRecord:
    return _TargetRecord(positions or [], plan, [one.decode() for one in reigns], lead_reign.decode())
