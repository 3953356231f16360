"""The server to connect to: the one named, the master that sentinels name, or the cluster node that has the keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress

from redis import exceptions

from skitter.redis_driver import server_checks
from skitter.redis_driver.address import Address, HostPort
from skitter.redis_driver.connections import HANDSHAKE_SECONDS, SENTINEL_SECONDS, connection_to, connection_to_sentinel
from skitter.redis_driver.errors import CheckFailedError, NodesFailedError
from skitter.redis_driver.server_checks import ServerIdentity

FAILED_SECONDS = 10.0
"""A host that failed is tried last for so long."""
UNREACHABLE = (exceptions.RedisError, OSError)
"""Errors of asking a host. TimeoutError is an OSError."""


class Route:
    """The present host of the keys, among hosts that were named or learnt of. In a cluster each of them knows it."""

    def __init__(self, address: Address, failed_at: dict[HostPort, float]) -> None:
        """``failed_at`` says when hosts failed."""
        self._address = address
        self._hosts = address.hosts or (("", 0),)
        self._failed_at = failed_at
        self._present: HostPort | None = None
        self._node_ids: dict[HostPort, str] = {}

    async def host(self, tried: Collection[HostPort] = ()) -> HostPort:
        """The host to ask next: where there is a choice, one that was not tried."""
        if self._present is None:
            since = time.monotonic() - FAILED_SECONDS
            order = sorted(self._hosts, key=lambda host: self._failed_at.get(host, since) > since)
            self._present = next((host for host in order if host not in tried), order[0])
        return self._present

    def others(self, tried: Collection[HostPort]) -> bool:
        """Whether there is a host that was not tried. Sentinels may name another master at any time."""
        return bool(self._address.master) or any(host not in tried for host in self._hosts)

    def failed(self, host: HostPort) -> None:
        """Report that a host did not answer, or is no longer a master."""
        if self._present == host:
            self._present = None

    def moved(self, host: HostPort) -> None:
        """Report that the keys are at another host."""
        self._present = host

    def learn(self, host: HostPort, server: ServerIdentity) -> None:
        """Report what a host said when it was connected to."""
        if server.nodes:
            # Named hosts stay in the list: only they lead to a cluster whose nodes have all been replaced.
            self._hosts = tuple(dict.fromkeys((*self._address.hosts, *server.nodes)))
            self._node_ids[host] = server.node_id

    async def is_replaced(self, host: HostPort) -> bool:
        """Ask others whether a master that is silent or stale has a successor. False: it has none, or nobody knows."""
        node_id = self._node_ids.get(host)
        for other in self._hosts:
            if node_id and other != host:
                connection = connection_to(self._address, other)
                try:
                    async with asyncio.timeout(HANDSHAKE_SECONDS):
                        server = await server_checks.handshake(connection, cluster=True)
                    if node_id in server.has_slots:
                        return not server.has_slots[node_id]
                except UNREACHABLE:
                    continue
                finally:
                    await connection.disconnect(nowait=True)
        return False


class _SentinelRoute(Route):
    """The master, as the first sentinel that answers names it. The sentinels are asked again after every failure."""

    async def host(self, tried: Collection[HostPort] = ()) -> HostPort:  # noqa: ARG002  the sentinels choose
        if self._present is None:
            self._present = await self._ask_all()
        return self._present

    async def is_replaced(self, host: HostPort) -> bool:
        with suppress(*UNREACHABLE):
            return await self._ask_all() != host
        return False

    async def _ask_all(self) -> HostPort:
        unknown = 0
        failures: dict[HostPort, Exception] = {}
        for sentinel in self._address.hosts:
            try:
                found = await self._ask(sentinel)
            except exceptions.AuthenticationError as error:
                raise CheckFailedError("SENTINELAUTH") from error
            except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
                failures[sentinel] = error
                continue
            if found is not None:
                return found
            unknown += 1
        if unknown:
            raise CheckFailedError("NOMASTER", f"the sentinels know no master called {self._address.master}")
        raise NodesFailedError(failures, "no sentinel answers: ", any_answered=False)

    async def _ask(self, sentinel: HostPort) -> HostPort | None:
        connection = connection_to_sentinel(self._address, sentinel)
        try:
            async with asyncio.timeout(SENTINEL_SECONDS):
                await connection.send_command("SENTINEL", "get-master-addr-by-name", self._address.master)
                answer = await connection.read_response()
        finally:
            with suppress(OSError):
                await connection.disconnect(nowait=True)
        return (answer[0].decode(), int(answer[1])) if answer else None


def route_to(address: Address, failed_at: dict[HostPort, float]) -> Route:
    return (_SentinelRoute if address.master else Route)(address, failed_at)
