"""Which server to speak to: the one named, the one that sentinels name, or the node of a cluster that has the keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from redis import exceptions
from redis.asyncio.connection import Connection

from skitter.frontier.redis.address import Address, Place, shown

ASK_SECONDS = 2.0


@asynccontextmanager
async def answer_within(seconds: float) -> AsyncIterator[None]:
    """Raises the driver's TimeoutError after so long.

    The driver's own ``socket_timeout`` is not used: it sends within ``asyncio.wait_for``, which in Python 3.11 drops a
    cancellation that comes when the sending has just ended. Whoever cancels a call and waits for its end, as
    everything does that stops, would wait for ever.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise exceptions.TimeoutError("no answer in time") from error


class Route(Protocol):
    """Where the keys are now."""

    async def place(self) -> Place: ...

    def failed(self) -> None:
        """The place did not answer, or is no longer what it was."""
        ...

    def moved(self, place: Place) -> None:
        """The keys are elsewhere."""
        ...


def route_to(address: Address) -> Route:
    if address.master:
        return _BySentinels(address.places, address.master)
    return _Known(address.places)


class _Known:
    """Nodes that were named or learnt of. In a cluster each of them knows who has which keys."""

    def __init__(self, places: tuple[Place, ...]) -> None:
        self._places = places
        self._next = 0
        self._present = places[0] if places else ("", 0)

    async def place(self) -> Place:
        return self._present

    def failed(self) -> None:
        self._next += 1
        if self._places:
            self._present = self._places[self._next % len(self._places)]

    def moved(self, place: Place) -> None:
        # A node that knows itself by no name answers for the one that was asked.
        self._present = (place[0] or self._present[0], place[1])


class _BySentinels:
    """The master, as the first sentinel that answers calls it. Asked again after every failure."""

    def __init__(self, places: tuple[Place, ...], master: str) -> None:
        self._places = places
        self._master = master
        self._present: Place | None = None

    async def place(self) -> Place:
        if self._present is None:
            self._present = await self._ask_all()
        return self._present

    def failed(self) -> None:
        self._present = None

    def moved(self, place: Place) -> None:
        self._present = place

    async def _ask_all(self) -> Place:
        unknown = 0
        for place in self._places:
            with suppress(exceptions.ConnectionError, exceptions.TimeoutError, OSError, asyncio.TimeoutError):
                found = await self._ask(place)
                if found is not None:
                    return found
                unknown += 1
        if unknown:
            raise exceptions.ResponseError(f"NOMASTER the sentinels know no master called {self._master}")
        raise exceptions.ConnectionError("no sentinel answers: " + ", ".join(shown(place) for place in self._places))

    async def _ask(self, place: Place) -> Place | None:
        connection = Connection(
            host=place[0],
            port=place[1],
            socket_timeout=None,  # see answer_within
            socket_connect_timeout=ASK_SECONDS,
            driver_info=None,
            protocol=2,
        )
        try:
            async with answer_within(ASK_SECONDS):
                await connection.send_command("SENTINEL", "get-master-addr-by-name", self._master)
                answer = await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)
        return (answer[0].decode(), int(answer[1])) if answer else None
