"""Leasing from a job in shards: from one shard after the other, until the worker has what it wants.

The shard with the highest priority goes first, and grants nothing below the priority that another shard has. Shards
of equal priority take turns. A shard with a suspect goes before all: a suspect is leased alone, so a worker that holds
a lease of any shard gets nothing more until it holds none.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import math
import time
from collections import Counter

import msgspec

from skitter.concurrency import gather_or_cancel
from skitter.frontier.contract import PAUSED_HOSTS, POLL_SECONDS
from skitter.frontier.redis.shards.jars import ShardedJars
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.job import State
from skitter.model.lease import ONCE, Call, Grant, Lease


class ShardedLeasing:
    """Leases for the worker of one client. One call at a time: only then is it known what the worker holds."""

    def __init__(self, shard_set: ShardSet, jars: ShardedJars) -> None:
        self._shard_set = shard_set
        self._jars = jars
        self._page_limit = PageLimit(shard_set)
        self._next = 0
        self._one_at_a_time = asyncio.Lock()
        self._visited: set[Shard] = set()
        self._recovered: Counter[str] = Counter()
        self._now = 0.0
        self._workers = 0
        self._lacks_proxy = False
        self._only_paused: set[Shard] = set()
        """Shards that have nothing left but what waits at paused hosts, as they said last."""
        self._call = ONCE
        self._visits = 0

    async def lease(self, worker: str, limit: int, call: Call) -> Grant:
        async with self._one_at_a_time:
            await self._shard_set.refresh_unknown()
            await self._shard_set.sync_with_lead()
            self._visited.clear()
            self._recovered.clear()
            self._workers, self._lacks_proxy = 0, False
            self._call, self._visits = call, 0
            if call.again and (recalled := await self._recall(worker)) is not None:
                return await self._told(recalled, full=False)
            full = self._outbox_is_full()
            if full:
                # The sinks may have caught up since.
                await self._shard_set.refresh_all()
                full = self._outbox_is_full()
            leases = [] if full else await self._grant(worker, limit)
            await self._visit_rest(worker, everyone=len(leases) < limit or not limit)
            await self._shard_set.settle(self._shard_set.shards)
            return await self._told(leases, full=full)

    async def _told(self, leases: list[Lease], *, full: bool) -> Grant:
        shard_set = self._shard_set
        run = shard_set.run
        permitted, permits = await self._permitted(run)
        blocked_by = "sink" if full else "proxy" if self._lacks_proxy and not leases else ""
        unfinished = {shard for shard in shard_set.shards if shard.status.unfinished}
        statuses = [shard.status for shard in shard_set.shards]
        may_go_on = any(status.holds or status.seeding or status.intakes for status in statuses)
        if not blocked_by and not leases and not may_go_on and unfinished and unfinished <= self._only_paused:
            blocked_by = PAUSED_HOSTS
        return Grant(
            leases=await self._jars.with_versions(leases),
            state=shard_set.state,
            run=run,
            ask_again_seconds=min([POLL_SECONDS, *(shard.status.due_seconds for shard in shard_set.shards)]),
            workers=self._workers,
            blocked_by=blocked_by if shard_set.state is State.RUNNING else "",
            recovered=sorted(self._recovered.items()),
            permitted=permitted,
            permits=permits,
            now=self._now,
            store=self.store(),
        )

    async def _recall(self, worker: str) -> list[Lease] | None:
        """What this call was granted when it was sent before, by whichever shards; None: nothing that they know of."""
        answers = await gather_or_cancel(self._visit_once(shard, worker, 0) for shard in self._shard_set.shards)
        if not any(was_recalled for _, was_recalled in answers):
            return None
        return [lease for grant, was_recalled in answers if was_recalled for lease in grant.leases]

    # ---- granting

    async def _grant(self, worker: str, limit: int) -> list[Lease]:
        if await self._is_alone(worker):
            return []
        lead = self._shard_set.lead
        if lead.status.seeding and not lead.is_seeded_by(worker):
            # Before anything else: whoever had the seeding may have lost it meanwhile.
            await self._visit(lead, worker, 0)
        leases: dict[int, Lease] = {}  # by epoch: a visit whose answer was lost tells of those before it too
        waiting, asked, raised = set(self._shard_set.shards), set[Shard](), set[Shard]()
        while waiting and len(leases) < limit:
            shard = min(waiting, key=lambda shard: self._order_of(shard, again=shard in asked))
            asked.add(shard)
            others = [other.status.top_for(self._call.needs) for other in waiting if other is not shard]
            floor = max((top for top in others if top is not None), default=None)
            want = limit - len(leases)
            granted = await self._visit(shard, worker, want, floor)
            if shard.status.goes_first and not granted and await self._is_free_after_all(shard, worker):
                granted = await self._visit(shard, worker, want, floor)
            leases.update((lease.epoch, lease) for lease in granted)
            if granted:
                self._next = shard.number + 1
            if shard.status.goes_first or worker in shard.alone:
                break
            if shard.status.short and shard not in raised:
                raised.add(shard)
                if await self._page_limit.raise_for(shard, want - len(granted)):
                    continue
            top = shard.status.top_for(self._call.needs)
            if floor is None or top is None or top >= floor:
                waiting.discard(shard)
        return list(leases.values())

    def _order_of(self, shard: Shard, *, again: bool) -> tuple[int, float, int]:
        """The sort key of a shard: the least is asked next. What may go before all others is asked for once: it may not
        be due."""
        status = shard.status
        top = status.top_for(self._call.needs)
        kind = 2
        if not again:
            kind = 0 if status.seeding == 1 else 1 if status.suspects or status.goes_first or shard.is_due else 2
        return kind, math.inf if top is None else -top, (shard.number - self._next) % len(self._shard_set.shards)

    async def _visit(self, shard: Shard, worker: str, limit: int, floor: float | None = None) -> list[Lease]:
        grant, _ = await self._visit_once(shard, worker, limit, floor)
        return grant.leases

    async def _visit_once(
        self, shard: Shard, worker: str, limit: int, floor: float | None = None
    ) -> tuple[Grant, bool]:
        """Ask a shard; its grant, and whether it answers as it did when the call was sent before."""
        shard_set = self._shard_set
        self._visited.add(shard)
        others = [other for other in shard_set.shards if other is not shard]
        # Not known counts as one: it is asked for when it matters.
        elsewhere = sum(other.held_by.get(worker, 1) for other in others)
        seeds = any(other.is_seeded_by(worker) for other in others)
        while True:
            self._visits += 1
            visit = functools.partial(
                Shard.visit,
                worker=worker,
                limit=limit,
                call=numbered(self._call, self._visits),
                version=(version := shard_set.version),
                elsewhere=elsewhere,
                seeds=seeds,
                floor=floor,
            )
            grant, was_recalled = await shard_set.call(shard, visit)
            self._recovered.update(dict(grant.recovered))
            self._workers = max(self._workers, grant.workers)
            self._now = max(self._now, grant.now)
            self._lacks_proxy = self._lacks_proxy or grant.blocked_by == "proxy"
            (self._only_paused.add if grant.blocked_by == PAUSED_HOSTS else self._only_paused.discard)(shard)
            if shard.status.version >= version:
                return grant, was_recalled
            await shard_set.sync_with_lead()

    async def _is_alone(self, worker: str) -> bool:
        alone = [shard for shard in self._shard_set.shards if worker in shard.alone]
        for shard in alone:
            # The lease may have expired meanwhile.
            await self._visit(shard, worker, 0)
        return any(worker in shard.alone for shard in alone)

    async def _is_free_after_all(self, shard: Shard, worker: str) -> bool:
        """Whether the worker holds nothing, or seeds, in all other shards, which are asked: what is known is old."""
        others = [other for other in self._shard_set.shards if other is not shard]
        await self._shard_set.call_each(lambda other: other.refresh_status(worker), others)
        holds = any(other.held_by.get(worker) for other in others)
        return not holds or any(other.is_seeded_by(worker) for other in others)

    def _outbox_is_full(self) -> bool:
        """Whether the outbox of all shards together is full, as far as this client knows: it asks each every second."""
        statuses = [shard.status for shard in self._shard_set.shards]
        return sum(status.backlog for status in statuses) >= statuses[0].max_outbox_items

    # ---- upkeep

    async def _visit_rest(self, worker: str, *, everyone: bool) -> None:
        """Visit the other shards: expired leases are reaped, delayed requests wake, and their status is learnt."""
        since = time.monotonic() - POLL_SECONDS
        left = [shard for shard in self._shard_set.shards if shard not in self._visited]
        await gather_or_cancel(self._visit(shard, worker, 0) for shard in left if everyone or shard.visited_at < since)

    async def _permitted(self, run: int) -> tuple[list[str], int]:
        """Host keys that were permitted since the worker was last told, and how many it knows with them."""
        call = self._call
        newest = max(shard.status.permits for shard in self._shard_set.shards if shard.status.run == run)
        if call.run == run and newest <= call.permits:
            return [], call.permits
        told_run, keys = await self._shard_set.lead.ask("read_permitted_hosts", call.run, call.permits)
        known = call.permits if call.run == told_run else 0
        # Of a run that has just begun: they are told again with its number.
        return [key.decode() for key in keys], known + len(keys) if told_run == run else 0

    def store(self) -> str:
        """A name for the present reigns of all servers: another one when any of them was restarted or replaced."""
        reigns = "/".join(shard.reigns for shard in self._shard_set.shards)
        return hashlib.blake2b(reigns.encode(), digest_size=8).hexdigest()


def numbered(call: Call, number: int) -> Call:
    """A worker's call as a shard gets it: one call may come to it several times (4_leases.lua)."""
    return msgspec.structs.replace(call, token=f"{number}/{call.token}") if call.token else call


