"""Transfer of one request by a libcurl easy handle: options, callbacks, and the resulting page or error.

A handle is used again and again. What all requests share is set once, and a plain GET sets nothing but
its URL: each ``setopt`` is a cost per page. Any other request resets the handle when it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Sequence

import pycurl

from skitter.errors import FetchError, LateError
from skitter.fetch.body import OFFERED, ROOM_BYTES, Bodies, Body
from skitter.fetch.contract import ClientCertificate, FetchRequest
from skitter.fetch.cookies import cookie_header, cookies_set
from skitter.fetch.curl_errors import describe_error, error_class_of, one_line
from skitter.fetch.dns_lookups import CURL_KNOWN_SECONDS
from skitter.fetch.header_lines import HeaderLines, SentHeaders, final_block, is_token
from skitter.fetch.network_guard import Guard
from skitter.fetch.proxy import Proxy, failed_at_proxy
from skitter.fetch.stuck_call_watchdog import Call
from skitter.model.page import Page
from skitter.model.url import host_name, port
from skitter.settings import Fetch

TRICKLE_BYTES_PER_SECOND = 262_144
MAX_STEPS_PER_CALL = 100
"""Of one transfer; libcurl takes 1 to 8, also with large, packed and finely cut bodies."""
NOT_CONNECTED = -(10**9)
"""Steps that are not counted: a proxy's answer to CONNECT is read byte by byte."""


class _SocketForCurl(socket.socket):
    """Socket for pycurl, which duplicates the descriptor and drops the object, so no leak warning is due."""

    def __del__(self) -> None:
        self.close()


