"""The proxy of one rendered page: everything that its browser sends passes here, and the network guard with it.

Names are resolved here, and the address that is connected to is the one that was checked. It takes ``CONNECT`` (https,
WebSockets) and requests for http URLs, each on a connection of its own: what a browser sends for one host can never
reach another. It counts bytes, and ends all connections of the page beyond its limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from skitter.errors import FetchError
from skitter.fetch.browser.host_connections import HostConnection, HostConnections
from skitter.fetch.browser.upstream import MAX_HEAD, Streams, Upstream, connect_direct
from skitter.fetch.network_guard import Guard
from skitter.fetch.proxy import objection

HEAD_SECONDS = 30.0
PIECE = 65_536
_HOP_BY_HOP = re.compile(
    rb"(?im)^(?:proxy-[a-z-]+|connection|keep-alive|te|trailer|upgrade)[ \t]*:[^\r\n]*\r\n(?:[ \t][^\r\n]*\r\n)*"
)
_LENGTH = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*([0-9]{1,15})[ \t]*\r$")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding[ \t]*:")
_BAD = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
log = logging.getLogger("skitter.fetch")


class Lookups(Protocol):
    """Resolves names (``dns_lookups.DnsLookups``)."""

    async def addresses(self, url: str, seconds: float) -> list[str]:
        """Return the addresses of a URL's host; none if it is an address. Raises FetchError."""
        ...


class Network:
    """What the proxies of all pages of a worker share."""

    def __init__(
        self, *, guard: Guard, lookups: Lookups, connections: HostConnections, connect_timeout_seconds: float
    ) -> None:
        self.guard = guard
        self.lookups = lookups
        self.connections = connections
        self.connect_timeout_seconds = connect_timeout_seconds