class PageLimit:
    """``max_pages`` for a job in shards: each shard has an allotment, and the allotments never sum up to more.

    A shard that is short gets more, from what is left or from what other shards do not use.
    """

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set

    async def raise_for(self, shard: Shard, want: int) -> bool:
        """Raise the allotment of a shard for ``want`` leases more. False: there is nothing left to give.

        A raise is written at the lead first, a cut at the shard first; each step may be repeated. So a client that dies
        between two of them leaves a shard with less than it was given, and the next that needs it there gets it.
        """
        status = shard.status
        used = status.done + status.leased
        # The seeding is no request, and needs room as one.
        waiting = max(1, status.unfinished - status.leased)
        needs = (status.run, shard.number, used + min(want, waiting), used + waiting)
        number, pages = await self._shard_set.lead.ask("share", *needs)
        if pages < needs[2] and await self._is_unused():
            others = [other for other in self._shard_set.shards if other is not shard]
            kept = await self._shard_set.call_each(lambda other: other.ask("allot", status.run, "", 0), others)
            back = [part for other, answer in zip(others, kept, strict=True) for part in (other.number, *answer)]
            number, pages = await self._shard_set.lead.ask("share", *needs, *back)
        if number:
            await shard.ask("allot", status.run, number, pages)
        return bool(pages > used)

    async def _is_unused(self) -> bool:
        """Whether all shards together have done and leased fewer pages than the limit."""
        statuses = await self._shard_set.refresh_all()
        used = sum(status.done + status.leased for status in statuses)
        return used < statuses[0].max_pages
