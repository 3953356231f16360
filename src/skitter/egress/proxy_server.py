"""Small HTTP proxy with a password: tunnels (CONNECT) and plain requests, one per connection.

Names are resolved here, and the network guard checks the address that is connected to, as in a fetcher: a link on a
crawled page reaches the private network of this machine no more than that of a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from skitter.egress.request_head import (
    MAX_HEAD_BYTES,
    ProxyRequest,
    RefusedRequestError,
    basic,
    read_answer,
    read_request,
)
from skitter.fetch.network_guard import Guard

HEAD_SECONDS = 30.0
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 300.0
"""A connection ends when no byte was transferred in either direction for this long."""
MAX_CONNECTIONS = 1000
_PIECE_BYTES = 65_536


class ProxyServer:
    """Proxy that listens between ``open`` and ``close``; it can be opened again."""

    def __init__(self, *, allow_private: bool = False, trusted: Sequence[tuple[str, int]] = ()) -> None:
        """``trusted``: hosts and ports that may have private addresses, because the user of this machine named them."""
        self._guard = Guard(allow_private=allow_private)
        self._trusted = frozenset(trusted)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._authorization = b""
        self._source = ""
        self.requests = 0
        """Number of requests forwarded since the server was created."""

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._tasks)

    async def open(self, host: str, port: int, *, user: str, password: str, source: str = "") -> int:
        """Listen, and return the port. ``source``: local address of outgoing connections; if empty, routing decides."""
        self._authorization = basic(user, password)
        self._source = source
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD_BYTES)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop listening and abort open connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MAX_CONNECTIONS or self._server is None:
            writer.transport.abort()
            return
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except RefusedRequestError as refusal:
            writer.write(refusal.answer())
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # The peer has disconnected or does not speak HTTP, so there is nobody to send an error to.
            writer.transport.abort()
        except asyncio.CancelledError:
            # Only ``close`` cancels this task, and it waits for its end.
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise RefusedRequestError(431, "Request Header Fields Too Large") from None
        request = read_request(head, self._authorization)
        there, back = await self._connected(request)
        self.requests += 1
        try:
            async with asyncio.timeout(IDLE_SECONDS) as limit:
                moved = partial(_postpone, limit)
                if request.is_tunnel:
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    await _first_of(_copy(reader, back, moved), _copy(there, writer, moved))
                else:
                    back.write(request.head)
                    # A client that disconnects ends it too: its worker was killed or no longer wants the response.
                    await _first_of(_upload(reader, back, request.body_bytes, moved), _download(there, writer, moved))
        finally:
            back.transport.abort()

    async def _connected(self, request: ProxyRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first address that the guard allows and that accepts the connection."""
        loop = asyncio.get_running_loop()
        family = _family_of(self._source)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await loop.getaddrinfo(request.host, request.port, family=family, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
                if (request.host, request.port) not in self._trusted:
                    addresses = [one for one in addresses if self._guard.objection(one, request.port) is None]
                    if not addresses:
                        # Not 403, which would look like a ban by the host: treat it like a host without an address.
                        raise RefusedRequestError(502, "Inside")
                local = (self._source, 0) if self._source else None
                for number, address in enumerate(addresses, 1):
                    try:
                        return await asyncio.open_connection(
                            address, request.port, local_addr=local, limit=MAX_HEAD_BYTES
                        )
                    except OSError:
                        if number == len(addresses):
                            raise
        except TimeoutError:
            raise RefusedRequestError(504, "Gateway Timeout") from None
        except (OSError, UnicodeError):
            pass
        raise RefusedRequestError(502, "Bad Gateway")


def _family_of(address: str) -> int:
    if not address:
        return socket.AF_UNSPEC
    return socket.AF_INET6 if ":" in address else socket.AF_INET


async def _first_of(*directions: Coroutine[Any, Any, None]) -> None:
    """Run both directions until one of them ends."""
    tasks = [asyncio.create_task(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def _postpone(limit: asyncio.Timeout) -> None:
    """Start the idle time anew: a byte was transferred."""
    if not limit.expired():
        limit.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, moved: Callable[[], None]) -> None:
    while data := await source.read(_PIECE_BYTES):
        moved()
        target.write(data)
        await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()


async def _upload(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, size: int, moved: Callable[[], None]
) -> None:
    """Forward a request body, and return when the client disconnects."""
    left = size
    while left:
        data = await source.read(min(left, _PIECE_BYTES))
        if not data:
            return
        moved()
        left -= len(data)
        target.write(data)
        await target.drain()
    # One request per connection: further data from the client also ends it.
    await source.read(1)


async def _download(source: asyncio.StreamReader, target: asyncio.StreamWriter, moved: Callable[[], None]) -> None:
    """Forward a response until the server closes the connection."""
    status = 100
    while status < 200:
        try:
            status, head = read_answer(await source.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError as error:
            # Truncated or not HTTP: forward what the client would have received without the proxy.
            target.write(error.partial)
            return
        if status == 101:
            raise ValueError("an unrequested protocol upgrade")
        target.write(head)
        moved()
    await _copy(source, target, moved)
