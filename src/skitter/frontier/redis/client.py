"""Speaking to a Redis: connections, scripts by their hash, and patience when it is away.

One round trip per call. Commands are packed by hiredis: the driver's own packing costs more than the rest of a
client's work.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from typing import Any

from skitter.errors import ExtraMissingError, FrontierError
from skitter.frontier.redis.address import Address
from skitter.frontier.redis.outage import Outage
from skitter.frontier.redis.scripts import script

try:
    import hiredis
    from redis import exceptions
    from redis.asyncio.connection import AbstractConnection
except ImportError as error:
    raise ExtraMissingError("a frontier in Redis", "redis") from error

from skitter.frontier.redis import connections, server_checks
from skitter.frontier.redis.connections import connection_to
from skitter.frontier.redis.handshake import Introduction, handshake
from skitter.frontier.redis.server_errors import explain
from skitter.frontier.redis.topology import route_to

MAX_HOPS = 5
"""Of one command, from node to node of a cluster."""
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 5.0
REPLICAS_MILLISECONDS = 1000
"""For which one WAIT waits before it is said that replicas do not keep up. Then it is sent again."""
_DRIVER_ERRORS = (exceptions.RedisError, OSError, hiredis.HiredisError)


class RedisServer:
    """One Redis, wherever it is now. Calls may run side by side: each has a connection to itself while it lasts."""

    def __init__(self, address: Address, *, patient: bool = False, absence: Outage | None = None) -> None:
        """``absence`` is shared by those whose absence is one piece of news: the nodes of a cluster."""
        self.address = address
        self.life = ""
        """Of the server that was last connected to: another one may lack the newest writes."""
        self._route = route_to(address)
        self._free: list[AbstractConnection] = []
        self._reached = patient
        self._absence = absence or Outage()
        words: tuple[Any, ...] = ("WAIT", address.wait_replicas, REPLICAS_MILLISECONDS)
        self._wait: bytes = hiredis.pack_command(words) if address.wait_replicas else b""

    async def run(self, name: str, key: str, *arguments: Any) -> Any:
        """Run a script. It is loaded again when the server has forgotten it.

        Where the address asks for replicas, the answer comes when they have everything that it tells of.
        """
        source, sha = script(name)
        try:
            answer = await self._patiently(("EVALSHA", sha, 1, key, *arguments), self._wait)
        except exceptions.NoScriptError:
            answer = await self._patiently(("EVAL", source, 1, key, *arguments), self._wait)
        # Not after any command: a server that answers questions may still take no writes.
        self._reached = True
        self._absence.ends(self)
        return answer

    async def command(self, *words: Any) -> Any:
        """Send one command."""
        return await self._patiently(words)

    async def _patiently(self, words: Sequence[Any], wait: bytes = b"") -> Any:
        """While the job runs, a server that is away is waited for; at the start it is an error."""
        packed: bytes = hiredis.pack_command(tuple(words))
        pause = FIRST_WAIT_SECONDS
        while True:
            try:
                answer = await self._exchange(packed, wait)
            except exceptions.NoScriptError:
                raise
            except _DRIVER_ERRORS as error:
                failure = explain(error, str(self.address))
                if not (failure.passes and self._reached):
                    raise failure.error from error
                self._absence.begins(self, str(failure.error))
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, MAX_WAIT_SECONDS)
            else:
                return answer

    async def config(self, name: str) -> str | None:
        """A parameter of the server; None where it must not be asked (managed servers forbid it)."""
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
        await server_checks.warn_if_open(self.address, await self._route.place())
        try:
            told: bytes = await self.command("INFO", "memory")
        except FrontierError as error:
            if isinstance(error.__cause__, exceptions.NoPermissionError):
                return
            raise
        server_checks.refuse_if_evicting(server_checks.read_info(told), str(self.address))

    # ---- one exchange

    async def _exchange(self, packed: bytes, wait: bytes) -> Any:
        hops, again = 0, True
        while True:
            connection = self._free.pop() if self._free else await self._connect()
            is_new = not connection.is_connected
            try:
                if is_new:
                    await self._meet(connection)
                answer = await self._ask(connection, packed, wait)
            except exceptions.MovedError as error:
                await self._leave(connection)
                hops += 1
                if not self.address.cluster:
                    raise
                if hops > MAX_HOPS:
                    # Nodes that do not agree yet who has the keys: in the middle of a failover.
                    raise exceptions.TryAgainError("moved too often") from error
                self._route.moved((error.host, error.port))
            except (exceptions.ReadOnlyError, exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
                # The master may be another one by now.
                self._route.failed()
                await self._leave(connection)
                # A connection that has lain idle may be cut: not worth a word if a new one can be made at once.
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

    async def _ask(self, connection: AbstractConnection, packed: bytes, wait: bytes) -> Any:
        async with asyncio.timeout(connections.ANSWER_SECONDS):
            await connection.send_packed_command(packed + wait)
            try:
                answer = await connection.read_response()
            except exceptions.ResponseError:
                if wait:
                    # The answer to WAIT is still on its way, and nobody's.
                    await connection.disconnect(nowait=True)
                raise
        if wait:
            await self._until_replicated(connection)
        return answer

    async def _until_replicated(self, connection: AbstractConnection) -> None:
        """The write has happened, so it is not sent again: only waited for, as long as it takes.

        WAIT counts from the last write of its own connection. If that breaks, the call as a whole is made again, as
        after any answer that was lost: leases are fenced and adds have an identity, so that changes nothing twice.
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
                raise exceptions.ResponseError(f"FEWREPLICAS {replicas} of {wanted}")
            self._absence.begins(self, f"only {replicas} of {wanted} replicas keep up: {self.address}")
            await connection.send_packed_command(self._wait)

    async def _meet(self, connection: AbstractConnection) -> None:
        try:
            async with asyncio.timeout(connections.ANSWER_SECONDS):
                told = await handshake(connection, cluster=self.address.cluster)
        except exceptions.NoPermissionError:
            # Then each connection may be to another one.
            told = Introduction(life=secrets.token_hex(8))
        except exceptions.ResponseError:
            # Not met: it must not be taken for a connection that was.
            await connection.disconnect(nowait=True)
            raise
        self.life = told.life
        if told.nodes:
            self._route.learn(told.nodes)

    async def _leave(self, connection: AbstractConnection) -> None:
        """The keys are no longer there, or the server is not: the other connections lead nowhere either."""
        await connection.disconnect(nowait=True)
        while self._free:
            await self._free.pop().disconnect(nowait=True)

    async def _connect(self) -> AbstractConnection:
        return connection_to(self.address, await self._route.place())


def flags(values: Sequence[bool]) -> list[str]:
    """As scripts read them."""
    return ["1" if value else "0" for value in values]
