"""Which server to speak to: the one named, the one that sentinels name, or the node of a cluster that has the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from redis import exceptions

from skitter.frontier.redis.address import Address, HostPort, shown
from skitter.frontier.redis.connections import ASK_SECONDS, connection_to_sentinel


class Route(Protocol):
    """Where the keys are now."""

    async def place(self) -> HostPort: ...

    def failed(self) -> None:
        """The place did not answer, or is no longer what it was."""
        ...

    def moved(self, place: HostPort) -> None:
        """The keys are elsewhere."""
        ...

    def learn(self, places: Iterable[HostPort]) -> None:
        """These belong to it too, and know where the keys are."""
        ...


def route_to(address: Address) -> Route:
    if address.master:
        return _BySentinels(address)
    return _Known(address.places)


class _Known:
    """Nodes that were named or learnt of. In a cluster each of them knows who has which keys."""

    def __init__(self, places: tuple[HostPort, ...]) -> None:
        self._named = places
        self._places = list(places)
        self._next = 0
        self._present = places[0] if places else ("", 0)

    async def place(self) -> HostPort:
        return self._present

    def failed(self) -> None:
        self._next += 1
        if self._places:
            self._present = self._places[self._next % len(self._places)]

    def moved(self, place: HostPort) -> None:
        # A node that knows itself by no name answers for the one that was asked.
        self._present = (place[0] or self._present[0], place[1])

    def learn(self, places: Iterable[HostPort]) -> None:
        # Those that were named stay: a cluster that has moved house as a whole is found again by them only.
        self._places = list(dict.fromkeys((*self._named, *places)))


class _BySentinels:
    """The master, as the first sentinel that answers calls it. Asked again after every failure."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._present: HostPort | None = None

    async def place(self) -> HostPort:
        if self._present is None:
            self._present = await self._ask_all()
        return self._present

    def failed(self) -> None:
        self._present = None

    def moved(self, place: HostPort) -> None:
        self._present = place

    def learn(self, places: Iterable[HostPort]) -> None:
        pass

    async def _ask_all(self) -> HostPort:
        unknown = 0
        trouble: Exception | None = None
        for place in self._address.places:
            try:
                found = await self._ask(place)
            except exceptions.AuthenticationError as error:
                raise exceptions.ResponseError("SENTINELAUTH") from error
            except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
                trouble = error
                continue
            if found is not None:
                return found
            unknown += 1
        if unknown:
            raise exceptions.ResponseError(f"NOMASTER the sentinels know no master called {self._address.master}")
        names = ", ".join(shown(place) for place in self._address.places)
        raise exceptions.ConnectionError(f"no sentinel answers: {names}") from trouble

    async def _ask(self, place: HostPort) -> HostPort | None:
        connection = connection_to_sentinel(self._address, place)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await connection.send_command("SENTINEL", "get-master-addr-by-name", self._address.master)
                answer = await connection.read_response()
        finally:
            with suppress(OSError):
                await connection.disconnect(nowait=True)
        return (answer[0].decode(), int(answer[1])) if answer else None
