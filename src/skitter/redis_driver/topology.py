"""The server to connect to: the one named, the master that sentinels name, or the cluster node that has the keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from redis import exceptions

from skitter.redis_driver import server_checks
from skitter.redis_driver.address import Address, HostPort
from skitter.redis_driver.connections import HANDSHAKE_SECONDS, SENTINEL_SECONDS, connection_to, connection_to_sentinel
from skitter.redis_driver.errors import CheckFailedError, NodesFailedError
from skitter.redis_driver.server_checks import ServerIdentity

FAILED_SECONDS = 10.0
"""A host that failed is tried last for so long."""
UNREACHABLE = (exceptions.RedisError, OSError)
"""What asking a host may raise: TimeoutError is an OSError."""


class Route(Protocol):
    """The present host of the keys."""

    async def host(self, tried: Collection[HostPort] = ()) -> HostPort:
        """The host to ask next: where there is a choice, one that was not tried."""
        ...

    def untried(self, tried: Collection[HostPort]) -> int:
        """How many hosts were not tried."""
        ...

    def failed(self, host: HostPort) -> None:
        """Report that a host did not answer, or is no longer a master."""
        ...

    def moved(self, host: HostPort) -> None:
        """Report that the keys are at another host."""
        ...

    def learn(self, host: HostPort, server: ServerIdentity) -> None:
        """Report what a host said when it was connected to."""
        ...

    async def is_replaced(self, host: HostPort) -> bool:
        """Ask others whether a master that is silent or stale has a successor. False: it has none, or nobody knows."""
        ...


def route_to(address: Address, failed_at: dict[HostPort, float]) -> Route:
    """``failed_at`` says when hosts failed."""
    if address.master:
        return _SentinelRoute(address)
    return _KnownHosts(address, failed_at)


class _KnownHosts:
    """Hosts that were named or learnt of. In a cluster each of them knows who has which keys."""

    def __init__(self, address: Address, failed_at: dict[HostPort, float]) -> None:
        self._address = address
        self._hosts = address.hosts or (("", 0),)
        self._failed_at = failed_at
        self._present: HostPort | None = None
        self._node_ids: dict[HostPort, str] = {}

    async def host(self, tried: Collection[HostPort] = ()) -> HostPort:
        if self._present is None:
            since = time.monotonic() - FAILED_SECONDS
            healthy = [host for host in self._hosts if self._failed_at.get(host, since) <= since]
            order = [*healthy, *self._hosts]
            self._present = next((host for host in order if host not in tried), order[0])
        return self._present

    def untried(self, tried: Collection[HostPort]) -> int:
        return sum(host not in tried for host in self._hosts)

    def failed(self, host: HostPort) -> None:
        if self._present == host:
            self._present = None

    def moved(self, host: HostPort) -> None:
        # A node that does not know its own name redirects with an empty one: it is the host that was asked.
        self._present = (host[0] or (self._present or self._hosts[0])[0], host[1])

    def learn(self, host: HostPort, server: ServerIdentity) -> None:
        if server.nodes:
            # Those that were named stay: a cluster whose nodes have all been replaced is found again by them only.
            self._hosts = tuple(dict.fromkeys((*self._address.hosts, *server.nodes)))
            self._node_ids[host] = server.node_id

    async def is_replaced(self, host: HostPort) -> bool:
        node_id = self._node_ids.get(host)
        for other in self._hosts:
            if node_id and other != host:
                connection = connection_to(self._address, other)
                try:
                    async with asyncio.timeout(HANDSHAKE_SECONDS):
                        server = await server_checks.handshake(connection, cluster=True)
                    return node_id not in server.masters
                except UNREACHABLE:
                    continue
                finally:
                    await connection.disconnect(nowait=True)
        return False


class _SentinelRoute:
    """The master, as the first sentinel that answers names it. The sentinels are asked again after every failure."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._present: HostPort | None = None

    async def host(self, tried: Collection[HostPort] = ()) -> HostPort:  # noqa: ARG002  the sentinels choose
        if self._present is None:
            self._present = await self._ask_all()
        return self._present

    def untried(self, tried: Collection[HostPort]) -> int:  # noqa: ARG002
        # The sentinels may name another master at any time.
        return 2

    def failed(self, host: HostPort) -> None:
        if self._present == host:
            self._present = None

    def moved(self, host: HostPort) -> None:
        self._present = host

    def learn(self, host: HostPort, server: ServerIdentity) -> None:
        pass

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
