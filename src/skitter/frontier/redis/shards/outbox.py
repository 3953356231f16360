"""The outbox of a job in shards: every shard keeps the items of its pages, and the lead one record for each target.

The record says where the target is in every shard's outbox, and which items come next: the plan. A plan is written down
before its items are handed out, so that whoever reads them again after a crash gets them in the same order. A position
is the number of all items up to an item, in that order.

A server that begins a new life may have lost its newest items, and the lead's has not: so the record also tells in
which life of each server a position was given. In another one the shard is asked how much of that is still true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from skitter.frontier.contract import SINK_OWNER_SECONDS
from skitter.frontier.redis import codec
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.job import Item, SinkProgress


class _Course(msgspec.Struct):
    """Where a target is, and where it goes from there."""

    vector: list[int]
    """Its position in each shard's outbox; empty: not known yet."""
    plan: list[int]
    """Shard, number of items, shard, number of items, …"""
    lives: list[str]
    """Of each shard's server, when it gave these items. Empty: nobody may ask for it."""
    lead_life: str
    """Of the lead's server, when it told all this."""

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
        return _Course(vector, plan, self.lives, self.lead_life)


class ShardedOutbox:
    """The Outbox of the contract, for all shards."""

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set
        self._given_by: dict[str, str] = {}
        """By target: the life of the lead's server that said which items it got last."""

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        answer = await self._shard_set.lead.ask("open_target", target, owner, SINK_OWNER_SECONDS)
        if not answer:
            return None
        *told, mark, closed, rejected, trouble = answer
        # Every shard keeps items for it from now on, if it did not before.
        await self._shard_set.keep_step()
        course = await self._located(target, owner, _read_course(*told))
        if course is None:
            return None
        self._given_by[target] = course.lead_life
        # What an owner that died has recorded at the lead and not told the shards.
        await self._forget(target, course)
        return SinkProgress(course.position, mark, closed == 1, rejected, trouble.decode())

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        course = await self._course(target, owner)
        if course is None or limit == 0:
            return None if course is None else []
        while course is not None:
            if self._is_elsewhere(course):
                course = await self._located(target, owner, course)
            if course is not None:
                course = await self._planned(target, owner, course, limit)
            if course is not None:
                elements = await self._read(course, limit)
                if elements is not None:
                    self._given_by[target] = course.lead_life
                    return codec.read_items(course.position + 1, elements)
                course = await self._located(target, owner, course)
        return None

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        course = await self._course(target, owner)
        if course is not None and progress.position > course.position + course.planned:
            course = await self._planned(target, owner, course, progress.position - course.position)
        if course is None:
            return False
        course = course.after(progress.position - course.position)
        remarks = (progress.rejected, progress.trouble)
        told = (progress.mark, int(progress.closed), self._given_by.get(target, ""), *remarks)
        positions = (len(course.vector), *course.vector, *course.plan)
        lead = self._shard_set.lead
        recorded = await lead.step("target_done", target, owner, SINK_OWNER_SECONDS, *told, *positions)
        if recorded == 1:
            await self._forget(target, course)
        # In another life of the lead nothing was recorded: the items are given again, and the writer knows them.
        return recorded != 0

    async def peek(self, after: int, limit: int) -> list[Item]:
        """By position in a shard, then shard: that is what the positions here are made of."""
        shards = len(self._shard_set.shards)

        async def ask(shard: Shard) -> list[Item]:
            # The last position of this shard that is not behind ``after``.
            passed = (after - shard.number) // shards
            found = codec.read_items(*await shard.ask("peek", passed, limit))
            return [msgspec.structs.replace(item, position=item.position * shards + shard.number) for item in found]

        found = [item for items in await self._shard_set.each(ask) for item in items]
        return sorted(found, key=lambda item: item.position)[:limit]

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        await self._shard_set.lead.step("close_target", target, owner, int(forget))
        await self._shard_set.keep_step()

    # ---- the record at the lead

    async def _course(self, target: str, owner: str) -> _Course | None:
        """Where the target is. None: the ownership was lost."""
        course = await self._plan(target, owner, -1, [])
        if course is not None and not course.vector:
            return await self._located(target, owner, course)
        return course

    async def _planned(self, target: str, owner: str, course: _Course | None, limit: int) -> _Course | None:
        """With a plan of ``limit`` items if there are so many."""
        while (
            course is not None
            and course.planned < limit
            and (parts := await self._parts(course, limit - course.planned))
        ):
            course = await self._plan(target, owner, len(course.plan), parts)
        return course

    async def _plan(self, target: str, owner: str, known: int, parts: Sequence[int]) -> _Course | None:
        answer: Any = await self._shard_set.lead.ask("plan_items", target, owner, SINK_OWNER_SECONDS, known, *parts)
        return _read_course(*answer) if answer else None

    async def _parts(self, course: _Course, limit: int) -> list[int]:
        """What comes after the plan: items of one shard after the other, beginning with the one whose turn it is."""
        parts: list[int] = []
        planned = course.after(course.planned).vector
        standings = await self._shard_set.stand()
        turn = (course.plan[-2] + 1 if course.plan else 0) % len(standings)
        for shard in [*range(turn, len(standings)), *range(turn)]:
            count = min(limit, standings[shard].position - planned[shard])
            if count > 0:
                parts += [shard, count]
                limit -= count
        return parts

    # ---- at the shards

    def _is_elsewhere(self, course: _Course) -> bool:
        """Some server is in another life than the one in which it gave these items."""
        return any(
            life and life != shard.life for life, shard in zip(course.lives, self._shard_set.shards, strict=True)
        )

    async def _located(self, target: str, owner: str, course: _Course) -> _Course | None:
        """As the shards see it: what a server has lost was not delivered, and what a shard has forgotten was."""

        async def ask(shard: Shard) -> tuple[int, int, bytes]:
            number = shard.number
            told = (course.vector[number], course.lives[number]) if course.vector else ("", "")
            position, same, life = await shard.ask("keep_items", target, *told)
            return position, same, life

        vector, same, lives = zip(*await self._shard_set.each(ask), strict=True)
        located = _Course(list(vector), [], [life.decode() for life in lives], course.lead_life)
        if located.vector == course.vector:
            ends = course.after(course.planned).vector
            if all(end <= last for end, last in zip(ends, same, strict=True)):
                located.plan = course.plan
        told = (len(located.vector), *located.vector, *located.lives, *located.plan)
        return located if await self._shard_set.lead.step("move_target", target, owner, *told) else None

    async def _read(self, course: _Course, limit: int) -> list[bytes] | None:
        """The first items of the plan; None: they are not there any more."""
        parts = list(course.parts(limit))
        firsts = {shard: course.vector[shard] + 1 for shard, _ in parts}
        counts = {shard: sum(count for other, count in parts if other == shard) for shard in firsts}

        async def read(shard: Shard) -> tuple[list[bytes], bytes]:
            elements, life = await shard.ask("read_items", firsts[shard.number], counts[shard.number])
            return elements, life

        asked = [self._shard_set.shards[number] for number in firsts]
        found: dict[int, Iterator[bytes]] = {}
        for number, (elements, life) in zip(firsts, await self._shard_set.each(read, asked), strict=True):
            if len(elements) < counts[number] or life.decode() != course.lives[number]:
                return None
            found[number] = iter(elements)
        return [next(found[shard]) for shard, count in parts for _ in range(count)]

    async def _forget(self, target: str, course: _Course) -> None:
        async def forget(shard: Shard) -> None:
            await shard.step("forget_items", target, course.vector[shard.number], course.lives[shard.number])

        await self._shard_set.each(forget)


def _read_course(vector: list[int] | None, plan: list[int], lives: Sequence[bytes], life: bytes) -> _Course:
    return _Course(vector or [], plan, [one.decode() for one in lives], life.decode())
