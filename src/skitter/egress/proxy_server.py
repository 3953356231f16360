"""Small HTTP proxy: tunnels (CONNECT) and plain requests, one for each connection, for whoever has its password.

Names are resolved here, and the network guard is asked about the address that is connected to, as in a fetcher: a link
that a stranger wrote leads no more into this machine's network than into a worker's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Coroutine, Sequence
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
"""Without a byte in either direction, after which a connection is closed."""
MAX_CONNECTIONS = 1000
_PIECE_BYTES = 65_536


class ProxyServer:
    """A proxy that listens between ``open`` and ``close``, and may be opened again."""

    def __init__(self, *, allow_private: bool = False, trusted: Sequence[tuple[str, int]] = ()) -> None:
        """``trusted``: hosts and ports that may be inside, because the user of this machine has named them."""
        self._guard = Guard(allow_private=allow_private)
        self._trusted = frozenset(trusted)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._authorization = b""
        self._source = ""
        self.requests = 0
        """That were passed on, since it was made."""

    async def open(self, host: str, port: int, *, user: str, password: str, source: str = "") -> int:
        """Listen, and return the port. ``source``: the address that connections go out from; empty: as routes say."""
        self._authorization = basic(user, password)
        self._source = source
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD_BYTES)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop listening, and cut what is open."""
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
            # Somebody has hung up, or does not speak HTTP: there is nobody to say it to.
            writer.transport.abort()
        except asyncio.CancelledError:
            # Only ``close`` cancels, and waits for this.
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
            if request.is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _first_of(_copy(reader, back), _copy(there, writer))
            else:
                back.write(request.head)
                # The client hanging up ends it as well: its worker was killed, or nobody wants the answer any more.
                await _first_of(_upload(reader, back, request.body_bytes), _download(there, writer))
        finally:
            back.transport.abort()

    async def _connected(self, request: ProxyRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first address that may be connected to and answers."""
        loop = asyncio.get_running_loop()
        family = _family_of(self._source)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await loop.getaddrinfo(request.host, request.port, family=family, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
                if (request.host, request.port) not in self._trusted:
                    addresses = [one for one in addresses if self._guard.objection(one, request.port) is None]
                    if not addresses:
                        # Not 403, which is how hosts ban: this one is no more there than one without an address.
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
    """Run both directions until one is over."""
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


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await _read(source):
        target.write(data)
        await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()


async def _upload(source: asyncio.StreamReader, target: asyncio.StreamWriter, size: int) -> None:
    """Pass a body on, and return when the client hangs up."""
    left = size
    while left:
        data = await source.read(min(left, _PIECE_BYTES))
        if not data:
            return
        left -= len(data)
        target.write(data)
        await target.drain()
    # One request for each connection: what comes after it ends it too.
    await source.read(1)


async def _download(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass an answer on, to the end of its connection."""
    status = 100
    while status < 200:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                status, head = read_answer(await source.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError as error:
            # Cut off, or no HTTP at all: as the client would have seen it.
            target.write(error.partial)
            return
        if status == 101:
            raise ValueError("an upgrade that nobody has asked for")
        target.write(head)
    await _copy(source, target)


async def _read(source: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(IDLE_SECONDS):
        return await source.read(_PIECE_BYTES)
