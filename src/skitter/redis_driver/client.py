"""A client of one Redis for an event loop: connections, redirections, and replicas that confirm.

One round trip per call. Commands are packed by hiredis: the driver's own packing costs more than the rest of a
client's work.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

import hiredis
from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from skitter.redis_driver import connections, server_checks
from skitter.redis_driver.address import Address
from skitter.redis_driver.connections import connection_to
from skitter.redis_driver.errors import CheckFailedError
from skitter.redis_driver.topology import route_to

MAX_REDIRECTS = 5
"""The most redirections of one command from node to node of a cluster."""
REPLICAS_MILLISECONDS = 1000
"""How long one WAIT waits before it is reported that replicas do not keep up. Then it is sent again."""
DRIVER_ERRORS = (exceptions.RedisError, OSError, hiredis.HiredisError)
"""What calls may raise: the callers make errors of their own of them."""


class RedisClient:
    """A Redis, at whichever host it is now. Calls may run side by side: each has a connection to itself meanwhile."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.life = ""
        """The run id of the server that was last connected to: one with another may lack the newest writes."""
        self._route = route_to(address)
        self._free: list[AbstractConnection] = []
        wait: tuple[Any, ...] = ("WAIT", address.wait_replicas, REPLICAS_MILLISECONDS)
        self._wait: bytes = hiredis.pack_command(wait) if address.wait_replicas else b""

    async def send(self, words: Sequence[Any], *, confirm: bool = False, resend: bool = True) -> Any:
        """Send one command and return its answer.

        ``confirm``: where the address asks for replicas, wait until they have what it wrote. ``resend``: if an idle
        connection turns out to be cut, send it once more, though the server may have run it.
        """
        return await self._send(pack(words), self._wait if confirm else b"", resend=resend)

    async def run_script(
        self, source: bytes, sha: str, keys: Sequence[str], arguments: Sequence[Any], *, resend: bool = True
    ) -> Any:
        """Run a script by its hash; its source is sent when the server does not have it."""
        words = (len(keys), *keys, *arguments)
        try:
            return await self.send(("EVALSHA", sha, *words), confirm=True, resend=resend)
        except exceptions.NoScriptError:
            return await self.send(("EVAL", source, *words), confirm=True, resend=resend)

    async def close(self) -> None:
        while self._free:
            # TLS says goodbye, which takes a moment: a loop that ended before would leave the socket open.
            await self._free.pop().disconnect(nowait=not self.address.tls)

    # ---- one command and its answer

    async def _send(self, packed: bytes, wait: bytes, *, resend: bool = True) -> Any:
        redirects, again = 0, resend
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
            self._few_replicas(replicas)
            await connection.send_packed_command(self._wait)

    def _few_replicas(self, replicas: int) -> None:
        """Raise because too few replicas have a write; an override may return, and WAIT is sent again."""
        raise CheckFailedError("FEWREPLICAS", f"{replicas} of {self.address.wait_replicas}")

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


def pack(words: Sequence[Any]) -> bytes:
    """A command as it goes over the connection."""
    packed: bytes = hiredis.pack_command(tuple(words))
    return packed
