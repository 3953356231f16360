"""The frontier contract for a job in shards: each method calls the shards that it concerns."""

from __future__ import annotations

import asyncio
import functools
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from skitter.concurrency import gather_or_cancel
from skitter.errors import UsageError
from skitter.frontier.contract import BATCH
from skitter.frontier.redis.shards.consistency import check_shards
from skitter.frontier.redis.shards.cross_shard_links import CrossShardLinks
from skitter.frontier.redis.shards.jars import ShardedJars
from skitter.frontier.redis.shards.leasing import ShardedLeasing, numbered
from skitter.frontier.redis.shards.outbox import ShardedOutbox
from skitter.frontier.redis.shards.report import MergedReport, joined_proxies
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.consistency import Consistency
from skitter.model.host import Halt, HostCommand, HostFilter
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.item import Item
from skitter.model.job import (
    Begun,
    CloseClaim,
    Command,
    Counts,
    FailedRequest,
    HostPage,
    Job,
    JobSpec,
    JobState,
    Report,
    SinkProgress,
    SinkSeen,
    StopReason,
    Trace,
)
from skitter.model.lease import ONCE, Call, Grant, Lease
from skitter.model.outcome import Committed, HostTrouble, Outcome, RobotsRecord
from skitter.model.page_record import KnownPage, PageRecord
from skitter.model.proxy import ProxySeen
from skitter.model.request import Entry
from skitter.model.session import CookieNews, Jar, JarRef, SessionLogin, SessionSeen
from skitter.model.store_capacity import StoreCapacity
from skitter.model.worker import WorkerHeartbeat, WorkerSeen
from skitter.settings import Settings

RENEWAL_SECONDS = 2.0
"""A shard that has not answered a renewal by then is left to itself: leases of the others must not expire with it."""


