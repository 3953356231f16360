"""Proxies that a client asks for a connection: HTTP, SOCKS 4 and SOCKS 5, on the relay of the tests."""

from __future__ import annotations

import asyncio
import base64
from typing import NamedTuple

from rig.relay import Relay

REFUSED = b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"


class Route(NamedTuple):
    """Where a client wants to go, and what is said there first in its name."""

    host: str
    port: int
    first: bytes = b""


class AskedProxy(Relay):
    """What all kinds have in common: who asked for what, and whom it lets through."""

    def __init__(self, port: int = 0, *, user: str = "", answer: bytes | None = None, seed: int = 1) -> None:
        """``port``: of the one server to which every request goes; 0 leads where the client wants to go.

        ``user``: NAME:PASSWORD of the only client that is let through. ``answer``: is said instead of any work.
        """
        super().__init__("127.0.0.1", port, seed=seed)
        self.user = user
        self.answer = answer
        self.asked: list[str] = []
        self.heads: list[bytes] = []

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        route = await self.route(reader, writer)
        if route is None:
            return
        place = self._target if self._target[1] else (route.host, route.port)
        to_reader, to_writer = await asyncio.open_connection(*place)
        to_writer.write(route.first)
        await self._join(reader, writer, to_reader, to_writer)

    async def route(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Route | None:
        """Read what a client wants; None when it was answered, and the connection is over."""
        raise NotImplementedError


class HttpProxy(AskedProxy):
    """One request or tunnel for each connection."""

    async def route(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Route | None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        method, url, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        self.asked.append(f"{method} {url}")
        if self.answer is not None:
            writer.write(self.answer)
            return None
        if self.user and user_of(head) != self.user:
            writer.write(REFUSED)
            return None
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Go on\r\nX-Proxy: yes\r\n\r\n")
            host, _, port = url.rpartition(":")
            return Route(host, int(port))
        # One server that all requests go to gets them as they are, and may keep the connection.
        return Route("", 0, head) if self._target[1] else forwarded(head)


def user_of(head: bytes) -> str:
    """NAME:PASSWORD of a request to a proxy; empty if it has none."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name.lower() == b"proxy-authorization":
            return base64.b64decode(value.removeprefix(b"Basic ")).decode()
    return ""


def forwarded(head: bytes, *more: bytes) -> Route:
    """The request as the server gets it, with more header lines: it closes the connection after its answer."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    method, url, version = first.split(b" ")
    authority, _, path = url.removeprefix(b"http://").partition(b"/")
    host, _, port = authority.decode().partition(":")
    kept = [line for line in lines if not line.lower().startswith((b"proxy-", b"connection:"))]
    request = [b"%b /%b %b" % (method, path, version), *kept, *more, b"Connection: close", b"", b""]
    return Route(host, int(port or 80), b"\r\n".join(request))


class SocksProxy(AskedProxy):
    """SOCKS 5, with and without a password."""

    async def route(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Route | None:
        await reader.readexactly((await reader.readexactly(2))[1])
        if self.answer is not None:
            writer.write(self.answer)
            return None
        writer.write(b"\x05\x02" if self.user else b"\x05\x00")
        if self.user and not await self._is_known(reader, writer):
            return None
        kind = (await reader.readexactly(4))[3]
        length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        raw = await reader.readexactly(length)
        host = raw.decode() if kind == 3 else ".".join(map(str, raw))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"{host}:{port}")
        writer.write(b"\x05\x00\x00\x01\0\0\0\0\0\0")
        return Route(host, port)

    async def _is_known(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        user = await reader.readexactly((await reader.readexactly(2))[1])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        is_known = user + b":" + password == self.user.encode()
        writer.write(b"\x01\x00" if is_known else b"\x01\x01")
        return is_known


class Socks4Proxy(AskedProxy):
    """SOCKS 4 and 4a, with a name of the user."""

    async def route(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Route | None:
        head = await reader.readexactly(8)
        user = (await reader.readuntil(b"\0"))[:-1].decode()
        address = ".".join(map(str, head[4:]))
        host = (await reader.readuntil(b"\0"))[:-1].decode() if address.startswith("0.0.0.") else address
        port = int.from_bytes(head[2:4], "big")
        self.asked.append(f"{user} {host}:{port}")
        writer.write(b"\0\x5a" + bytes(6))
        return Route(host, port)
