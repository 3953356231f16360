"""A client of one Redis: connections, scripts by their hash, and waiting while the server is away.

One round trip per call. Commands are packed by hiredis: the driver's own packing costs more than the rest of a
client's work.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from typing import Any

import hiredis
from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from skitter.errors import FrontierError
from skitter.frontier.outage import FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS, Outage
from skitter.frontier.redis.errors import explain
from skitter.frontier.redis.scripts import script
from skitter.model.store_capacity import StoreCapacity
from skitter.redis_driver import connections, server_checks
from skitter.redis_driver.address import Address
from skitter.redis_driver.connections import connection_to
from skitter.redis_driver.errors import CheckFailedError
from skitter.redis_driver.topology import route_to

MAX_REDIRECTS = 5
"""The most redirections of one command from node to node of a cluster."""
REPLICAS_MILLISECONDS = 1000
"""How long one WAIT waits before it is reported that replicas do not keep up. Then it is sent again."""
_DRIVER_ERRORS = (exceptions.RedisError, OSError, hiredis.HiredisError)


class RedisServer:
    """A Redis, at whichever host it is now. Calls may run side by side: each has a connection to itself meanwhile."""

    def __init__(self, address: Address, *, patient: bool = False, outage: Outage | None = None) -> None:
        """``outage`` is shared by servers whose outages are reported as one: the nodes of a cluster."""
        self.address = address
        self.life = ""
        """The run id of the server that was last connected to: one with another may lack the newest writes."""
        self._route = route_to(address)
        self._free: list[AbstractConnection] = []
        self._reached = patient
        self._outage = outage or Outage()
        wait: tuple[Any, ...] = ("WAIT", address.wait_replicas, REPLICAS_MILLISECONDS)
        self._wait: bytes = hiredis.pack_command(wait) if address.wait_replicas else b""

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
        """The answer. While the job runs, a server that is away is waited for; at the start it is an error."""
        packed: bytes = hiredis.pack_command(tuple(words))
        pause = FIRST_WAIT_SECONDS
        while True:
            try:
                answer = await self._send(packed, wait)
            except exceptions.NoScriptError:
                raise
            except _DRIVER_ERRORS as error:
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

    async def close(self) -> None:
        while self._free:
            # TLS says goodbye, which takes a moment: a loop that ended before would leave the socket open.
            await self._free.pop().disconnect(nowait=not self.address.tls)

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

    # ---- one command and its answer

    async def _send(self, packed: bytes, wait: bytes) -> Any:
        redirects, again = 0, True
        while True:
            connection = self._free.pop() if self._free else await self._connect()
            is_new = not connection.is_connected
            try:
                if is_new:
                    await self._identify(connection)
                answer = await self._send_over(connection, packed, wait)
            except exceptions.MovedError as error:
                await self._disconnect_all(connection)
                redirects += 1
                if not self.address.cluster:
                    raise
                if redirects > MAX_REDIRECTS:
                    # Nodes that do not agree yet who has the keys: in the middle of a failover.
                    raise exceptions.TryAgainError("moved too often") from error
                self._route.moved((error.host, error.port))
            except (exceptions.ReadOnlyError, exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
                # The master may be another one by now.
                self._route.failed()
                await self._disconnect_all(connection)
                # A connection that was idle may be cut: not worth reporting if a new one can be made at once.
                if is_new or not again or isinstance(error, exceptions.TimeoutError | TimeoutError):
                    raise
                again = False
            except exceptions.ResponseError:
                self._free.append(connection)
                raise
            except BaseException:
                # Also when cancelled: the answer of this call must not become that of the next.
                await connection.disconnect(nowait=True)
                raise
            else:
                self._free.append(connection)
                return answer

    async def _send_over(self, connection: AbstractConnection, packed: bytes, wait: bytes) -> Any:
        async with asyncio.timeout(connections.ANSWER_SECONDS):
            await connection.send_packed_command(packed + wait)
            try:
                answer = await connection.read_response()
            except exceptions.ResponseError:
                if wait:
                    # The answer to WAIT is still on its way, and nobody reads it.
                    await connection.disconnect(nowait=True)
                raise
        if wait:
            await self._wait_for_replicas(connection)
        return answer

    async def _wait_for_replicas(self, connection: AbstractConnection) -> None:
        """Read the answer to WAIT, and send WAIT again until enough replicas have the write.

        The write has happened, so it is not sent again. WAIT counts from the last write of its own connection. If that
        breaks, the call as a whole is made again, as after any answer that was lost: leases are fenced and adds have
        an identity, so that changes nothing twice.
        """
        wanted = self.address.wait_replicas
        while True:
            try:
                async with asyncio.timeout(connections.ANSWER_SECONDS):
                    replicas: int = await connection.read_response()
            except exceptions.NoPermissionError:
                await connection.disconnect(nowait=True)
                raise
            except exceptions.ResponseError as error:
                raise exceptions.ConnectionError("it is no longer a master") from error
            if replicas >= wanted:
                return
            if not self._reached:
                raise CheckFailedError("FEWREPLICAS", f"{replicas} of {wanted}")
            self._outage.begin(self, f"only {replicas} of {wanted} replicas keep up: {self.address}")
            await connection.send_packed_command(self._wait)

    # ---- connections

    async def _connect(self) -> AbstractConnection:
        return connection_to(self.address, await self._route.host())

    async def _identify(self, connection: AbstractConnection) -> None:
        """Open a connection and note which server answers."""
        try:
            async with asyncio.timeout(connections.ANSWER_SECONDS):
                server = await server_checks.handshake(connection, cluster=self.address.cluster)
        except exceptions.NoPermissionError:
            # Then each connection may be to another one.
            server = server_checks.ServerIdentity(life=secrets.token_hex(8))
        except exceptions.ResponseError:
            # It must not be taken for a connection whose server is known.
            await connection.disconnect(nowait=True)
            raise
        self.life = server.life
        if server.nodes:
            self._route.learn(server.nodes)

    async def _disconnect_all(self, connection: AbstractConnection) -> None:
        """The keys are no longer there, or the server is not: the other connections lead nowhere either."""
        await connection.disconnect(nowait=True)
        while self._free:
            await self._free.pop().disconnect(nowait=True)


def flags(values: Sequence[bool]) -> list[str]:
    """Booleans as scripts read them."""
    return ["1" if value else "0" for value in values]
