"""The client of the frontier's Redis: scripts by their name, and waiting while the server is unavailable."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from redis import exceptions

from skitter.errors import FrontierError
from skitter.frontier.outage import FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS, Outage
from skitter.frontier.redis.errors import explain
from skitter.frontier.redis.scripts import script
from skitter.model.store_capacity import StoreCapacity
from skitter.redis_driver import server_checks
from skitter.redis_driver.address import Address
from skitter.redis_driver.client import DRIVER_ERRORS, RedisClient, pack


class RedisServer(RedisClient):
    """A Redis that keeps jobs: while a job runs, a server that is unavailable is waited for."""

    def __init__(self, address: Address, *, patient: bool = False, outage: Outage | None = None) -> None:
        """``outage`` is shared by servers whose outages are reported as one: the nodes of a cluster."""
        super().__init__(address)
        self._reached = patient
        self._outage = outage or Outage()

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
        """The answer. While the job runs, a server that is unavailable is waited for; at the start it is an error."""
        packed = pack(words)
        pause = FIRST_WAIT_SECONDS
        while True:
            try:
                answer = await self._send(packed, wait)
            except exceptions.NoScriptError:
                raise
            except DRIVER_ERRORS as error:
                failure = explain(error, self.address)
                if not (failure.passes and self._reached):
                    raise failure.error from error
                self._outage.begin(self, str(failure.error))
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, MAX_WAIT_SECONDS)
            else:
                return answer

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
        wanted = self.address.wait_replicas
        self._outage.begin(self, f"only {replicas} of {wanted} replicas are up to date: {self.address}")


def flags(values: Sequence[bool]) -> list[str]:
    """Booleans as scripts read them."""
    return ["1" if value else "0" for value in values]
