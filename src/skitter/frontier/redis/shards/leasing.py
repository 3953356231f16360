"""Leasing from a job in shards: one after the other, until the worker has what it wants.

The shard with the highest priority waiting goes first, and gives nothing below what another has. Among equals it is
their turn, so that none waits for another to be empty. A shard with a suspect goes before all: it is
leased alone, and a worker that holds something anywhere gets nothing more until it holds nothing.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections import Counter

from skitter.frontier.contract import POLL_SECONDS
from skitter.frontier.redis.shards.page_limit import Allotments
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet, together
from skitter.model.job import State
from skitter.model.lease import Grant, Lease


class ShardedLeasing:
    """What one client leases for its worker. One call at a time: only then is it known what the worker holds."""

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set
        self._allotments = Allotments(shard_set)
        self._next = 0
        self._one_at_a_time = asyncio.Lock()
        self._visited: set[Shard] = set()
        self._recovered: Counter[str] = Counter()
        self._workers = 0
        self._permits_known = (0, 0)
        self._lives: dict[int, str] = {}
        self._life = 0

    async def lease(self, worker: str, limit: int) -> Grant:
        async with self._one_at_a_time:
            await self._shard_set.meet()
            await self._shard_set.keep_step()
            self._visited.clear()
            self._recovered.clear()
            self._workers = 0
            full = self._outbox_is_full()
            if full:
                # The sinks may have caught up since.
                await self._shard_set.stand()
                full = self._outbox_is_full()
            leases = [] if full else await self._grant(worker, limit)
            await self._look_after(worker, everyone=len(leases) < limit or not limit)
            await self._shard_set.settle(self._shard_set.shards)
            return Grant(
                leases=leases,
                state=self._shard_set.state,
                run=self._shard_set.run,
                ask_again_seconds=min([POLL_SECONDS, *(shard.present.due_seconds for shard in self._shard_set.shards)]),
                workers=self._workers,
                blocked_by="sink" if full and self._shard_set.state is State.RUNNING else "",
                recovered=sorted(self._recovered.items()),
                permitted=await self._permitted(),
                store=self._store(),
            )

    # ---- granting

    async def _grant(self, worker: str, limit: int) -> list[Lease]:
        if await self._is_alone(worker):
            return []
        lead = self._shard_set.lead
        if lead.present.seeding and not lead.is_seeded_by(worker):
            # Before anything else: whoever had the seeding may have lost it meanwhile.
            await self._visit(lead, worker, 0)
        leases: list[Lease] = []
        waiting, asked, raised = set(self._shard_set.shards), set[Shard](), set[Shard]()
        while waiting and len(leases) < limit:
            shard = min(waiting, key=lambda shard: self._place_of(shard, again=shard in asked))
            asked.add(shard)
            others = [other.present.top for other in waiting if other is not shard]
            floor = max((top for top in others if top is not None), default=None)
            want = limit - len(leases)
            granted = await self._visit(shard, worker, want, floor)
            if shard.present.goes_first and not granted and await self._is_free_after_all(shard, worker):
                granted = await self._visit(shard, worker, want, floor)
            leases += granted
            if granted:
                self._next = shard.number + 1
            if shard.present.goes_first or worker in shard.alone:
                break
            if shard.present.short and shard not in raised:
                raised.add(shard)
                if await self._allotments.raise_for(shard, want - len(granted)):
                    continue
            top = shard.present.top
            if floor is None or top is None or top >= floor:
                waiting.discard(shard)
        return leases

    def _place_of(self, shard: Shard, *, again: bool) -> tuple[int, float, int]:
        """Who is asked next. What may go before all others is asked for once: it may not be due."""
        present = shard.present
        top = -math.inf if present.top is None else present.top
        kind = 2
        if not again:
            kind = 0 if present.seeding == 1 else 1 if present.suspects or present.goes_first or shard.is_due else 2
        return kind, -top, (shard.number - self._next) % len(self._shard_set.shards)

    async def _visit(self, shard: Shard, worker: str, limit: int, floor: float | None = None) -> list[Lease]:
        shard_set = self._shard_set
        self._visited.add(shard)
        others = [other for other in shard_set.shards if other is not shard]
        # Not known counts as one: it is asked for when it matters.
        elsewhere = sum(other.held_by.get(worker, 1) for other in others)
        seeds = any(other.is_seeded_by(worker) for other in others)
        while True:
            visit = functools.partial(
                Shard.visit,
                worker=worker,
                limit=limit,
                version=(version := shard_set.version),
                elsewhere=elsewhere,
                seeds=seeds,
                floor=floor,
            )
            grant = await shard_set.at(shard, visit)
            self._recovered.update(dict(grant.recovered))
            self._workers = max(self._workers, grant.workers)
            if shard.present.version >= version:
                return grant.leases
            await shard_set.keep_step()

    async def _is_alone(self, worker: str) -> bool:
        alone = [shard for shard in self._shard_set.shards if worker in shard.alone]
        for shard in alone:
            # The lease may have expired meanwhile.
            await self._visit(shard, worker, 0)
        return any(worker in shard.alone for shard in alone)

    async def _is_free_after_all(self, shard: Shard, worker: str) -> bool:
        """What goes first there waits until the worker holds nothing, or seeds, elsewhere. Ask, instead of guessing."""
        others = [other for other in self._shard_set.shards if other is not shard]
        await self._shard_set.each(lambda other: other.stand(worker), others)
        holds = any(other.held_by.get(worker) for other in others)
        return not holds or any(other.is_seeded_by(worker) for other in others)

    def _outbox_is_full(self) -> bool:
        """Of all shards together, as far as this client knows: it asks each of them every second."""
        standings = [shard.present for shard in self._shard_set.shards]
        return sum(standing.backlog for standing in standings) >= standings[0].max_outbox_items

    # ---- what else a worker does by asking

    async def _look_after(self, worker: str, *, everyone: bool) -> None:
        """Visit the shards that were not: expired leases are reaped, delayed requests wake, news is heard."""
        since = time.monotonic() - POLL_SECONDS
        left = [shard for shard in self._shard_set.shards if shard not in self._visited]
        await together(self._visit(shard, worker, 0) for shard in left if everyone or shard.visited_at < since)

    async def _permitted(self) -> list[str]:
        """Host keys that joined the scope since this client was last told."""
        run, known = self._permits_known
        newest = max(
            shard.present.permits for shard in self._shard_set.shards if shard.present.run == self._shard_set.run
        )
        if run == self._shard_set.run and newest <= known:
            return []
        told = await self._shard_set.lead.ask("permits", run, known)
        keys = [key.decode() for key in told[1]]
        self._permits_known = (told[0], (known if run == told[0] else 0) + len(keys))
        return keys

    def _store(self) -> str:
        """Which life of the servers this is: another one when any of them has begun a new one."""
        for shard in self._shard_set.shards:
            if self._lives.setdefault(shard.number, shard.life) != shard.life:
                self._lives[shard.number] = shard.life
                self._life += 1
                # It may have lost its newest permits: count from the start.
                self._permits_known = (0, 0)
        return f"life {self._life}"
