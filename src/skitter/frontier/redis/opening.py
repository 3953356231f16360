"""Opening the frontier of a job: how many shards it has is known to its lead, and asked for at the first call."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from skitter.errors import DamageError, FrontierError, JobError, VanishedError
from skitter.frontier.contract import Frontier
from skitter.frontier.damaged_values import UNREADABLE, damaged
from skitter.frontier.redis.address import MAX_SHARDS, Address, parse_address
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.codec import check_format, shards_of
from skitter.frontier.redis.damaged_values import find_damage
from skitter.frontier.redis.frontier import OtherShardsError, RedisFrontier
from skitter.frontier.redis.handshake import count_masters
from skitter.frontier.redis.jobs import prefix_of, prefixes_of
from skitter.frontier.redis.outage import Outage
from skitter.frontier.redis.server_errors import OtherFormatError
from skitter.frontier.redis.shards.frontier import ShardedFrontier
from skitter.frontier.redis.shards.shard import Shard
from skitter.model.job import (
    Begun,
    Command,
    Counts,
    Dead,
    Item,
    Job,
    JobSpec,
    Report,
    SinkProgress,
    Trace,
)
from skitter.model.lease import Grant, Lease
from skitter.model.outcome import Committed, Outcome, RobotsRecord
from skitter.model.request import Entry
from skitter.model.worker import WorkerCard, WorkerSeen

P = ParamSpec("P")
T = TypeVar("T")

SHARDS_PER_MASTER = 2
"""Of a new job in a Redis Cluster. So the cluster may grow to twice its masters, and each has a part of the job. More
would cost more calls: a worker asks each shard about once a second, and a batch of outcomes is cut into more pieces."""


def redis_frontier(
    url: str, job_name: str, *, patient: bool = False, clock: Callable[[], float] | None = None
) -> Frontier:
    """The frontier of one job. ``patient``: wait for a server that is away already at the first call.

    ``clock`` is for tests: it stands in for the server's.
    """
    return _Opening(parse_address(url), job_name, patient, clock)


def _told(
    method: Callable[Concatenate[_Opening, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Opening, P], Coroutine[Any, Any, T]]:
    """A method of the contract, with what damaged values and a job that is gone make it raise told in words."""

    @functools.wraps(method)
    async def call(self: _Opening, /, *arguments: P.args, **options: P.kwargs) -> T:
        try:
            return await method(self, *arguments, **options)
        except OtherFormatError:
            raise
        except UNREADABLE as error:
            raise await self._damaged(error) from error
        except JobError as error:
            if await self._has_vanished():
                raise VanishedError(
                    f"the job vanished from Redis while it was in use (FLUSHALL, eviction or drop): {self._name}",
                    hint="items that waited in its outbox are gone with it; the same crawl command begins anew",
                ) from error
            raise

    return call


class _Opening:
    """A Frontier that finds out at its first call what it is."""

    def __init__(
        self, address: Address, job_name: str, patient: bool, clock: Callable[[], float] | None = None
    ) -> None:
        self._address = address
        self._name = job_name
        self._patient = patient
        self._clock = clock
        self._absence = Outage()
        self._server = RedisServer(address, patient=patient, absence=self._absence)
        self._opened: Frontier | None = None
        self._was_there = False
        """The job: a Redis that refuses to begin one has not lost it."""
        self._shards = 1
        self._one_at_a_time = asyncio.Lock()

    async def _frontier(self) -> Frontier:
        """A job that does not exist is asked for again at the next call."""
        if self._opened is not None:
            return self._opened
        async with self._one_at_a_time:
            if self._opened is None:
                record = await self._server.command("GET", prefix_of(self._name) + "job")
                if record is None:
                    return self._of(1)
                check_format(record, self._name)
                self._opened = self._of(shards_of(record))
                self._was_there = True
            return self._opened

    async def _damaged(self, error: Exception) -> DamageError:
        place = ""
        # A server that fails now as well: then it is not known which value it was.
        with contextlib.suppress(FrontierError, *UNREADABLE):
            for number, prefix in enumerate(prefixes_of(self._name, self._shards)):
                server = self._server_of(number)
                try:
                    place = place or await find_damage(server, prefix)
                finally:
                    if server is not self._server:
                        await server.close()
        return damaged(self._name, place, error, str(self._address))

    async def _has_vanished(self) -> bool:
        """It was there when this object found it, or was begun by it, and is not there any more."""
        if not self._was_there:
            return False
        found: int = await self._server.command("EXISTS", prefix_of(self._name) + "job")
        return found == 0

    def _of(self, shards: int) -> Frontier:
        self._shards = shards
        if shards == 1:
            return RedisFrontier(self._server, self._name, self._clock)
        return ShardedFrontier(
            [
                Shard(self._server_of(number), self._name, self._clock, prefix, number)
                for number, prefix in enumerate(prefixes_of(self._name, shards))
            ]
        )

    def _server_of(self, shard: int) -> RedisServer:
        """In a cluster every shard may be on another node, so each finds its own way."""
        if shard == 0 or not self._address.cluster:
            return self._server
        return RedisServer(self._address, patient=self._patient, absence=self._absence)

    async def _shards_of_new(self) -> int:
        if self._address.shards is not None:
            return self._address.shards
        if not self._address.cluster:
            return 1
        return min(SHARDS_PER_MASTER * count_masters(await self._server.command("CLUSTER", "NODES")), MAX_SHARDS)

    @_told
    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        await self._frontier()
        async with self._one_at_a_time:
            if self._opened is None:
                self._opened = self._of(await self._shards_of_new())
            while True:
                try:
                    begun = await self._opened.begin(spec, fresh=fresh, sinks=sinks)
                    self._was_there = True
                    return begun
                except OtherShardsError as error:
                    await self._opened.close()
                    self._opened = self._of(error.shards)

    @_told
    async def job(self) -> Job:
        return await (await self._frontier()).job()

    @_told
    async def command(self, command: Command) -> Job:
        return await (await self._frontier()).command(command)

    @_told
    async def add(self, entries: Sequence[Entry]) -> int:
        return await (await self._frontier()).add(entries)

    @_told
    async def lease(self, worker: str, limit: int) -> Grant:
        return await (await self._frontier()).lease(worker, limit)

    @_told
    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        return await (await self._frontier()).renew(worker, leases)

    @_told
    async def tell(self, worker: str, card: WorkerCard | None) -> None:
        await (await self._frontier()).tell(worker, card)

    @_told
    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0) -> Committed:
        return await (await self._frontier()).commit(worker, outcomes, want)

    @_told
    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        await (await self._frontier()).release(leases, late=late, touched=touched)

    @_told
    async def release_worker(self, worker: str) -> int:
        return await (await self._frontier()).release_worker(worker)

    @_told
    async def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        return await (await self._frontier()).relieve_worker(worker, page, pause_seconds)

    @_told
    async def reap(self) -> int:
        return await (await self._frontier()).reap()

    @_told
    async def revive(self, error_class: str = "", ids: Sequence[int] = ()) -> int:
        return await (await self._frontier()).revive(error_class, ids)

    @_told
    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        return await (await self._frontier()).robots(host_keys)

    @_told
    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        return await (await self._frontier()).open_sink(target, owner)

    @_told
    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        return await (await self._frontier()).items(target, owner, limit)

    @_told
    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        return await (await self._frontier()).items_done(target, owner, progress)

    @_told
    async def peek(self, after: int, limit: int) -> list[Item]:
        return await (await self._frontier()).peek(after, limit)

    @_told
    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        await (await self._frontier()).close_sink(target, owner, forget=forget)

    @_told
    async def counts(self) -> Counts:
        return await (await self._frontier()).counts()

    @_told
    async def report(self, hosts: int = 5, queues: int = 0) -> Report:
        return await (await self._frontier()).report(hosts, queues)

    @_told
    async def workers(self) -> list[WorkerSeen]:
        return await (await self._frontier()).workers()

    @_told
    async def trace(self, request_id: int, host_key: str = "") -> Trace | None:
        return await (await self._frontier()).trace(request_id, host_key)

    @_told
    async def dead(self, error_class: str = "", limit: int = 1000, after: int = 0) -> list[Dead]:
        return await (await self._frontier()).dead(error_class, limit, after)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
        await self._server.close()
