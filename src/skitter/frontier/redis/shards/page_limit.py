"""``max_pages`` for a job in shards: each shard has a part of it, and the parts never sum up to more."""

from __future__ import annotations

from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet


class Allotments:
    """Gives a shard that is short more, from what is left or from what other shards do not use."""

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set

    async def raise_for(self, shard: Shard, want: int) -> bool:
        """For ``want`` leases more. False: there is nothing left to give.

        More is written down at the lead first, less at the shard first; each step may be repeated. So who dies between
        two of them leaves a shard with less than it was given, and the next who needs it there gets it.
        """
        present = shard.present
        used = present.done + present.leased
        # The seeding is no request, and needs room as one.
        waiting = max(1, present.unfinished - present.leased)
        needs = (present.run, shard.number, used + min(want, waiting), used + waiting)
        number, pages = await self._shard_set.lead.ask("share", *needs)
        if pages < needs[2] and await self._is_unused():
            others = [other for other in self._shard_set.shards if other is not shard]
            kept = await self._shard_set.each(lambda other: other.ask("allot", present.run, "", 0), others)
            back = [part for other, answer in zip(others, kept, strict=True) for part in (other.number, *answer)]
            number, pages = await self._shard_set.lead.ask("share", *needs, *back)
        if number:
            await shard.ask("allot", present.run, number, pages)
        return bool(pages > used)

    async def _is_unused(self) -> bool:
        standings = await self._shard_set.stand()
        used = sum(standing.done + standing.leased for standing in standings)
        return used < standings[0].max_pages
