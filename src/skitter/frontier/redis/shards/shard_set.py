"""The shards of a job: which one has a host, how the others follow the lead, and how the job ends in all of them.

The lead is the shard that decides on the job's run, state and settings; the others follow it. A client that dies in
between leaves a shard whose version is older than the lead's: that shard grants nothing to a client that knows the
newer version, and every client that finds it brings it up to date.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from skitter.concurrency import gather_or_cancel
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
        self.shard_of = functools.lru_cache(maxsize=65536)(self._shard_of)
        """The shard that has a host key."""

    def _shard_of(self, host_key: str) -> Shard:
        return self.shards[shard_number(host_key, len(self.shards))]

    # ---- the last known statuses

    @property
    def newest_status(self) -> ShardStatus:
        """The status with the newest version: that of the lead, if it was asked last."""
        return max((shard.status for shard in self.shards), key=lambda status: status.version)

    @property
    def version(self) -> int:
        return self.newest_status.version

    @property
    def state(self) -> State:
        return State(self.newest_status.state)

    @property
    def run(self) -> int:
        return self.newest_status.run

    # ---- calls

    async def call(self, shard: Shard, call: Callable[[Shard], Awaitable[T]]) -> T:
        """Call one shard; one that does not exist yet is made first."""
        while True:
            try:
                return await call(shard)
            except ShardAbsentError:
                await self._send_lead_state([shard], 0)

    async def call_each(self, call: Callable[[Shard], Awaitable[T]], shards: Iterable[Shard] | None = None) -> list[T]:
        """Call several shards side by side, all by default."""
        called = self.shards if shards is None else shards
        return await gather_or_cancel(self.call(shard, call) for shard in called)

    async def refresh_unknown(self) -> None:
        """Ask every shard for its status that has not been asked for anything yet."""
        await self.call_each(
            lambda shard: shard.refresh_status(), [shard for shard in self.shards if not shard.has_status]
        )

    async def refresh_all(self) -> list[ShardStatus]:
        """Ask every shard for its status, and bring up to date those that are behind the lead."""
        await self.call_each(lambda shard: shard.refresh_status())
        await self.sync_with_lead()
        return [shard.status for shard in self.shards]

    # ---- following the lead

    async def sync_with_lead(self) -> None:
        """Bring up to date every shard that is known to be behind the lead. Costs nothing when there is none.

        What is left of an earlier job of the same name counts as behind.
        """
        await self.refresh_unknown()
        while True:
            version, job = self.version, self.lead.status.job
            behind = [shard for shard in self.shards if shard.status.version < version or shard.status.job != job]
            if not behind:
                return
            await self._send_lead_state([shard for shard in behind if shard is not self.lead], version)

    async def _send_lead_state(self, shards: Iterable[Shard], version: int) -> None:
        lead_state = await self.lead.read_lead_state(version)
        await gather_or_cancel(shard.follow(lead_state) for shard in shards)

    # ---- the end of the job

    async def settle(self, touched: Iterable[Shard]) -> None:
        """End the job if nothing is left to do (promise 6), it is drained, or its limit is reached.

        All shards are asked only if the last statuses of those that were touched leave it possible.
        """
        await self.sync_with_lead()
        known = [shard.status for shard in touched]
        if self.state is State.FINISHED or not known or not (_may_end(known) or self._may_stop(known)):
            return
        statuses = await self.refresh_all()
        if _may_end(statuses):
            await self._finish()
        elif self._may_stop(statuses):
            version = self.version
            drained = all(status.version == version and not status.holds for status in statuses)
            if self.state is State.RUNNING or drained:
                done = sum(status.done for status in statuses)
                if await self.lead.step("stop_if_over", version, done):
                    await self.sync_with_lead()

    def _may_stop(self, statuses: Sequence[ShardStatus]) -> bool:
        if self.state is State.DRAINING:
            return not any(status.holds for status in statuses)
        # Only a shard that has used up its allotment may have done the last page that all may do.
        return self.state is State.RUNNING and any(
            status.max_pages >= 0 and status.done >= max(1, status.allotted) for status in statuses
        )

    async def _finish(self) -> None:
        """Seal every shard and end the job at the lead (seal.lua); break the seal if one is not idle after all."""
        job = (self.run, self.version)
        number = await self.lead.step("seal", "begin", *job)
        if number in (_SUPERSEDED, _BUSY):
            return
        sealed = await self.call_each(lambda shard: shard.step("seal", "seal", *job, number), self.others)
        if all(answer == number for answer in sealed):
            sealed = [await self.lead.step("seal", "end", *job, number, sum((await self.lost_links()).values()))]
        if _BUSY in sealed:
            await self.reopen(job[0], finished=False)
        else:
            await self.sync_with_lead()

    async def lost_links(self) -> dict[Shard, int]:
        """How many links between shards each shard has lost, although the pages that have them ended.

        A server that is promoted may lack its newest links, while the pages of other shards are done. Nothing fetches
        these again. Each shard notes up to which link of the others its pages rely on them (rely_on in 6_shards.lua).
        """
        records = await self.call_each(Shard.stored_record)

        async def ask(shard: Shard) -> int:
            relied = [told for record in records for number, *told in record["relied"] if number == shard.number]
            return await shard.step("check_relied", *chain.from_iterable(relied)) if relied else 0

        return dict(zip(self.shards, await self.call_each(ask), strict=True))

    async def reopen(self, run: int | None, *, finished: bool) -> bool:
        """Break the seals, so that a sealed shard takes work; ``finished``: also of a finished job. False: it stays."""
        newest = max(shard.status.sealed for shard in self.shards)
        seal = await self.lead.step("break_seal", "" if run is None else run, int(finished), newest)
        if seal < 0:
            return False
        await self.sync_with_lead()
        await self.call_each(lambda shard: shard.step("unseal", self.lead.status.run, seal), self.others)
        return True


def _may_end(statuses: Iterable[ShardStatus]) -> bool:
    return all(status.is_idle for status in statuses)


def shard_number(host_key: str, shards: int) -> int:
    """The number of the shard that has a host: the same in every process, as long as the job exists."""
    return int.from_bytes(hashlib.blake2b(host_key.encode(), digest_size=8).digest(), "big") % shards
