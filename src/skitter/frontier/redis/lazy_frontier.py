"""The frontier of a job in Redis, opened at the first call: the job's record says into how many shards it is split."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from skitter.errors import DamageError, FrontierError, JobError, VanishedError
from skitter.frontier.contract import Frontier
from skitter.frontier.damage_errors import UNREADABLE, damaged
from skitter.frontier.outage import Outage
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.codec import check_format, shards_of
from skitter.frontier.redis.damage_search import find_damage
from skitter.frontier.redis.errors import OtherFormatError
from skitter.frontier.redis.frontier import OtherShardsError, RedisFrontier
from skitter.frontier.redis.jobs import prefix_of, prefixes_of
from skitter.frontier.redis.shards.frontier import ShardedFrontier
from skitter.frontier.redis.shards.shard import Shard
from skitter.model.audit import Actor
from skitter.model.job import Begun, JobSpec
from skitter.observe import events
from skitter.redis_driver.address import Address, parse_address

P = ParamSpec("P")
T = TypeVar("T")


def redis_frontier(
    url: str, job_name: str, *, patient: bool = False, clock: Callable[[], float] | None = None
) -> Frontier:
    """The frontier of one job. ``patient``: wait for a server that is unavailable already at the first call.

    ``clock`` is for tests: it replaces that of the server.
    """
    return LazyFrontier(parse_address(url), job_name, patient=patient, clock=clock)


def _explained(
    method: Callable[Concatenate[LazyFrontier, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[LazyFrontier, P], Coroutine[Any, Any, T]]:
    """The method, with errors that say which value is damaged, or that the job has vanished."""

    @functools.wraps(method)
    async def call(self: LazyFrontier, /, *arguments: P.args, **options: P.kwargs) -> T:
        try:
            return await method(self, *arguments, **options)
        except OtherFormatError:
            raise
        except UNREADABLE as error:
            raise await self._damage(error) from error
        except JobError as error:
            if await self._has_vanished():
                raise VanishedError(
                    f"the job vanished from Redis while it was in use (FLUSHALL, eviction or drop): {self._name}",
                    hint="its undelivered items are lost; run the same crawl command to start over",
                ) from error
            raise

    return call


def _of_opened(
    method: Callable[Concatenate[Frontier, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[LazyFrontier, P], Coroutine[Any, Any, T]]:
    """The method of the contract, called on the frontier that is opened first."""
    name = method.__name__

    @functools.wraps(method)
    async def call(self: LazyFrontier, /, *arguments: P.args, **options: P.kwargs) -> T:
        opened: Callable[P, Coroutine[Any, Any, T]] = getattr(await self._open(), name)
        return await opened(*arguments, **options)

    return _explained(call)


class LazyFrontier:
    """A Frontier that is opened by the first of its calls, and explains what goes wrong in any of them.

    It is needed because a frontier is made without a word to its server, and because the number of shards may be known
    only when the job begins: either this client decides it, or the one that was first.
    """

    def __init__(
        self, address: Address, job_name: str, *, patient: bool, clock: Callable[[], float] | None = None
    ) -> None:
        self._address = address
        self._name = job_name
        self._patient = patient
        self._clock = clock
        self._outage = Outage()
        self._server = RedisServer(address, patient=patient, outage=self._outage)
        self._opened: Frontier | None = None
        self._was_there = False
        """The job: a Redis that refuses to begin one has not lost it."""
        self._shards = 1
        self._one_at_a_time = asyncio.Lock()

    @_explained
    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        await self._open()
        async with self._one_at_a_time:
            if self._opened is None:
                self._opened = self._make_frontier(self._address.shards or 1)
            while True:
                try:
                    begun = await self._opened.begin(spec, fresh=fresh, sinks=sinks)
                    self._was_there = True
                    if self._shards > 1:
                        events.emit(events.JOB_IN_SHARDS(shards=self._shards))
                    return begun
                except OtherShardsError as error:
                    await self._opened.close()
                    self._opened = self._make_frontier(error.shards)

    job = _of_opened(Frontier.job)
    state = _of_opened(Frontier.state)
    command = _of_opened(Frontier.command)
    claim_close = _of_opened(Frontier.claim_close)
    change_settings = _of_opened(Frontier.change_settings)
    add = _of_opened(Frontier.add)
    lease = _of_opened(Frontier.lease)
    renew = _of_opened(Frontier.renew)
    tell = _of_opened(Frontier.tell)
    commit = _of_opened(Frontier.commit)
    release = _of_opened(Frontier.release)
    release_worker = _of_opened(Frontier.release_worker)
    relieve_worker = _of_opened(Frontier.relieve_worker)
    reap = _of_opened(Frontier.reap)
    revive = _of_opened(Frontier.revive)
    robots = _of_opened(Frontier.robots)
    jars = _of_opened(Frontier.jars)
    log_in = _of_opened(Frontier.log_in)
    sessions = _of_opened(Frontier.sessions)
    add_cookies = _of_opened(Frontier.add_cookies)
    count_distinct = _of_opened(Frontier.count_distinct)
    known_pages = _of_opened(Frontier.known_pages)
    open_sink = _of_opened(Frontier.open_sink)
    items = _of_opened(Frontier.items)
    items_done = _of_opened(Frontier.items_done)
    peek = _of_opened(Frontier.peek)
    close_sink = _of_opened(Frontier.close_sink)
    open_intake = _of_opened(Frontier.open_intake)
    tell_intake = _of_opened(Frontier.tell_intake)
    leave_intake = _of_opened(Frontier.leave_intake)
    close_intake = _of_opened(Frontier.close_intake)
    intakes = _of_opened(Frontier.intakes)
    register_proxy = _of_opened(Frontier.register_proxy)
    drain_proxy = _of_opened(Frontier.drain_proxy)
    remove_proxy = _of_opened(Frontier.remove_proxy)
    ban_proxy = _of_opened(Frontier.ban_proxy)
    command_host = _of_opened(Frontier.command_host)
    hosts = _of_opened(Frontier.hosts)
    proxies = _of_opened(Frontier.proxies)
    counts = _of_opened(Frontier.counts)
    report = _of_opened(Frontier.report)
    sinks = _of_opened(Frontier.sinks)
    workers = _of_opened(Frontier.workers)
    trace = _of_opened(Frontier.trace)
    page_record = _of_opened(Frontier.page_record)
    failures = _of_opened(Frontier.failures)
    distinct_urls = _of_opened(Frontier.distinct_urls)
    capacity = _of_opened(Frontier.capacity)
    check_consistency = _of_opened(Frontier.check_consistency)

    def acting_for(self, actor: Actor) -> Frontier:
        """See ``contract.RecordsMutations``."""
        # Only who acts for somebody loads them.
        from skitter.audit.redis_trail import RedisTrail
        from skitter.frontier.recorded_frontier import recorded_frontier

        return recorded_frontier(self, RedisTrail(self._address), self._name, actor)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
        await self._server.close()

    # ---- opening

    async def _open(self) -> Frontier:
        """The frontier of the job as it is stored. A job that does not exist is looked for again at the next call."""
        if self._opened is not None:
            return self._opened
        async with self._one_at_a_time:
            if self._opened is None:
                record = await self._server.command("GET", prefix_of(self._name) + "job")
                if record is None:
                    return self._make_frontier(1)
                check_format(record, self._name)
                self._opened = self._make_frontier(shards_of(record))
                self._was_there = True
            return self._opened

    def _make_frontier(self, shards: int) -> Frontier:
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
        """The server of a shard: in a cluster every shard may be on another node, so each finds its own."""
        if shard == 0 or not self._address.cluster:
            return self._server
        return RedisServer(self._address, patient=self._patient, outage=self._outage)

    # ---- explaining errors

    async def _damage(self, error: Exception) -> DamageError:
        """The error that names the value which cannot be read."""
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
        """Whether the job was there when this object opened it, or was begun by it, and is not there any more."""
        if not self._was_there:
            return False
        found: int = await self._server.command("EXISTS", prefix_of(self._name) + "job")
        return found == 0
