"""Server of a synthetic web: runs in the current event loop on loopback, one port per host, and logs every request.

It is a small HTTP/1.1 server with GET, HEAD and keep-alive, without TLS. Anything heavier would use
the cores that the crawler under test needs.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import time
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

from skitter.testing.web_expected import Expected, expected
from skitter.testing.web_log import Hit, RequestLog
from skitter.testing.web_pages import PageSpec, answer, robots
from skitter.testing.web_render import Body, render
from skitter.testing.web_spec import CANARY, WebSpec, bases_of
from skitter.testing.web_traps import trap_page

_CACHE_BYTES = 64 * 1024 * 1024
_MAX_HEAD_BYTES = 65_536
_HTML = [("Content-Type", "text/html; charset=utf-8")]


class _Prepared(NamedTuple):
    """Answer that is ready to be written."""

    status: int
    head_bytes: int
    wire: bytes
    page: PageSpec | None


class SyntheticWeb:
    """Server of a synthetic web, used as ``async with SyntheticWeb(spec) as web: web.urls[0]``.

    Requests are logged to ``log_path`` if it is given, or else in memory unless ``keep_log`` is False.
    """

    def __init__(self, spec: WebSpec, *, log_path: str | Path | None = None, keep_log: bool = True) -> None:
        self.spec = spec
        self.urls: tuple[str, ...] = ()
        """Root URL of each host, in order."""
        self.canary_url = ""
        self.dead_url = ""
        self.trap_urls: tuple[str, ...] = ()
        """Root URLs of the endless hosts, in the order of ``WebSpec.traps``. Their indexes follow the other hosts."""
        self._log = RequestLog(None if log_path is None else Path(log_path), keep=keep_log)
        self._in_flight: dict[int, int] = {}
        self._everywhere = 0
        self._failed: dict[tuple[int, int], int] = {}
        self._servers: list[asyncio.Server] = []
        self._dead_socket: socket.socket | None = None
        self._bases: dict[int, str] = {}
        self.connections: set[_Connection] = set()
        entries = max(64, _CACHE_BYTES // max(4096, spec.page_bytes))
        self._prepared = functools.lru_cache(maxsize=entries)(self._prepare)

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        spec = self.spec
        self._log.open()
        self.urls = tuple([await self._listen(host, host) for host in range(spec.hosts)])
        if spec.canary:
            self.canary_url = await self._listen(CANARY, spec.hosts)
        if spec.dead_host:
            # Bound but not listening: connections are refused, and no other process can take the port meanwhile.
            self._dead_socket = self._bound(spec.hosts + 1)
            self.dead_url = _url(self._dead_socket)
        first = spec.hosts + 2
        self.trap_urls = tuple([await self._listen(first + n, first + n) for n in range(len(spec.traps))])
        self._bases = bases_of(self.urls, self.canary_url, self.dead_url)

    async def _listen(self, host: int, place: int) -> str:
        bound = self._bound(place)
        self._in_flight[host] = 0
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self, host), sock=bound, backlog=1024)
        self._servers.append(server)
        return _url(bound)

    def _bound(self, place: int) -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(("127.0.0.1", self.spec.base_port + place if self.spec.base_port else 0))
        except BaseException:
            bound.close()
            raise
        return bound

    async def stop(self) -> None:
        """Close all ports and connections, and the log."""
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        if self._dead_socket is not None:
            self._dead_socket.close()
            self._dead_socket = None
        self._log.close()

    def log(self) -> list[Hit]:
        """Return all requests so far, in order of arrival."""
        return self._log.read()

    def write_log(self) -> None:
        """Write all requests so far to the log file."""
        self._log.flush()

    def expected(self, seeds: Iterable[str] | None = None, **options: Any) -> Expected:
        """Return the expected result of a crawl of this web; see ``skitter.testing.web.expected``."""
        return expected(self.spec, self.urls, seeds, canary_url=self.canary_url, dead_url=self.dead_url, **options)

    def arrived(self, host: int, target: bytes, encodings: bytes) -> tuple[_Prepared, float]:
        """Count and log a request. Return its answer and the delay before it is sent, in seconds."""
        in_flight = self._in_flight[host] = self._in_flight[host] + 1
        self._everywhere += 1
        compressed = b"gzip" in encodings or b"deflate" in encodings
        prepared = self._prepared(host, target, compressed)
        page = prepared.page
        if page is not None and page.failures:
            key = (page.host, page.index)
            failed = self._failed.get(key, 0)
            if failed < page.failures:
                self._failed[key] = failed + 1
                prepared = _failure(page)
        path = target.decode("latin-1")
        self._log.add(Hit(time.monotonic(), host, path, prepared.status, in_flight, self._everywhere))
        return prepared, page.delay_seconds if page is not None else 0.0

    def left(self, host: int) -> None:
        """Count a request that has been answered, or whose client has disconnected."""
        self._in_flight[host] -= 1
        self._everywhere -= 1

    def _prepare(self, host: int, target: bytes, compressed: bool) -> _Prepared:
        path = target.decode("latin-1")
        if host == CANARY:
            return _wire(404 if path == "/robots.txt" else 200, Body(b"<title>canary</title>\n", _HTML), None)
        if host >= self.spec.hosts:
            made = trap_page(self.spec.traps[host - self.spec.hosts - 2], path)
            return _wire(200 if made else 404, Body((made or "").encode(), _HTML), None)
        if path == "/robots.txt":
            text = robots(self.spec, host)
            if text is None:
                return _wire(404, Body(b"", _HTML), None)
            return _wire(200, Body(text.encode(), [("Content-Type", "text/plain")]), None)
        page = answer(self.spec, host, path)
        if page is None:
            return _wire(404, Body(b"<title>404</title>\n", _HTML), None)
        return _wire(page.status, render(self.spec, page, self._bases, compressed=compressed), page)


class _Connection(asyncio.Protocol):
    """Client connection, which answers requests one after the other."""

    def __init__(self, web: SyntheticWeb, host: int) -> None:
        self._web = web
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport does not inherit from it
        self._web.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._web.connections.discard(self)
        self._transport = None
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
            self._web.left(self._host)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        self._go_on()

    def _go_on(self) -> None:
        while self._buffer and self._waiting is None and self._transport is not None:
            end = self._buffer.find(b"\r\n\r\n")
            if end == -1:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    self._refuse(431)
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._serve(head)

    def _serve(self, head: bytes) -> None:
        line, _, rest = head.partition(b"\r\n")
        words = line.split(b" ")
        if len(words) != 3 or not words[1].startswith(b"/"):
            self._refuse(400)
            return
        method, target, version = words
        if method not in (b"GET", b"HEAD"):
            # This also closes the connection, so that a body that follows is not read as a request.
            self._refuse(405)
            return
        headers = rest.lower()
        keep = b"connection: close" not in headers if version == b"HTTP/1.1" else b"connection: keep-alive" in headers
        encodings = headers.partition(b"accept-encoding:")[2].partition(b"\r\n")[0]
        prepared, delay = self._web.arrived(self._host, target, encodings)
        wire = prepared.wire if method == b"GET" else prepared.wire[: prepared.head_bytes]
        if delay:
            self._waiting = asyncio.get_running_loop().call_later(delay, self._send_late, wire, keep)
        else:
            self._send(wire, keep)

    def _send_late(self, wire: bytes, keep: bool) -> None:
        self._waiting = None
        self._send(wire, keep)
        self._go_on()

    def _send(self, wire: bytes, keep: bool) -> None:
        assert self._transport is not None
        self._web.left(self._host)
        self._transport.write(wire)
        if not keep:
            self._buffer = b""
            self._transport.close()

    def _refuse(self, status: int) -> None:
        assert self._transport is not None
        self._transport.write(_wire(status, Body(b"", [("Connection", "close"), ("Allow", "GET, HEAD")]), None).wire)
        self._buffer = b""
        self._transport.close()


def _url(bound: socket.socket) -> str:
    return f"http://127.0.0.1:{bound.getsockname()[1]}/"


def _failure(page: PageSpec) -> _Prepared:
    headers = [("Content-Type", "text/html")]
    if page.retry_after_seconds is not None:
        headers.append(("Retry-After", str(page.retry_after_seconds)))
    return _wire(page.first_status, Body(b"<title>not now</title>\n", headers), page)


def _wire(status: int, body: Body, page: PageSpec | None) -> _Prepared:
    headers = body.headers
    if ("Transfer-Encoding", "chunked") not in headers:
        headers = [*headers, ("Content-Length", str(len(body.bytes)))]
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode("latin-1")
    return _Prepared(status, len(head), head + body.bytes, page)
