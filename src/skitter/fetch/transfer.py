"""One easy handle: its options, its callbacks, and the page or the error it ends with.

A handle is used again and again. What all requests share is set once, and a plain GET sets nothing but
its URL: each ``setopt`` is a cost per page. Any other request resets the handle when it is over.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time

import pycurl

from skitter.errors import FetchError, LateError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.cookies import CookieJar
from skitter.fetch.failures import kind_of, one_line
from skitter.fetch.guard import Guard
from skitter.fetch.headers import HeaderLines, final_block, has_control, is_token, to_send
from skitter.model.page import Page
from skitter.settings import Fetch

_PORT = re.compile(r":\d*$")


class _Handed(socket.socket):
    """A socket for pycurl, which duplicates the descriptor and drops the object: no leak to warn about."""

    def __del__(self) -> None:
        self.close()


class Transfer:
    """A handle and what its callbacks have collected."""

    __slots__ = (
        "_ca_file",
        "_chunks",
        "_guard",
        "_header_lines",
        "_jar",
        "_late",
        "_limit",
        "_lines",
        "_opened",
        "_over",
        "_plain",
        "_problem",
        "_rate_mark",
        "_request",
        "_settings",
        "_size",
        "_started",
        "_started_at",
        "_truncate",
        "_waits",
        "curl",
        "future",
    )

    def __init__(
        self,
        settings: Fetch,
        *,
        guard: Guard,
        jar: CookieJar | None,
        ca_file: str | None,
        header_lines: HeaderLines,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._jar = jar
        self._header_lines = header_lines
        self._ca_file = ca_file
        self.curl = pycurl.Curl()
        self._lines: list[bytes] = []
        self._chunks: list[bytes] = []
        if jar is not None:
            jar.attach(self.curl)  # for good: a reset does not undo it
        self._configure()

    def _configure(self) -> None:
        settings, setopt = self._settings, self.curl.setopt
        self._limit = settings.max_body_bytes
        setopt(pycurl.NOSIGNAL, 1)
        setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.PATH_AS_IS, 1)
        # Not even from the environment: behind a proxy the guard would see the proxy's address only.
        setopt(pycurl.PROXY, "")
        setopt(pycurl.USERAGENT, settings.agent)
        setopt(pycurl.HTTPHEADER, to_send({}))
        setopt(pycurl.ACCEPT_ENCODING, "")  # everything this libcurl can undo
        setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if settings.http2 else pycurl.CURL_HTTP_VERSION_1_1)
        self._waits = False
        setopt(pycurl.TIMEOUT_MS, _milliseconds(settings.timeout_seconds))
        setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(settings.connect_timeout_seconds))
        setopt(pycurl.MAXFILESIZE_LARGE, settings.max_body_bytes)
        if self._ca_file is not None:
            setopt(pycurl.CAINFO, self._ca_file)
        if not settings.verify_tls:
            setopt(pycurl.SSL_VERIFYPEER, 0)
            setopt(pycurl.SSL_VERIFYHOST, 0)
        setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        setopt(pycurl.PREREQFUNCTION, self._check_connection)
        setopt(pycurl.WRITEFUNCTION, self._write)
        # No Python runs per header line. libcurl bounds a line at 100 KB and a response's headers at 300 KB.
        setopt(pycurl.HEADERFUNCTION, self._lines.append)

    def prepare(self, request: FetchRequest, future: asyncio.Future[tuple[int, str]]) -> None:
        """Make the handle ready to be added."""
        self.future = future
        self._rate_mark: tuple[float, int] | None = None
        self._request = request
        self._size = 0
        self._over = self._opened = self._started = self._late = False
        self._problem: tuple[str, str] | None = None
        self._truncate = request.truncate_bytes
        self._plain = True
        self._started_at = time.time()
        try:
            self.curl.setopt(pycurl.URL, request.url)
            if self._settings.http2 and request.url.startswith("https:") != self._waits:
                # Rather a stream of a connection that is being made than one more connection. Not for http,
                # where libcurl would wait for the first connection's whole answer before it opens a second.
                self._waits = not self._waits
                self.curl.setopt(pycurl.PIPEWAIT, self._waits)
            if (
                request.method != "GET"
                or request.headers
                or request.body
                or request.cookies
                or request.timeout_seconds is not None
                or request.connect_timeout_seconds is not None
                or request.truncate_bytes is not None
            ):
                self._plain = False
                self._prepare_special(request)
        except (ValueError, TypeError, pycurl.error) as error:
            raise FetchError("protocol", f"a request that cannot be sent: {one_line(str(error))}") from error

    def _prepare_special(self, request: FetchRequest) -> None:
        setopt = self.curl.setopt
        if not is_token(request.method):
            raise FetchError("protocol", f"not an HTTP method: {request.method[:40]!r}")
        lines = to_send(request.headers)
        if request.method == "HEAD":
            setopt(pycurl.NOBODY, 1)
            setopt(pycurl.MAXFILESIZE_LARGE, 0)  # the announced size costs nothing here
        elif request.method != "GET":
            setopt(pycurl.CUSTOMREQUEST, request.method)
        if request.method != "HEAD" and (request.body or request.method in ("POST", "PUT", "PATCH")):
            setopt(pycurl.POSTFIELDS, request.body)
            setopt(pycurl.CUSTOMREQUEST, request.method)
            given = {name.lower() for name in request.headers}
            # libcurl would invent a form's Content-Type, and wait for a "100 Continue" before large bodies.
            lines += [f"{name}:".encode() for name in ("Content-Type", "Expect") if name.lower() not in given]
        setopt(pycurl.HTTPHEADER, lines)
        if request.cookies:
            pairs = [f"{name}={value}" for name, value in request.cookies.items()]
            if any(has_control(pair) or ";" in pair for pair in pairs):
                raise FetchError("protocol", "a cookie with a control character or a semicolon in it")
            setopt(pycurl.COOKIE, "; ".join(pairs).encode())
        if request.timeout_seconds is not None:
            setopt(pycurl.TIMEOUT_MS, _milliseconds(request.timeout_seconds))
        if request.connect_timeout_seconds is not None:
            setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(request.connect_timeout_seconds))
        if request.truncate_bytes is not None:
            setopt(pycurl.MAXFILESIZE_LARGE, 0)
            self._limit = request.truncate_bytes

    def release(self) -> None:
        """Forget the request, once the handle is out of the multi handle."""
        self._lines.clear()
        self._chunks.clear()
        if not self._plain:
            self.curl.reset()
            self._configure()

    def finish(self, code: int, message: str) -> Page:
        """The page of a transfer that libcurl ended with ``code``, or its error raised."""
        if code and not (self._over and self._truncate is not None):
            if self._late:
                raise LateError(f"not at the socket in time: {self._request.url}")
            raise self._error(code, message)
        lines = self._lines
        if lines[-1:] != [b"\r\n"] or lines.count(b"\r\n") != 1:
            lines = final_block(lines) or []
            if not lines:
                raise FetchError("protocol", f"an answer without headers: {self._request.url}")
        getinfo = self.curl.getinfo
        headers, set_cookies = self._header_lines.read(lines[1:-1])
        if set_cookies and self._jar is not None:
            self._jar.received(_host(self._request.url), set_cookies)
        return Page(
            url=self._request.url,
            status=getinfo(pycurl.RESPONSE_CODE),
            headers=headers,
            body=self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks),
            address=getinfo(pycurl.PRIMARY_IP),
            http_version=lines[0].partition(b" ")[0][5:].decode("latin-1"),
            started_at=self._started_at,
            seconds=getinfo(pycurl.TOTAL_TIME),
            wire_bytes=int(getinfo(pycurl.SIZE_DOWNLOAD_T)),
        )

    def _error(self, code: int, message: str) -> FetchError:
        url = self._request.url
        if self._over:
            return FetchError("too_large", f"a body of more than {self._limit} bytes: {url}")
        if self._problem is not None and not self._opened:
            # Every address there was had been refused; with one allowed, its failure is what counts.
            return FetchError(*self._problem)
        return FetchError(kind_of(code, message, self.curl, url), one_line(f"{message}: {url}"))

    def slow(self, now: float, window_seconds: float) -> bool:
        """Whether the body came below the minimum rate over the window; asked from time to time."""
        # Waiting for the answer is the total timeout's business.
        if final_block(self._lines) is None:
            return False
        received = int(self.curl.getinfo(pycurl.SIZE_DOWNLOAD_T))
        if self._rate_mark is None:
            self._rate_mark = (now, received)
            return False
        since, before = self._rate_mark
        if now - since < window_seconds:
            return False
        self._rate_mark = (now, received)
        return received - before < self._settings.min_bytes_per_second * (now - since)

    def slow_message(self) -> str:
        """What is said of a slow one."""
        return f"a body slower than {self._settings.min_bytes_per_second:g} bytes/s: {self._request.url}"

    def _write(self, chunk: bytes) -> int | None:
        # Chunks are decoded already, at most 16 KB each: this is the cap for decompression bombs too.
        self._size += len(chunk)
        if self._size <= self._limit:
            self._chunks.append(chunk)
            return None
        self._over = True
        if self._truncate is not None:
            self._chunks.append(chunk[: len(chunk) - (self._size - self._limit)])
        return 0  # not what was handed over: libcurl ends the transfer

    def _open_socket(self, _purpose: int, address: pycurl.CurlSockAddr) -> socket.socket | int:
        host = address.addr[0]
        if not self._permitted(host) or not self._in_time():
            return int(pycurl.SOCKET_BAD)
        try:
            opened = _Handed(address.family, address.socktype, address.protocol)
        except OSError as error:
            self._problem = ("connect", f"no socket ({error}): {self._request.url}")
            return int(pycurl.SOCKET_BAD)
        self._opened = True
        return opened

    def _check_connection(self, address: str, _local: str, _port: int, _local_port: int) -> int:
        # Also for a connection that was kept alive, and may have been opened for a trusted request.
        if not self._permitted(address):
            self._opened = False
            return int(pycurl.PREREQFUNC_ABORT)
        return int(pycurl.PREREQFUNC_OK if self._in_time() else pycurl.PREREQFUNC_ABORT)

    def _in_time(self) -> bool:
        """Asked at the last instant before the server can notice. Once it has, the request goes on."""
        start_by = self._request.start_by
        self._late = not self._started and start_by is not None and time.monotonic() > start_by
        self._started = not self._late
        return self._started

    def _permitted(self, address: str) -> bool:
        reason = None if self._request.trusted else self._guard.objection(address)
        if reason is not None:
            self._problem = ("guard", f"refused to connect to a {reason} address ({address}): {self._request.url}")
        return reason is None


def _host(url: str) -> str:
    # lower-case already, after WHATWG parsing
    return _PORT.sub("", url.split("/", 3)[2].rpartition("@")[2])


def _milliseconds(seconds: float) -> int:
    # 0 would mean libcurl's default
    return max(1, min(round(seconds * 1000), 2**31 - 1))