class Transfer:
    """Easy handle with the data of its callbacks."""

    __slots__ = (
        "_body",
        "_ca_file",
        "_call",
        "_call_number",
        "_cookies",
        "_guard",
        "_header_lines",
        "_late",
        "_lines",
        "_opened",
        "_plain",
        "_problem",
        "_proxy",
        "_rate_mark",
        "_request",
        "_sent_headers",
        "_settings",
        "_started",
        "_steps",
        "_unwanted",
        "_waits",
        "aside",
        "curl",
        "future",
        "started_at",
    )

    def __init__(
        self,
        settings: Fetch,
        *,
        guard: Guard,
        bodies: Bodies,
        ca_file: str | None,
        header_lines: HeaderLines,
        sent_headers: SentHeaders,
        call: Call,
        proxy: Proxy | None = None,
    ) -> None:
        self._settings = settings
        self._call = call
        self._call_number = 0
        self._guard = guard
        self._header_lines = header_lines
        self._sent_headers = sent_headers
        self._ca_file = ca_file
        self._proxy = proxy
        self.curl = pycurl.Curl()
        self.aside = False
        """Whether it stands aside (``SlowTransfers``)."""
        self._lines: list[bytes] = []
        self._body = Body(self.curl, self._lines, bodies)
        self._configure()

    def _configure(self) -> None:
        settings, setopt = self._settings, self.curl.setopt
        setopt(pycurl.NOSIGNAL, 1)
        setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.PATH_AS_IS, 1)
        # Neither is taken from the environment: behind a proxy the guard would see the proxy's address only.
        setopt(pycurl.NOPROXY, "")
        if self._proxy is None:
            setopt(pycurl.PROXY, "")
        else:
            self._proxy.configure(self.curl, ca_file=self._ca_file, verify_tls=settings.verify_tls)
        setopt(pycurl.USERAGENT, settings.agent)
        setopt(pycurl.HTTPHEADER, self._sent_headers.plain)
        self._cookies = b""
        # What comes in another one is undone as well, if this libcurl can.
        setopt(pycurl.ACCEPT_ENCODING, ", ".join(OFFERED))
        setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if settings.http2 else pycurl.CURL_HTTP_VERSION_1_1)
        self._waits = False
        setopt(pycurl.TIMEOUT_MS, _milliseconds(settings.timeout_seconds))
        setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(settings.connect_timeout_seconds))
        setopt(pycurl.DNS_CACHE_TIMEOUT, CURL_KNOWN_SECONDS)
        setopt(pycurl.MAXFILESIZE_LARGE, settings.max_body_bytes)
        if self._ca_file is not None:
            setopt(pycurl.CAINFO, self._ca_file)
        if not settings.verify_tls:
            setopt(pycurl.SSL_VERIFYPEER, 0)
            setopt(pycurl.SSL_VERIFYHOST, 0)
        setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        setopt(pycurl.PREREQFUNCTION, self._check_connection)
        setopt(pycurl.WRITEFUNCTION, self._body.write)
        setopt(pycurl.XFERINFOFUNCTION, self._count_step)
        # No Python runs per header line. libcurl bounds a line at 100 KB and a response's headers at 300 KB.
        setopt(pycurl.HEADERFUNCTION, self._lines.append)

    def prepare(
        self,
        request: FetchRequest,
        future: asyncio.Future[tuple[int, str]],
        addresses: Sequence[str] = (),
        proxy: Proxy | None = None,
    ) -> None:
        """Make the handle ready to be added. ``addresses``: of the URL's host, if libcurl does not know them."""
        self.future = future
        if proxy is not self._proxy:
            # Everything anew: an option of another proxy that stayed would send its password elsewhere.
            self._proxy = proxy
            self.reset()
        self._rate_mark: tuple[float, int] | None = None
        self._request = request
        self._opened = self._started = self._late = False
        self._steps = NOT_CONNECTED
        self._problem: tuple[str, str] | None = None
        self._plain = True
        self._unwanted = False
        self._body.begin(self._settings.max_body_bytes)
        self.started_at = time.time()
        try:
            self.curl.setopt(pycurl.URL, request.url)
            may_have_cookies = request.jar or request.cookies or request.headers or self._cookies
            if may_have_cookies and (cookies := cookie_header(request)) != self._cookies:
                # Most requests of a session send the same ones, so they stay in the handle.
                self.curl.setopt(pycurl.COOKIE, cookies or None)
                self._cookies = cookies
            if self._settings.http2 and request.url.startswith("https:") != self._waits:
                # Rather a stream of a connection that is being made than one more connection. Not for http,
                # where libcurl would wait for the first connection's whole answer before it opens a second.
                self._waits = not self._waits
                self.curl.setopt(pycurl.PIPEWAIT, self._waits)
                # HTTP/2 only: 8 callbacks of a small page, which HTTP/1 does not need.
                self.curl.setopt(pycurl.NOPROGRESS, not self._waits)
            if (
                request.method != "GET"
                or request.headers
                or request.body
                or request.timeout_seconds is not None
                or request.connect_timeout_seconds is not None
                or request.truncate_bytes is not None
                or request.on_headers is not None
                or request.certificate is not None
            ):
                self._plain = False
                self._prepare_special(request)
            if addresses:
                self._plain = False
                known = f"+{host_name(request.url)}:{port(request.url)}:{','.join(addresses)}"
                self.curl.setopt(pycurl.RESOLVE, [known])
        except (ValueError, TypeError, pycurl.error) as error:
            raise FetchError("protocol", f"the request cannot be sent: {one_line(str(error))}") from error

    def _prepare_special(self, request: FetchRequest) -> None:
        setopt = self.curl.setopt
        if not is_token(request.method):
            raise FetchError("protocol", f"invalid HTTP method: {request.method[:40]!r}")
        lines = self._sent_headers.lines(request.headers)
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
        if request.timeout_seconds is not None:
            setopt(pycurl.TIMEOUT_MS, _milliseconds(request.timeout_seconds))
        if request.connect_timeout_seconds is not None:
            setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(request.connect_timeout_seconds))
        if request.on_headers is not None:
            setopt(pycurl.HEADERFUNCTION, self._note_line)
        if request.certificate is not None:
            self._show_certificate(request.certificate)
        if request.truncate_bytes is not None:
            setopt(pycurl.MAXFILESIZE_LARGE, 0)
            self._body.begin(request.truncate_bytes, cut=True)

    def _show_certificate(self, certificate: ClientCertificate) -> None:
        # libcurl keeps connections with different certificates apart.
        self.curl.setopt(pycurl.SSLCERT, certificate.file)
        self.curl.setopt(pycurl.SSLKEY, certificate.key or certificate.file)
        if certificate.key_password:
            self.curl.setopt(pycurl.KEYPASSWD, certificate.key_password)

    def release(self) -> None:
        """Forget the request, once the handle is out of the multi handle."""
        self._lines.clear()
        self._body.clear()
        if not self._plain:
            self.reset()

    def reset(self) -> None:
        """As new. It also gives back what libcurl has for a body: four megabytes for one in Brotli."""
        self._body.clear()
        self.curl.reset()
        self._configure()
        self._plain = True

    def finish(self, code: int, message: str) -> Page:
        """The page of a transfer that libcurl ended with ``code``, or its error raised."""
        if code and self._body.flaw != "cut" and not self._unwanted:
            if self._late:
                raise LateError(f"too late to be sent: {self._request.url}")
            raise self._error(code, message)
        if self._proxy is not None and self.curl.getinfo(pycurl.RESPONSE_CODE) == 407:
            raise FetchError("proxy", f"the proxy {self._proxy.url} refuses the user name or the password")
        lines = self._lines
        if lines[-1:] != [b"\r\n"] or lines.count(b"\r\n") != 1:
            lines = final_block(lines) or []
            if not lines:
                raise FetchError("protocol", f"a response without headers: {self._request.url}")
        getinfo = self.curl.getinfo
        status = getinfo(pycurl.RESPONSE_CODE)
        if status < 200:
            raise FetchError("protocol", f"an unrequested protocol upgrade ({status}): {self._request.url}")
        headers, set_cookies = self._header_lines.read(lines[1:-1])
        jar = self._request.jar if set_cookies else None
        return Page(
            url=self._request.url,
            status=status,
            headers=headers,
            body=self._body.whole(),
            address=getinfo(pycurl.PRIMARY_IP) if self._proxy is None else "",
            http_version=lines[0].partition(b" ")[0][5:].decode("latin-1"),
            started_at=self.started_at,
            seconds=getinfo(pycurl.TOTAL_TIME),
            wire_bytes=int(getinfo(pycurl.SIZE_DOWNLOAD_T)),
            cookies=() if jar is None else cookies_set(lines, jar, self._request.url),
        )

    def _error(self, code: int, message: str) -> FetchError:
        url = self._request.url
        if code == pycurl.E_ABORTED_BY_CALLBACK and self._steps > MAX_STEPS_PER_CALL:
            return FetchError("protocol", f"the HTTP/2 server floods its connection: {url}")
        if self._problem is not None and not self._opened:
            # Every address there was had been refused; with one allowed, its failure is what counts.
            return FetchError(*self._problem)
        reason = describe_error(code, message, self.curl)
        if self._proxy is not None and failed_at_proxy(self.curl, code, url):
            return FetchError("proxy", one_line(f"the proxy {self._proxy.url} failed ({reason}): {url}"))
        return FetchError(error_class_of(code, message, self.curl, url), one_line(f"{reason}: {url}"))

    def refusal(self) -> FetchError:
        """Return the error for a body that is not read further."""
        settings, url = self._settings, self._request.url
        if self._body.is_bomb(settings.max_ratio):
            return FetchError(
                "too_large", f"the body expands to more than {settings.max_ratio:g} times its size: {url}"
            )
        if self._body.flaw == "unasked":
            message = f"the body has more than {ROOM_BYTES} bytes in an encoding that was not requested: {url}"
            return FetchError("too_large", message)
        if self._body.flaw == "memory":
            return FetchError("memory", f"too many large bodies at once: {url}")
        return FetchError("too_large", f"the body has more than {settings.max_body_bytes} bytes: {url}")

    def slow(self, now: float, window_seconds: float) -> bool:
        """Whether the body came below the minimum rate over the window; asked from time to time."""
        # Waiting for the answer is the total timeout's business, and so is waiting for our own turn.
        if self._body.paused:
            self._rate_mark = None
            return False
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

    def authority(self) -> str:
        """The host that is asked, with its port."""
        return self._request.url.split("/", 3)[2]

    def is_paused(self) -> bool:
        """Whether it waits for other bodies, and not for its server."""
        return self._body.paused

    def trickles(self) -> bool:
        """Return whether data arrives very slowly."""
        return not self._body.paused and self.curl.getinfo(pycurl.SPEED_DOWNLOAD_T) < TRICKLE_BYTES_PER_SECOND

    def rest(self, yes: bool) -> None:
        """Pause or resume reading; a transfer that waits for other bodies is not changed."""
        if not self._body.paused:
            # Refused for what has come to its end in this very step.
            with contextlib.suppress(pycurl.error):
                self.curl.pause(pycurl.PAUSE_RECV if yes else pycurl.PAUSE_CONT)

    def descriptor(self) -> int:
        """Return the descriptor of its socket, or -1 if it has none yet."""
        return int(self.curl.getinfo(pycurl.ACTIVESOCKET))

    def surplus_message(self) -> str:
        """Return the message for a slow transfer that exceeds the limit of slow transfers."""
        return f"too many slow responses at once: {self._request.url}"

    def slow_message(self) -> str:
        """Return the message for a body below the minimum rate."""
        return f"the body arrives at less than {self._settings.min_bytes_per_second:g} bytes/s: {self._request.url}"

    def _note_line(self, line: bytes) -> int | None:
        """HEADERFUNCTION of a request with ``on_headers``; -1 ends the transfer."""
        self._lines.append(line)
        if self._unwanted or line not in (b"\r\n", b"\n") or (lines := final_block(self._lines)) is None:
            return None
        # libcurl cannot be asked here, and checks the status line. Trailers are no headers.
        status = lines[0].split(None, 2)[1]
        if lines[-1] is not line or not status.isdigit():
            return None
        assert self._request.on_headers is not None
        headers, _ = self._header_lines.read(lines[1:-1])
        page = Page(url=self._request.url, status=int(status), headers=headers, body=b"", started_at=self.started_at)
        self._unwanted = not self._request.on_headers(page)
        return -1 if self._unwanted else None

    def _open_socket(self, _purpose: int, address: pycurl.CurlSockAddr) -> socket.socket | int:
        if not self._may_open(*address.addr[:2]) or not self._in_time():
            return int(pycurl.SOCKET_BAD)
        try:
            opened = _SocketForCurl(address.family, address.socktype, address.protocol)
        except OSError as error:
            self._problem = ("connect", f"cannot open a socket ({error}): {self._request.url}")
            return int(pycurl.SOCKET_BAD)
        self._opened = True
        return opened

    def _check_connection(self, address: str, _local: str, port: int, _local_port: int) -> int:
        self._steps = 0
        # Also for a connection that was kept alive, and may have been opened for a trusted request.
        if not self._request.trusted and self._proxy is None and self._refused(self._guard.objection(address, port)):
            self._opened = False
            return int(pycurl.PREREQFUNC_ABORT)
        if not self._in_time():
            return int(pycurl.PREREQFUNC_ABORT)
        if self._request.on_send is not None:
            self._request.on_send()
        return int(pycurl.PREREQFUNC_OK)

    def _count_step(self, _total: int, _now: int, _upload_total: int, _upload_now: int) -> int | None:
        """XFERINFOFUNCTION: ends a transfer that libcurl does not return from; other than 0 and None aborts it.

        libcurl takes another step with a transfer, without returning, each time its HTTP/2 server has announced that
        the connection changes (GOAWAY, SETTINGS). One that never stops would hold the event loop until the timeout.
        """
        number = self._call.number
        if self._call_number != number:
            self._call_number = number
            self._steps = min(self._steps, 0)
            return None
        self._steps += 1
        return 1 if self._steps > MAX_STEPS_PER_CALL else None

    def _in_time(self) -> bool:
        """Return whether ``start_by`` has not passed; checked last before the server notices, and never after."""
        start_by = self._request.start_by
        self._late = not self._started and start_by is not None and time.monotonic() > start_by
        self._started = not self._late
        return self._started

    def _may_open(self, address: str, port: int) -> bool:
        if self._proxy is not None:
            # The proxy's own address. The user typed that of the settings and those of the pool; one that a request
            # names may come from a stranger's message.
            if not self._request.proxy or self._request.proxy_trusted:
                return True
            return not self._refused(self._guard.objection(address, port))
        if self._request.trusted:
            return not self._refused(self._guard.objection_to_trusted(host_name(self._request.url), address))
        return not self._refused(self._guard.objection(address, port))

    def _refused(self, objection: str | None) -> bool:
        if objection is not None:
            self._problem = ("guard", f"refused to connect to {objection}: {self._request.url}")
        return objection is not None


def _milliseconds(seconds: float) -> int:
    # 0 would mean libcurl's default
    return max(1, min(round(seconds * 1000), 2**31 - 1))