class PageProxy:
    """Listens for the browser context of one page. It refuses everything before ``open`` and after ``close``."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._trusted: tuple[str, int] | None = None
        self._upstream: Upstream | None = None
        self._max_bytes = 0
        self._on_full: Callable[[], None] = lambda: None
        self.port = 0
        self.bytes = 0
        """Passed on so far, in both directions."""
        self.failures: dict[tuple[str, int], FetchError] = {}
        """Why a host could not be reached, by host and port."""
        self.addresses: dict[tuple[str, int], str] = {}
        """The address of each host that was connected to directly."""

    async def listen(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    def open(
        self,
        *,
        trusted: tuple[str, int] | None,
        upstream: Upstream | None,
        max_bytes: int,
        on_full: Callable[[], None],
    ) -> None:
        """Begin to pass requests on. ``trusted``: a host and port that the guard lets through."""
        self._trusted, self._upstream, self._max_bytes, self._on_full = trusted, upstream, max_bytes, on_full
        self._is_open = True

    async def close(self) -> None:
        """End all connections, and listen no more."""
        self._is_open = False
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=1)

    # ---- one connection of the browser

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            if self._is_open:
                await self._answer(head, (reader, writer))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # The browser has gone, or never said what it wants.
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, browser: Streams) -> None:
        line, _, rest = head.partition(b"\r\n")
        try:
            method, target, _ = line.decode("ascii").split(" ")
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            place = (parts.hostname or "", parts.port or 80)
        except ValueError:
            browser[1].write(_BAD)
            return
        if not place[0] or (method != "CONNECT" and parts.scheme != "http"):
            browser[1].write(_BAD)
            return
        task = asyncio.current_task()
        assert task is not None
        connection = await self._network.connections.enter(place, task.cancel)
        try:
            if method == "CONNECT":
                await self._tunnel(place, browser, connection)
            else:
                path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
                await self._forward(f"{method} ", path, target, rest, place, browser, connection)
        except FetchError as error:
            self.failures[place] = error
            if method == "CONNECT":
                browser[1].write(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            # To an http request nothing is said: a browser would take it for the server's answer.
        finally:
            self._network.connections.leave(place, connection)

    async def _tunnel(self, place: tuple[str, int], browser: Streams, connection: HostConnection) -> None:
        server = await self._reach(place)
        try:
            browser[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._relay_both(browser, server, connection)
        finally:
            server[1].close()

    async def _forward(
        self,
        verb: str,
        path: str,
        url: str,
        headers: bytes,
        place: tuple[str, int],
        browser: Streams,
        connection: HostConnection,
    ) -> None:
        """One request for an http URL, and its answer; the connection is not used again."""
        found = _LENGTH.search(headers)
        length = int(found[1]) if found else 0
        if _CHUNKED.search(headers):
            browser[1].write(_BAD)
            return
        upstream = self._upstream
        forwards = upstream is not None and upstream.forwards_http
        if forwards:
            assert upstream is not None
            await self._objections(place)
            server = await upstream.connect()
        else:
            server = await self._reach(place)
        try:
            headers = b"Connection: close\r\n" + _HOP_BY_HOP.sub(b"", headers)
            if forwards and upstream is not None:
                headers = upstream.authorization + headers
            self._send(server[1], f"{verb}{url if forwards else path} HTTP/1.1\r\n".encode() + headers, connection)
            await self._send_body(browser[0], server[1], length, connection)
            await self._pass_answer(server[0], browser, connection)
        finally:
            server[1].close()

    async def _send_body(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, length: int, connection: HostConnection
    ) -> None:
        while length and (piece := await source.read(min(length, PIECE))):
            length -= len(piece)
            self._send(target, piece, connection)
            await target.drain()

    async def _pass_answer(self, source: asyncio.StreamReader, browser: Streams, connection: HostConnection) -> None:
        """Pass the answer on, told to be the last one of its connection, until the server or the browser ends it."""
        gone = asyncio.create_task(_gone(browser[0]))
        passing = asyncio.create_task(self._pass_last(source, browser[1], connection))
        try:
            await asyncio.wait([gone, passing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if passing.done():
                passing.exception()
            passing.cancel()

    async def _pass_last(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, connection: HostConnection
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                head = await source.readuntil(b"\r\n\r\n")
                line, _, headers = head.partition(b"\r\n")
                is_last = not line.split(b" ", 2)[1:2] or not line.split(b" ", 2)[1].startswith(b"1")
                if is_last:
                    # 101 is no answer to a request without an upgrade, and stands for nothing here.
                    headers = b"Connection: close\r\n" + _HOP_BY_HOP.sub(b"", headers)
                    self._send(target, line + b"\r\n" + headers, connection)
                    break
        await self._relay(source, target, connection)

    # ---- where a connection leads

    async def _reach(self, place: tuple[str, int]) -> Streams:
        """A connection to a host, directly or through the proxy of the crawl. Raises FetchError."""
        network, upstream = self._network, self._upstream
        if upstream is None:
            streams, address = await connect_direct(
                await self._checked_addresses(place), place[1], network.connect_timeout_seconds
            )
            self.addresses[place] = address
            return streams
        await self._objections(place)
        if upstream.proxy.resolves_here:
            return await upstream.open_tunnel((await self._checked_addresses(place))[0], place[1])
        return await upstream.open_tunnel(*place)

    async def _objections(self, place: tuple[str, int]) -> None:
        """What can be checked before a proxy is asked that resolves names itself."""
        if place != self._trusted and (found := objection(self._network.guard, _url(place))) is not None:
            raise FetchError("guard", f"refused to connect to {found}: {place[0]}:{place[1]}")

    async def _checked_addresses(self, place: tuple[str, int]) -> list[str]:
        host, port = place
        network = self._network
        addresses = await network.lookups.addresses(_url(place), network.connect_timeout_seconds) or [host]
        permitted, found = [], None
        for address in addresses:
            if place == self._trusted:
                refusal = network.guard.objection_to_trusted(host, address)
            else:
                refusal = network.guard.objection(address, port)
            if refusal is None:
                permitted.append(address)
            found = found or refusal
        if not permitted:
            raise FetchError("guard", f"refused to connect to {found}: {host}:{port}")
        return permitted

    # ---- bytes

    async def _relay_both(self, browser: Streams, server: Streams, connection: HostConnection) -> None:
        directions = [
            asyncio.create_task(self._relay(browser[0], server[1], connection)),
            asyncio.create_task(self._relay(server[0], browser[1], connection)),
        ]
        try:
            # Either side that ends, ends both: nothing in a browser uses a half-closed connection.
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()

    async def _relay(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, connection: HostConnection
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(PIECE):
                self._send(target, piece, connection)
                await target.drain()

    def _send(self, target: asyncio.StreamWriter, piece: bytes, connection: HostConnection) -> None:
        connection.used_at = time.monotonic()
        self.bytes += len(piece)
        if self.bytes > self._max_bytes:
            if self._is_open:
                self._is_open = False
                self._on_full()
                for task in self._tasks:
                    task.cancel()
            return
        target.write(piece)


async def _gone(browser: asyncio.StreamReader) -> None:
    """Return when the browser has closed the connection; what it sends before that goes nowhere."""
    with contextlib.suppress(OSError):
        while await browser.read(PIECE):
            pass


def _url(place: tuple[str, int]) -> str:
    host, port = place
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
