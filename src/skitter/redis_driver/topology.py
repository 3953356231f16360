"""The server to connect to: the one named, the master that sentinels name, or the cluster node that has the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from redis import exceptions

from skitter.redis_driver.address import Address, HostPort, format_host
from skitter.redis_driver.connections import SENTINEL_SECONDS, connection_to_sentinel
from skitter.redis_driver.errors import CheckFailedError


class Route(Protocol):
    """The present host of the keys."""

    async def host(self) -> HostPort: ...

    def failed(self) -> None:
        """Report that the host did not answer, or is no longer a master."""
        ...

    def moved(self, host: HostPort) -> None:
        """Report that the keys are at another host."""
        ...

    def learn(self, hosts: Iterable[HostPort]) -> None:
        """Report further nodes of the cluster, which know where the keys are."""
        ...


def route_to(address: Address) -> Route:
    if address.master:
        return _SentinelRoute(address)
    return _KnownHosts(address.hosts)


class _KnownHosts:
    """Hosts that were named or learnt of. In a cluster each of them knows who has which keys."""

    def __init__(self, hosts: tuple[HostPort, ...]) -> None:
        self._named = hosts
        self._hosts = list(hosts)
        self._next = 0
        self._present = hosts[0] if hosts else ("", 0)

    async def host(self) -> HostPort:
        return self._present

    def failed(self) -> None:
        self._next += 1
        if self._hosts:
            self._present = self._hosts[self._next % len(self._hosts)]

    def moved(self, host: HostPort) -> None:
        # A node that does not know its own name redirects with an empty one: it is the host that was asked.
        self._present = (host[0] or self._present[0], host[1])

    def learn(self, hosts: Iterable[HostPort]) -> None:
        # Those that were named stay: a cluster whose nodes have all been replaced is found again by them only.
        self._hosts = list(dict.fromkeys((*self._named, *hosts)))


class _SentinelRoute:
    """The master, as the first sentinel that answers names it. The sentinels are asked again after every failure."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._present: HostPort | None = None

    async def host(self) -> HostPort:
        if self._present is None:
            self._present = await self._ask_all()
        return self._present

    def failed(self) -> None:
        self._present = None

    def moved(self, host: HostPort) -> None:
        self._present = host

    def learn(self, hosts: Iterable[HostPort]) -> None:
        pass

    async def _ask_all(self) -> HostPort:
        unknown = 0
        trouble: Exception | None = None
        for sentinel in self._address.hosts:
            try:
                found = await self._ask(sentinel)
            except exceptions.AuthenticationError as error:
                raise CheckFailedError("SENTINELAUTH") from error
            except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
                trouble = error
                continue
            if found is not None:
                return found
            unknown += 1
        if unknown:
            raise CheckFailedError("NOMASTER", f"the sentinels know no master called {self._address.master}")
        names = ", ".join(map(format_host, self._address.hosts))
        raise exceptions.ConnectionError(f"no sentinel answers: {names}") from trouble

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