class ShardedFrontier:
    """A Frontier over several shards, for one job and one process."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shard_set = ShardSet(shards)
        self._cross_shard_links = CrossShardLinks(self._shard_set)
        self._jars = ShardedJars(self._shard_set, self._cross_shard_links.home_of)
        self._leasing = ShardedLeasing(self._shard_set, self._jars)
        self._outbox = ShardedOutbox(self._shard_set)
        self._report = MergedReport(self._shard_set)
        self._renewing: dict[tuple[Shard, str], asyncio.Task[list[bool]]] = {}

    # ---- the job

    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        lead = self._shard_set.lead
        shards = self._shard_set.shards
        check_pool(spec, len(shards))
        # Whether every item is delivered is asked of a finished job only, and that gets no more of them.
        items = sum(await gather_or_cancel(shard.count_items() for shard in shards))
        await gather_or_cancel(shard.check() for shard in self._shard_set.others)
        begun = await lead.begin_with_shards(spec, fresh=fresh, sinks=sinks, shards=len(shards), items=items)
        await self._shard_set.refresh_all()
        await lead.step("all_shards_joined", lead.status.run)
        return begun

    async def job(self) -> Job:
        return await self._shard_set.lead.job()

    async def state(self) -> JobState:
        return await self._shard_set.lead.state()

    async def command(self, command: Command, reason: StopReason = StopReason.COMMAND) -> Job:
        await self._shard_set.lead.command(command, reason)
        await self._shard_set.refresh_all()
        await self._shard_set.settle(self._shard_set.shards)
        return await self.job()

    async def claim_close(self, owner: str, *, done: bool = False) -> CloseClaim:
        return await self._shard_set.lead.claim_close(owner, done=done)

    async def change_settings(self, values: Mapping[str, Any]) -> Job:
        shards = self._shard_set.shards
        if (per_proxy := values.get("per_proxy")) is not None:
            check_pool(JobSpec(name="", spider="", settings={"proxy_pool": True, "per_proxy": per_proxy}), len(shards))
        # Whoever finds a shard that has not heard of it, because this client died or the shard was unavailable, tells
        # it.
        await self._shard_set.lead.change_settings_of_shards(values, len(self._shard_set.shards))
        await self._shard_set.refresh_all()
        await self._shard_set.settle(self._shard_set.shards)
        return await self.job()

    # ---- work

    async def add(self, entries: Sequence[Entry]) -> int:
        new = await self._cross_shard_links.add(entries)
        await self._shard_set.settle(self._shard_set.shards)
        return new

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        return await self._leasing.lease(worker, limit, call)

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """Whether each lease was renewed. Those of a shard that does not answer in time count as renewed: its call goes
        on, and only its answer can say that a lease is lost."""
        homes = self._by_home(leases) or {self._shard_set.lead: []}
        asked: dict[asyncio.Task[list[bool]], list[int]] = {}
        for shard, indexes in homes.items():
            if (shard, worker) not in self._renewing:
                mine = [leases[index] for index in indexes]
                renewing = asyncio.create_task(self._renew(shard, worker, mine))
                self._renewing[shard, worker] = renewing
                renewing.add_done_callback(functools.partial(self._renewed, (shard, worker)))
                asked[renewing] = indexes
        kept = [True] * len(leases)
        for renewing in (await asyncio.wait(asked, timeout=RENEWAL_SECONDS))[0] if asked else ():
            for index, is_kept in zip(asked[renewing], renewing.result(), strict=True):
                kept[index] = is_kept
        return kept

    async def _renew(self, shard: Shard, worker: str, leases: Sequence[Lease]) -> list[bool]:
        return await self._shard_set.call(shard, lambda shard: shard.renew(worker, leases))

    def _renewed(self, key: tuple[Shard, str], renewing: asyncio.Task[list[bool]]) -> None:
        del self._renewing[key]
        if not renewing.cancelled():
            renewing.exception()  # retrieved: asyncio warns of an exception that nobody has seen

    async def tell(self, worker: str, heartbeat: WorkerHeartbeat | None) -> None:
        answers = await self._shard_set.call_each(lambda shard: shard.record_worker(worker, heartbeat))
        silent = {name for names in answers for name in names}
        if silent:
            # One that is silent here may be at work in another shard.
            agreed = await self._shard_set.call_each(lambda shard: shard.silent_workers(silent))
            silent.intersection_update(*agreed)
        if silent:
            await self._shard_set.call_each(lambda shard: shard.silent_workers(silent, forget=True))

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        outcomes, jars = await self._jars.take_cookies(outcomes)
        own, new, relied = await self._cross_shard_links.add_links_of(outcomes)
        accepted = [False] * len(outcomes)
        troubles: list[HostTrouble] = []
        homes: dict[Shard, list[int]] = defaultdict(list)
        for index, outcome in enumerate(outcomes):
            homes[self._cross_shard_links.home_of(outcome.lease)].append(index)

        async def ack(shard: Shard) -> Committed:
            # All of them, so that a call that is sent again finds each at its place in the answer of the first time.
            mine = [own[index] or _never_granted(outcomes[index]) for index in homes[shard]]
            others = {number: state for index in homes[shard] for number, state in relied[index].items()}
            packed = msgspec.msgpack.encode([(number, *state) for number, state in others.items()]) if others else b""
            return await shard.commit_relying(worker, mine, 0, numbered(call, 0), packed)

        new_links = 0
        for indexes, answer in zip(homes.values(), await self._shard_set.call_each(ack, homes), strict=True):
            for index, is_accepted in zip(indexes, answer.accepted, strict=True):
                accepted[index] = is_accepted
            new_links += answer.new_links
            troubles += answer.troubles
        new_links += sum(new[index] for index, is_accepted in enumerate(accepted) if is_accepted)
        grant = None
        if want:
            grant = await self.lease(worker, want, call)
        else:
            await self._shard_set.settle(homes)
        versions = [jars[index] for index in sorted(jars) if accepted[index]]
        store = self._leasing.store()
        return Committed(accepted, grant, new_links, _in_order(troubles, outcomes), versions, store)

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        homes = self._by_home(leases)
        await self._shard_set.call_each(
            lambda shard: shard.release([leases[index] for index in homes[shard]], late=late, touched=touched), homes
        )
        await self._shard_set.settle(homes)

    async def release_worker(self, worker: str) -> int:
        lost = await self._everywhere(lambda shard: shard.release_worker(worker))
        for shard in self._shard_set.shards:
            shard.forget_worker(worker)
        return lost

    async def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        return await self._everywhere(lambda shard: shard.relieve_worker(worker, page, pause_seconds))

    async def reap(self) -> int:
        return await self._everywhere(lambda shard: shard.reap())

    async def revive(self, error_class: str = "", ids: Sequence[int] = ()) -> int:
        revived, left = 0, self._shard_set.shards
        while left:
            asked, left = left, []
            answers = await self._shard_set.call_each(lambda shard: shard.revive(error_class, ids), asked)
            for shard, answer in zip(asked, answers, strict=True):
                revived += max(0, answer)
                if answer < 0:
                    await self._shard_set.reopen(None, finished=True)
                    left.append(shard)
        return revived

    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        groups: dict[Shard, list[str]] = defaultdict(list)
        for key in host_keys:
            groups[self._shard_set.shard_of(key)].append(key)
        found: dict[str, RobotsRecord] = {}
        for some in await self._shard_set.call_each(lambda shard: shard.robots(groups[shard]), groups):
            found |= some
        return found

    async def jars(self, wanted: Sequence[JarRef]) -> list[Jar]:
        return await self._jars.read(wanted)

    async def log_in(self, login: SessionLogin, entries: Sequence[Entry], *, failed: bool = False) -> bool:  # noqa: ARG002
        return False  # in shards none is handed out, and nobody is asked

    async def sessions(self) -> list[SessionSeen]:
        return await self._shard_set.lead.sessions()

    async def add_cookies(self, news: Sequence[CookieNews]) -> None:
        await self._shard_set.lead.add_cookies(news)

    async def count_distinct(self, changes: bytes) -> None:
        await self._shard_set.lead.count_distinct(changes)

    async def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        answers = await self._shard_set.call_each(lambda shard: shard.known_pages(after, until, limit))
        pages = sorted((page for answer in answers for page in answer), key=lambda page: (page.due_at, page.id))
        # A shard that has more to tell has told of as many: of what is not later than these, none is missing.
        last = pages[limit - 1].due_at if len(pages) > limit else math.inf
        return [page for page in pages if page.due_at <= last]

    def _by_home(self, leases: Iterable[Lease]) -> dict[Shard, list[int]]:
        """The indexes of the leases, by the shard that has granted them."""
        homes: dict[Shard, list[int]] = defaultdict(list)
        for index, lease in enumerate(leases):
            homes[self._cross_shard_links.home_of(lease)].append(index)
        return homes

    async def _everywhere(self, call: Callable[[Shard], Awaitable[int]]) -> int:
        total = sum(await self._shard_set.call_each(call))
        await self._shard_set.settle(self._shard_set.shards)
        return total

    # ---- the outbox

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        return await self._outbox.open_sink(target, owner)

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        return await self._outbox.items(target, owner, limit)

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        return await self._outbox.items_done(target, owner, progress)

    async def peek(self, after: int, limit: int) -> list[Item]:
        return await self._outbox.peek(after, limit)

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        await self._outbox.close_sink(target, owner, forget=forget)

    # ---- intakes: kept at the lead

    async def open_intake(self, source: str, owner: str, *, alone: bool = False) -> bytes | None:
        mark = await self._shard_set.lead.open_intake(source, owner, alone=alone)
        # A finished job was reopened.
        await self._shard_set.sync_with_lead()
        return mark

    async def tell_intake(self, source: str, owner: str, progress: IntakeProgress) -> bool:
        return await self._shard_set.lead.tell_intake(source, owner, progress)

    async def leave_intake(self, source: str, owner: str) -> None:
        await self._shard_set.lead.leave_intake(source, owner)

    async def close_intake(self, source: str, owner: str) -> bool:
        closed = await self._shard_set.lead.close_intake(source, owner)
        await self._shard_set.settle(self._shard_set.shards)
        return closed

    async def intakes(self) -> list[IntakeSeen]:
        return await self._shard_set.lead.intakes()

    # ---- proxies: each shard has the whole pool, an equal part of ``per_proxy``, and the bans of its own hosts

    async def register_proxy(self, url: str, owner: str, lifetime_seconds: float | None = None) -> str:
        await self._shard_set.sync_with_lead()
        ids = await self._shard_set.call_each(lambda shard: shard.register_proxy(url, owner, lifetime_seconds))
        return ids[0]

    async def drain_proxy(self, proxy_id: str) -> int:
        return await self._everywhere(lambda shard: shard.drain_proxy(proxy_id))

    async def remove_proxy(self, proxy_id: str) -> int:
        return await self._everywhere(lambda shard: shard.remove_proxy(proxy_id))

    async def ban_proxy(self, proxy_id: str, host_key: str = "", seconds: float = 0.0) -> bool:
        if host_key:
            return await self._shard_set.shard_of(host_key).ban_proxy(proxy_id, host_key, seconds)
        return all(await self._shard_set.call_each(lambda shard: shard.ban_proxy(proxy_id, "", seconds)))

    async def proxies(self) -> list[ProxySeen]:
        return joined_proxies(await self._shard_set.call_each(Shard.proxies))

    # ---- hosts: each belongs to one shard

    async def command_host(self, host_key: str, command: HostCommand) -> Halt | None:
        # A shard that has not heard of a new run would give the order in the run before.
        await self._shard_set.sync_with_lead()
        shard = self._shard_set.shard_of(host_key)
        before = await self._shard_set.call(shard, lambda shard: shard.command_host(host_key, command))
        await self._shard_set.settle([shard])
        return before

    async def hosts(self, state: HostFilter = HostFilter.ALL, limit: int = BATCH, after: str = "") -> HostPage:
        return await self._report.hosts(state, limit, after)

    # ---- reading

    async def counts(self) -> Counts:
        return await self._report.counts()

    async def report(self, hosts: int = 5, queues: int = 0) -> Report:
        return await self._report.report(hosts, queues)

    async def sinks(self) -> list[SinkSeen]:
        return await self._report.sinks()

    async def workers(self) -> list[WorkerSeen]:
        return await self._report.workers()

    async def trace(self, request_id: int, host_key: str = "") -> Trace | None:
        return await self._report.trace(request_id, host_key)

    async def page_record(self, request_id: int, host_key: str) -> PageRecord | None:
        return await self._shard_set.shard_of(host_key).page_record(request_id, host_key)

    async def failures(
        self, error_class: str = "", limit: int = 1000, after: int = 0, *, newest: bool = False
    ) -> list[FailedRequest]:
        return await self._report.failures(error_class, limit, after, newest=newest)

    async def distinct_urls(self) -> bytes:
        return await self._shard_set.lead.distinct_urls()

    async def capacity(self) -> list[StoreCapacity]:
        # One of each server: its run id tells servers apart.
        servers = {shard.life or shard.number: shard for shard in self._shard_set.shards}
        found = []
        for shard in servers.values():
            for one in await shard.capacity():
                place = f"{one.place}, shard {shard.number}" if len(servers) > 1 else one.place
                found.append(msgspec.structs.replace(one, place=place))
        return found

    async def check_consistency(self, *, repair: bool = False) -> Consistency:
        return await check_shards(self._shard_set, repair=repair)

    async def close(self) -> None:
        for renewing in list(self._renewing.values()):
            renewing.cancel()
        for shard in self._shard_set.shards:
            await shard.close()


def check_pool(spec: JobSpec, shards: int) -> None:
    """UsageError for a pool whose proxies may have fewer requests in flight than the job has shards."""
    pool = Settings.from_layers([("the job", spec.settings)]).proxies
    if pool.proxy_pool and pool.per_proxy < shards:
        raise UsageError(
            f"per_proxy is less than the number of shards: {pool.per_proxy} of {shards}",
            hint=f"each shard gets an equal part: use per_proxy={shards} or more, or fewer shards",
        )


def _never_granted(outcome: Outcome) -> Outcome:
    """An outcome that every shard refuses, in the place of one whose lease was lost before its links were added."""
    return Outcome(lease=msgspec.structs.replace(outcome.lease, epoch=0), ending=outcome.ending)


def _in_order(troubles: Iterable[HostTrouble], outcomes: Sequence[Outcome]) -> list[HostTrouble]:
    """The troubles in the order of the outcomes. One batch strikes a host once, and its last page spends the budget."""
    strikes: dict[str, int] = {}
    ends: dict[str, int] = {}
    for index, outcome in enumerate(outcomes):
        ends[outcome.lease.host_key] = index
        if outcome.news is not None and (outcome.news.blocked or outcome.news.unreachable):
            strikes.setdefault(outcome.lease.host_key, index)
    return sorted(troubles, key=lambda trouble: (ends if trouble.rule else strikes)[trouble.key])
