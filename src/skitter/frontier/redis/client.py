"""The client of the frontier's Redis: scripts by their name, and waiting while the server is unavailable."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Any

from redis import exceptions

from skitter.errors import FrontierError
from skitter.frontier.outage import FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS, Outage
from skitter.frontier.redis.errors import Failure, explain
from skitter.frontier.redis.scripts import script
from skitter.model.store_capacity import StoreCapacity
from skitter.redis_driver import server_checks
from skitter.redis_driver.address import Address
from skitter.redis_driver.client import DRIVER_ERRORS, RedisClient, pack
from skitter.redis_driver.errors import NodesFailedError

START_SECONDS = 30.0
"""How long a command that begins waits for a master, where sentinels or nodes answer: in the middle of a failover."""
_log = logging.getLogger("skitter.frontier")


class RedisServer(RedisClient):
    """A Redis that keeps jobs: while a job runs, a server that is unavailable is waited for."""

    def __init__(self, address: Address, *, patient: bool = False, outage: Outage | None = None) -> None:
        """``outage`` is shared by servers whose outages are reported as one: the nodes of a cluster."""
        self._outage = outage or Outage()
        super().__init__(address, self._outage.failed_at)
        self._reached = patient
        self._started_waiting: float | None = None

    async def run(self, name: str, key: str, *arguments: Any) -> Any:
        """Run a script. It is loaded again when the server has forgotten it.

        Where the address asks for replicas, the answer comes when they have everything that it reports.
        """
        source, sha = script(name)
        try:
            answer = await self._send_until_answered(("EVALSHA", sha, 1, key, *arguments), self._wait)
        except exceptions.NoScriptError:
            answer = await self._send_until_answered(("EVAL", source, 1, key, *arguments), self._wait)
        # Not after any command: a server that answers questions may still take no writes.
        self._reached = True
        self._outage.end(self)
        return answer

    async def command(self, *words: Any) -> Any:
        """Send one command."""
        return await self._send_until_answered(words)

    async def _send_until_answered(self, words: Sequence[Any], wait: bytes = b"") -> Any:
        """The answer. While the job runs, a server that is unavailable is waited for; at the start it is an error,
        unless it may just be failing over."""
        packed = pack(words)
        pause = FIRST_WAIT_SECONDS
        while True:
            try:
                answer = await self._send(packed, wait)
            except exceptions.NoScriptError:
                raise
            except DRIVER_ERRORS as error:
                failure = explain(error, self.address)
                if not (failure.passes and (self._reached or self._may_be_failing_over(error, failure))):
                    raise failure.error from error
                self._outage.begin(self, str(self.address), str(failure.error))
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, MAX_WAIT_SECONDS if self._reached else 1.0)
            else:
                return answer

    def _may_be_failing_over(self, error: Exception, failure: Failure) -> bool:
        """Whether a master may be there soon: the sentinels or the cluster answer. It is not waited for very long."""
        if not (failure.failing_over and (self.address.cluster or self.address.master)):
            return False
        if isinstance(error, NodesFailedError) and not error.any_answered:
            return False
        now = time.monotonic()
        if self._started_waiting is None:
            self._started_waiting = now
        return now - self._started_waiting < START_SECONDS

    async def config(self, name: str) -> str | None:
        """A parameter of the server; None where CONFIG is forbidden (managed servers forbid it)."""
        try:
            answer = await self.command("CONFIG", "GET", name)
        except FrontierError as error:
            if isinstance(error.__cause__, exceptions.ResponseError):
                return None
            raise
        return answer[1].decode() if answer else None

    async def check(self) -> None:
        """Refuse a server that would lose parts of a job, and warn of one that is open to the world."""
        await server_checks.warn_if_open(self.address, await self._route.host())
        server_checks.refuse_if_evicting(await self._memory_info(), str(self.address))
        if self.address.wait_replicas:
            limits = [await self.config(name) for name in ("min-replicas-to-write", "min-replicas-max-lag")]
            if "0" in limits and not self._outage.is_advised:
                self._outage.is_advised = True
                _log.warning(
                    "the Redis at %s accepts writes without its replicas: a master that was paused may take some after "
                    "its successor has begun; set min-replicas-to-write %d and min-replicas-max-lag 10 on every server",
                    *(self.address, self.address.wait_replicas),
                )

    async def capacity(self) -> list[StoreCapacity]:
        """What is left of its memory; nothing where it has no limit, or does not tell."""
        info = await self._memory_info()
        total = int(info.get("maxmemory", "0"))
        if not total:
            return []
        free = max(0, total - int(info.get("used_memory", "0")))
        return [
            StoreCapacity(
                place=f"the memory of the Redis at {self.address}", total_bytes=total, free_bytes=free, is_disk=False
            )
        ]

    async def _memory_info(self) -> dict[str, str]:
        """What the server tells of its memory; nothing where INFO is forbidden."""
        try:
            reply: bytes = await self.command("INFO", "memory")
        except FrontierError as error:
            if isinstance(error.__cause__, exceptions.NoPermissionError):
                return {}
            raise
        return server_checks.parse_info(reply)

    def _few_replicas(self, replicas: int) -> None:
        if not self._reached:
            super()._few_replicas(replicas)
        wanted, where = self.address.wait_replicas, str(self.address)
        self._outage.begin(self, where, f"only {replicas} of {wanted} replicas are up to date: {where}")


def flags(values: Sequence[bool]) -> list[str]:
    """Booleans as scripts read them."""
    return ["1" if value else "0" for value in values]
