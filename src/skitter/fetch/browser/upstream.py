"""Connections of a page's proxy: to a checked address, or through the proxy of the crawl."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
import ssl
from collections.abc import Sequence

from skitter.errors import FetchError
from skitter.fetch.network_guard import Guard
from skitter.fetch.proxy import Proxy

MAX_HEAD = 65_536
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_SOCKS_OF_THE_SERVER = frozenset({1, 3, 4, 5, 6})
"""Replies of SOCKS that tell of the server: failed, network or host unreachable, refused, too far."""


async def connect_direct(addresses: Sequence[str], port: int, seconds: float) -> tuple[Streams, str]:
    """Connect to the first of these addresses that answers. Raises FetchError."""
    problem = ""
    try:
        async with asyncio.timeout(seconds):
            for address in addresses:
                try:
                    return await asyncio.open_connection(address, port, limit=MAX_HEAD), address
                except OSError as error:
                    problem = error.strerror or str(error)
    except TimeoutError:
        problem = f"no answer within {seconds:g} s"
    raise FetchError("connect", f"could not connect to port {port} ({problem})")


class Upstream:
    """The proxy of the crawl, as a page's proxy uses it."""

    def __init__(
        self, proxy: Proxy, *, ca_file: str | None, verify_tls: bool, seconds: float, guard: Guard | None = None
    ) -> None:
        """``guard``: what checks the address of a proxy that nobody has typed."""
        if proxy.scheme.startswith("socks4"):
            raise FetchError("proxy", f"a rendered page cannot go through {proxy.scheme}: {proxy.url}")
        self.proxy = proxy
        self._guard = guard
        self._ca_file = ca_file
        self._verify_tls = verify_tls
        self._seconds = seconds

    @property
    def forwards_http(self) -> bool:
        """Return whether a request for an http URL is sent to it as such, and not through a tunnel."""
        return self.proxy.scheme in ("http", "https")

    @property
    def authorization(self) -> bytes:
        """The header line with its credentials; empty where it has none."""
        proxy = self.proxy
        if not (proxy.user or proxy.password):
            return b""
        credentials = base64.b64encode(f"{proxy.user}:{proxy.password}".encode())
        return b"Proxy-Authorization: Basic %b\r\n" % credentials

    async def connect(self) -> Streams:
        """Connect to the proxy itself. Raises FetchError."""
        proxy = self.proxy
        tls: ssl.SSLContext | None = None
        if proxy.scheme == "https":
            tls = await asyncio.to_thread(ssl.create_default_context, cafile=self._ca_file)
            if not self._verify_tls:
                tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(self._seconds):
                host = proxy.host.strip("[]")
                address = host if self._guard is None else await self._checked(self._guard, host)
                name = host if tls is not None else None
                return await asyncio.open_connection(address, proxy.port, ssl=tls, server_hostname=name, limit=MAX_HEAD)
        except (OSError, TimeoutError) as error:
            raise FetchError("proxy", f"could not connect to the proxy: {proxy.url}: {_told(error)}") from error

    async def _checked(self, guard: Guard, host: str) -> str:
        """An address of the proxy that the guard has nothing against. Raises FetchError."""
        port = self.proxy.port
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        address = str(found[0][4][0])
        if (objection := guard.objection(address, port)) is not None:
            raise FetchError("guard", f"the proxy of a request is at {objection}: {self.proxy.url}")
        return address

    async def open_tunnel(self, host: str, port: int) -> Streams:
        """A tunnel to a host, by name or address. Raises FetchError."""
        reader, writer = await self.connect()
        try:
            async with asyncio.timeout(self._seconds):
                if self.forwards_http:
                    await self._ask_http(reader, writer, host, port)
                else:
                    await self._ask_socks(reader, writer, host, port)
        except FetchError:
            writer.close()
            raise
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            writer.close()
            raise FetchError("proxy", f"the proxy opened no tunnel: {self.proxy.url}: {_told(error)}") from error
        return reader, writer

    async def _ask_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n".encode()
        writer.write(head + self.authorization + b"\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
        words = answer.split(b"\r\n", 1)[0].split()
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if status in (500, 502, 503, 504):
            raise FetchError("connect", f"the proxy could not connect to the host (HTTP {status}): {self.proxy.url}")
        if not 200 <= status < 300:
            raise FetchError("proxy", f"the proxy refused a tunnel (HTTP {status}): {self.proxy.url}")

    async def _ask_socks(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        proxy = self.proxy
        writer.write(b"\x05\x02\x00\x02" if proxy.user or proxy.password else b"\x05\x01\x00")
        version, method = await reader.readexactly(2)
        if version != 5 or method not in (0, 2):
            raise FetchError(
                "proxy", f"the proxy does not speak SOCKS 5, or requires another authentication method: {proxy.url}"
            )
        if method == 2:
            user, password = proxy.user.encode()[:255], proxy.password.encode()[:255]
            writer.write(b"\x01%c%b%c%b" % (len(user), user, len(password), password))
            if (await reader.readexactly(2))[1] != 0:
                raise FetchError("proxy", f"the proxy refused user and password: {proxy.url}")
        writer.write(b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big"))
        version, reply, _, kind = await reader.readexactly(4)
        if version != 5 or reply != 0:
            error_class = "connect" if reply in _SOCKS_OF_THE_SERVER else "proxy"
            raise FetchError(error_class, f"the proxy could not connect (SOCKS reply {reply}): {proxy.url}")
        length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        await reader.readexactly(length + 2)


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode()[:255]
        return b"\x03%c%b" % (len(name), name)
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
