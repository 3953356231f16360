"""The shards of a job together: which one has a host, how the others follow the lead, and how they end as one.

The lead decides first and the others follow. Whoever dies between the two leaves a shard whose version is older than
the lead's: it grants nothing to a client that knows better, and every client that meets it brings it up to date.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from skitter.frontier.redis.shards.shard import LEAD, Shard, ShardAbsentError, ShardStatus
from skitter.model.job import State

T = TypeVar("T")
_SUPERSEDED, _BUSY = 0, -1
"""What seal.lua answers instead of the number of a seal."""


class ShardSet:
    """All shards of one job, as one client knows them."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.lead = self.shards[LEAD]
        self.others = self.shards[LEAD + 1 :]
        self.of = functools.lru_cache(maxsize=65536)(self._of)
        """The shard that has a host."""

    def _of(self, host_key: str) -> Shard:
        return self.shards[number_of(host_key, len(self.shards))]

    # ---- what is known

    @property
    def newest(self) -> ShardStatus:
        """Of the shard that has heard the newest of the lead; the lead itself, if it has been asked since."""
        return max((shard.present for shard in self.shards), key=lambda standing: standing.version)

    @property
    def version(self) -> int:
        return self.newest.version

    @property
    def state(self) -> State:
        return State(self.newest.state)

    @property
    def run(self) -> int:
        return self.newest.run

    # ---- asking

    async def at(self, shard: Shard, call: Callable[[Shard], Awaitable[T]]) -> T:
        """Ask one shard; one that nobody has told of the job is told first."""
        while True:
            try:
                return await call(shard)
            except ShardAbsentError:
                await self._tell([shard], 0)

    async def each(self, call: Callable[[Shard], Awaitable[T]], shards: Iterable[Shard] | None = None) -> list[T]:
        """Ask several at once, all by default."""
        asked = self.shards if shards is None else shards
        return await together(self.at(shard, call) for shard in asked)

    async def meet(self) -> None:
        """Ask every shard that has not been asked yet."""
        await self.each(lambda shard: shard.stand(), [shard for shard in self.shards if shard.standing is None])

    async def stand(self) -> list[ShardStatus]:
        """Ask every shard where it stands now, and bring up to date those that are behind."""
        await self.each(lambda shard: shard.stand())
        await self.keep_step()
        return [shard.present for shard in self.shards]

    # ---- following the lead

    async def keep_step(self) -> None:
        """Bring up to date every shard that is known to be behind. Costs nothing when there is none.

        What is left of an earlier job of the same name is as good as behind.
        """
        await self.meet()
        while True:
            version, job = self.version, self.lead.present.job
            behind = [shard for shard in self.shards if shard.present.version < version or shard.present.job != job]
            if not behind:
                return
            await self._tell([shard for shard in behind if shard is not self.lead], version)

    async def _tell(self, shards: Iterable[Shard], version: int) -> None:
        told = await self.lead.told_to_others(version)
        await together(shard.follow(told) for shard in shards)

    # ---- sealing and settling

    async def settle(self, touched: Iterable[Shard]) -> None:
        """Promise 6, and the ends of a drain and of a limit. Asks the others only when the shards that were touched
        leave it possible."""
        await self.keep_step()
        known = [shard.present for shard in touched]
        if self.state is State.FINISHED or not known or not (_may_end(known) or self._may_stop(known)):
            return
        standings = await self.stand()
        if _may_end(standings):
            await self._finish()
        elif self._may_stop(standings):
            version = self.version
            drained = all(standing.version == version and not standing.holds for standing in standings)
            if self.state is State.RUNNING or drained:
                done = sum(standing.done for standing in standings)
                if await self.lead.step("settle", version, done):
                    await self.keep_step()

    def _may_stop(self, standings: Sequence[ShardStatus]) -> bool:
        if self.state is State.DRAINING:
            return not any(standing.holds for standing in standings)
        # Only a shard that has used up its allotment may have done the last page that all may do.
        return self.state is State.RUNNING and any(
            standing.max_pages >= 0 and standing.done >= max(1, standing.allotted) for standing in standings
        )

    async def _finish(self) -> None:
        """Seal every shard and end the job at the lead (seal.lua); break the seal if one is not idle after all."""
        job = (self.run, self.version)
        number = await self.lead.step("seal", "begin", *job)
        if number in (_SUPERSEDED, _BUSY):
            return
        sealed = await self.each(lambda shard: shard.step("seal", "seal", *job, number), self.others)
        if all(answer == number for answer in sealed):
            sealed = [await self.lead.step("seal", "end", *job, number)]
        if _BUSY in sealed:
            await self.reopen(job[0], finished=False)
        else:
            await self.keep_step()

    async def reopen(self, run: int | None, *, finished: bool) -> bool:
        """There is work for a shard that is sealed; ``finished``: a finished job goes on. False: it does not."""
        newest = max(shard.present.sealed for shard in self.shards)
        seal = await self.lead.step("reopen", "" if run is None else run, int(finished), newest)
        if seal < 0:
            return False
        await self.keep_step()
        await self.each(lambda shard: shard.step("unseal", self.lead.present.run, seal), self.others)
        return True


def _may_end(standings: Iterable[ShardStatus]) -> bool:
    return all(standing.idle for standing in standings)


def number_of(host_key: str, shards: int) -> int:
    """The number of the shard that has a host: the same in every process, for the life of the job."""
    return int.from_bytes(hashlib.blake2b(host_key.encode(), digest_size=8).digest(), "big") % shards


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Side by side; when one fails, the others are not left running."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
