"""Speaking to a Redis: connections, scripts by their hash, and patience when it is away.

One round trip per call. Commands are packed by hiredis: the driver's own packing costs more than the rest of a
client's work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
import secrets
import socket
import time
from collections.abc import Sequence
from typing import Any

from skitter.errors import ExtraMissingError, FrontierError
from skitter.frontier.redis.address import Address
from skitter.frontier.redis.scripts import script

try:
    import hiredis
    from redis import exceptions
    from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
except ImportError as error:
    raise ExtraMissingError("a frontier in Redis", "redis") from error

from skitter.frontier.redis.failures import explain
from skitter.frontier.redis.routes import route_to

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""Longer than any script runs: a server that is silent for so long is away."""
MAX_HOPS = 5
"""Of one command, from node to node of a cluster."""
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 5.0
_WHO = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"
_log = logging.getLogger("skitter.frontier")
_DRIVER_ERRORS = (exceptions.RedisError, OSError, hiredis.HiredisError)


class Absence:
    """Says once that a frontier is away, and once that it is back: however many calls, or nodes, have noticed."""

    def __init__(self) -> None:
        self._away: set[RedisServer] = set()
        self._since = 0.0

    def begins(self, server: RedisServer, what: str) -> None:
        if not self._away:
            self._since = time.monotonic()
            _log.warning("%s; waiting until it is back", what)
        self._away.add(server)

    def ends(self, server: RedisServer) -> None:
        if server in self._away:
            self._away.discard(server)
            if not self._away:
                _log.warning("the frontier is back after %.1f s", time.monotonic() - self._since)


class RedisServer:
    """One Redis, wherever it is now. Calls may run side by side: each has a connection to itself while it lasts."""

    def __init__(self, address: Address, *, patient: bool = False, absence: Absence | None = None) -> None:
        """``absence`` is shared by those whose absence is one piece of news: the nodes of a cluster."""
        self.address = address
        self.life = ""
        """Of the server that was last connected to: another one may lack the newest writes."""
        self._route = route_to(address)
        self._free: list[AbstractConnection] = []
        self._reached = patient
        self._absence = absence or Absence()

    async def run(self, name: str, key: str, *arguments: Any) -> Any:
        """Run a script. It is loaded again when the server has forgotten it."""
        source, sha = script(name)
        try:
            return await self.command("EVALSHA", sha, 1, key, *arguments)
        except exceptions.NoScriptError:
            return await self.command("EVAL", source, 1, key, *arguments)

    async def command(self, *words: Any) -> Any:
        """Send one command. While the job runs, a server that is away is waited for; at the start it is an error."""
        packed: bytes = hiredis.pack_command(words)
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                answer = await self._exchange(packed)
            except exceptions.NoScriptError:
                raise
            except _DRIVER_ERRORS as error:
                failure = explain(error, str(self.address))
                if not (failure.passes and self._reached):
                    raise failure.error from error
                self._absence.begins(self, str(failure.error))
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, MAX_WAIT_SECONDS)
            else:
                self._reached = True
                self._absence.ends(self)
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
            await self._free.pop().disconnect(nowait=True)

    # ---- one exchange

    async def _exchange(self, packed: bytes) -> Any:
        hops = 0
        while True:
            connection = self._free.pop() if self._free else await self._connect()
            try:
                if not connection.is_connected:
                    await self._meet(connection)
                await connection.send_packed_command(packed)
                answer = await connection.read_response()
            except exceptions.MovedError as error:
                await self._leave(connection)
                hops += 1
                if not self.address.cluster or hops > MAX_HOPS:
                    raise
                self._route.moved((error.host, error.port))
            except (exceptions.ReadOnlyError, exceptions.ConnectionError, exceptions.TimeoutError, OSError):
                # The master may be another one by now.
                self._route.failed()
                await self._leave(connection)
                raise
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

    async def _meet(self, connection: AbstractConnection) -> None:
        try:
            await connection.send_packed_command(_WHO)
            told: bytes = await connection.read_response()
        except exceptions.NoPermissionError:
            # Then each connection may be to another one.
            self.life = secrets.token_hex(8)
        else:
            self.life = next((line for line in told.decode().splitlines() if line.startswith("run_id:")), "")

    async def _leave(self, connection: AbstractConnection) -> None:
        """The keys are no longer there, or the server is not: the other connections lead nowhere either."""
        await connection.disconnect(nowait=True)
        while self._free:
            await self._free.pop().disconnect(nowait=True)

    async def _connect(self) -> AbstractConnection:
        address = self.address
        shared: dict[str, Any] = {
            "db": address.db,
            "username": address.username,
            "password": address.password,
            "socket_timeout": ANSWER_SECONDS,
            "socket_connect_timeout": CONNECT_SECONDS,
            "client_name": "skitter",
            "driver_info": None,
            "protocol": 2,
        }
        if address.path:
            return UnixDomainSocketConnection(path=address.path, **shared)
        host, port = await self._route.place()
        shared |= {"host": host, "port": port, "socket_keepalive": True}
        if address.tls:
            return SSLConnection(ssl_ca_certs=address.ca, ssl_check_hostname=True, **shared)
        return Connection(**shared)

    async def warn_if_open(self) -> None:
        """A Redis without a password, on an address that the world can reach, belongs to the world."""
        address = self.address
        if address.path or address.password:
            return
        host, port = await self._route.place()
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return
        if any(ipaddress.ip_address(place[4][0]).is_global for place in found):
            _log.warning("a Redis without a password on a public address: %s", address)


def flags(values: Sequence[bool]) -> list[str]:
    """As scripts read them."""
    return ["1" if value else "0" for value in values]
