"""The outbox of a job in shards: every shard keeps the items of its pages, and the lead one record for each target.

The record says where the target is in every shard's outbox, and which items come next: the plan. A plan is written down
before its items are handed out, so that whoever reads them again after a crash gets them in the same order. A position
is the number of all items up to an item, in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from skitter.frontier.ledgered import SINK_OWNER_SECONDS
from skitter.frontier.redis import wire
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.split import Split
from skitter.model.job import Item, SinkProgress


class _Course(msgspec.Struct):
    """Where a target is, and where it goes from there."""

    vector: list[int]
    """Its position in each shard's outbox."""
    plan: list[int]
    """Shard, number of items, shard, number of items, …"""

    @property
    def position(self) -> int:
        return sum(self.vector)

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

    def after(self, items: int) -> _Course:
        """When so many more of its items are done."""
        vector, plan = list(self.vector), []
        for shard, count in zip(self.plan[::2], self.plan[1::2], strict=True):
            done = max(0, min(count, items))
            vector[shard] += done
            items -= done
            if done < count:
                plan += [shard, count - done]
        return _Course(vector, plan)


class Targets:
    """The Outbox of the contract, for all shards."""

    def __init__(self, split: Split) -> None:
        self._split = split

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        answer = await self._split.lead.ask("open_target", target, owner, SINK_OWNER_SECONDS)
        if not answer:
            return None
        vector, plan, mark, closed = answer
        # Every shard keeps items for it from now on, if it did not before.
        await self._split.keep_step()
        kept = await self._split.each(lambda shard: shard.step("keep_items", target))
        if vector is None:
            vector = kept
            await self._record(target, owner, _Course(vector, plan), mark, closed=closed == 1)
        # What an owner that died has recorded at the lead and not told the shards.
        await self._forget(target, vector)
        return SinkProgress(sum(vector), mark, closed == 1)

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        course = await self._course(target, owner, limit)
        if course is None:
            return None
        parts = list(course.parts(limit))
        firsts = {shard: course.vector[shard] + 1 for shard, _ in parts}
        counts = {shard: sum(count for other, count in parts if other == shard) for shard in firsts}

        async def read(shard: Shard) -> Iterator[bytes]:
            number = shard.number
            return iter(await shard.ask("read_items", firsts[number], counts[number]))

        asked = [self._split.shards[number] for number in firsts]
        found = dict(zip(firsts, await self._split.each(read, asked), strict=True))
        elements = [next(found[shard]) for shard, count in parts for _ in range(count)]
        return wire.read_items(course.position + 1, elements)

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        course = await self._course(target, owner, None)
        if course is not None and progress.position > course.position + course.planned:
            course = await self._course(target, owner, progress.position - course.position)
        if course is None:
            return False
        course = course.after(progress.position - course.position)
        if not await self._record(target, owner, course, progress.mark, closed=progress.closed):
            return False
        await self._forget(target, course.vector)
        return True

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        await self._split.lead.step("close_target", target, owner, int(forget))
        await self._split.keep_step()

    # ---- the record at the lead

    async def _course(self, target: str, owner: str, limit: int | None) -> _Course | None:
        """Where the target is, with a plan of ``limit`` items if there are so many. None: the ownership was lost."""
        course = await self._plan(target, owner, -1, [])
        if course is None or limit is None:
            return course
        while course.planned < limit and (parts := await self._parts(course, limit - course.planned)):
            course = await self._plan(target, owner, len(course.plan), parts)
            if course is None:
                return None
        return course

    async def _plan(self, target: str, owner: str, known: int, parts: Sequence[int]) -> _Course | None:
        answer: Any = await self._split.lead.ask("plan_items", target, owner, SINK_OWNER_SECONDS, known, *parts)
        if not answer:
            return None
        vector, plan = answer
        if vector is None:
            vector = await self._split.each(lambda shard: shard.step("keep_items", target))
        return _Course(vector, plan)

    async def _parts(self, course: _Course, limit: int) -> list[int]:
        """What comes after the plan: items of one shard after the other, beginning with the one whose turn it is."""
        parts: list[int] = []
        planned = course.after(course.planned).vector
        standings = await self._split.stand()
        turn = (course.plan[-2] + 1 if course.plan else 0) % len(standings)
        for shard in [*range(turn, len(standings)), *range(turn)]:
            count = min(limit, standings[shard].position - planned[shard])
            if count > 0:
                parts += [shard, count]
                limit -= count
        return parts

    async def _record(self, target: str, owner: str, course: _Course, mark: bytes, *, closed: bool) -> bool:
        told = (mark, int(closed), len(course.vector), *course.vector, *course.plan)
        return await self._split.lead.step("target_done", target, owner, SINK_OWNER_SECONDS, *told) == 1

    async def _forget(self, target: str, vector: Sequence[int]) -> None:
        await self._split.each(lambda shard: shard.step("forget_items", target, vector[shard.number]))
