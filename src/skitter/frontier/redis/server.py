"""Speaking to a Redis: connections, scripts by their hash, and patience when it is away.

One round trip per call. Commands are packed by hiredis: the driver's own packing costs more than the rest of a
client's work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
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

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""Longer than any script runs: a server that is silent for so long is away."""
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 5.0
_log = logging.getLogger("skitter.frontier")
_DRIVER_ERRORS = (exceptions.RedisError, OSError, hiredis.HiredisError)


class RedisServer:
    """One Redis. Calls may run side by side: each has a connection to itself while it lasts."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._free: list[AbstractConnection] = []
        self._closed = False
        self._reached = False
        self._away_since: float | None = None

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
                self._say_away(str(failure.error))
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, MAX_WAIT_SECONDS)
            else:
                self._say_back()
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
        self._closed = True
        while self._free:
            await self._free.pop().disconnect(nowait=True)

    # ---- one exchange

    async def _exchange(self, packed: bytes) -> Any:
        connection = self._free.pop() if self._free else self._connect()
        try:
            await connection.send_packed_command(packed)
            answer = await connection.read_response()
        except exceptions.ResponseError:
            self._give_back(connection)
            raise
        except BaseException:
            # Also when cancelled: the answer of this call must not become that of the next.
            await connection.disconnect(nowait=True)
            raise
        self._give_back(connection)
        return answer

    def _give_back(self, connection: AbstractConnection) -> None:
        self._free.append(connection)

    def _connect(self) -> AbstractConnection:
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
        shared |= {"host": address.host, "port": address.port, "socket_keepalive": True}
        if address.tls:
            return SSLConnection(ssl_ca_certs=address.ca, ssl_check_hostname=True, **shared)
        return Connection(**shared)

    # ---- saying so once

    def _say_away(self, what: str) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            _log.warning("%s; waiting until it is back", what)

    def _say_back(self) -> None:
        self._reached = True
        if self._away_since is not None:
            _log.warning("the frontier is back after %.1f s", time.monotonic() - self._away_since)
            self._away_since = None

    async def warn_if_open(self) -> None:
        """A Redis without a password, on an address that the world can reach, belongs to the world."""
        address = self.address
        if address.path or address.password:
            return
        try:
            found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError:
            return
        if any(ipaddress.ip_address(place[4][0]).is_global for place in found):
            _log.warning("a Redis without a password on a public address: %s", address)


def flags(values: Sequence[bool]) -> list[str]:
    """As scripts read them."""
    return ["1" if value else "0" for value in values]
