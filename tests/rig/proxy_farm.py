"""Twenty real proxies with faults, and two sites behind them that know who comes directly."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Self

from rig.proxies import REFUSED, HttpProxy, forwarded, user_of
from rig.web import Seen, Site, Whole
from rig.web_connection import Connection

SLOW_SECONDS = 0.3


class Shop(Site):
    """A site that lists its pages, has some that are not there, and bans proxies at will."""

    def __init__(self, pages: int, banned: frozenset[str] = frozenset()) -> None:
        super().__init__({"*": self._answer})
        self.pages = pages
        self.banned = banned
        self.direct: list[str] = []
        """Requests that came past every proxy: the canary."""
        self.by: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def _answer(self, seen: Seen, _: Connection) -> Whole:
        via, path, kind = seen.headers.get("via", ""), seen.path, {"Content-Type": "text/html"}
        with self.changed:
            if not via:
                self.direct.append(path)
                return 200, kind, b"direct"
            if path == "/robots.txt":
                return 404, kind, b""
            if via in self.banned:
                self.refused[via] += 1
                return 403, kind, b"you look like a robot"
            self.by[via] += 1
            if path == "/":
                links = (b"<a href=/%d>x</a><a href=/gone%d>y</a>" % (n, n) for n in range(self.pages))
                return 200, kind, b"".join(links)
            return (404, kind, b"") if path.startswith("/gone") else (200, kind, b"a page")


class Proxy(HttpProxy):
    """One port. ``kind``: good, slow, hang, cut, garbage, other-password; ``refuse`` does not listen."""

    def __init__(self, name: str, kind: str, users: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.name = name
        self.kind = kind
        self.users = users
        self.requests: Counter[str] = Counter()
        """By user."""
        self.in_flight: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.users_of_connections: list[set[str]] = []

    def urls(self) -> list[str]:
        return [f"http://{user}@{self.address}" for user in self.users] or [f"http://{self.address}"]

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        users: set[str] = set()
        goes_on = True
        while goes_on:
            head = await reader.readuntil(b"\r\n\r\n")
            user = user_of(head)
            if not users:
                self.users_of_connections.append(users)
            users.add(user)
            self.requests[user] += 1
            self.in_flight[user] += 1
            self.most[user] = max(self.most[user], self.in_flight[user])
            try:
                goes_on = await self.work(head, user, reader, writer)
            finally:
                self.in_flight[user] -= 1

    async def work(self, head: bytes, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False ends the connection."""
        if self.kind == "cut":
            return False
        if self.kind == "hang":
            await reader.read()
            return False
        if self.kind == "garbage":
            writer.write(b"\x00\x01 this is no HTTP \xff\r\n\r\n")
            return False
        if self.kind == "other-password" or (self.users and user not in self.users):
            writer.write(REFUSED)
            return True
        if self.kind == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        writer.write(await self.forward(head, user))
        await writer.drain()
        return True

    async def forward(self, head: bytes, user: str) -> bytes:
        via = f"Via: {self.name}{'-' + user.partition(':')[0] if user else ''}"
        route = forwarded(head, via.encode())
        reader, writer = await asyncio.open_connection(route.host, route.port)
        writer.write(route.first)
        answer = await reader.read()
        writer.close()
        return answer


class Farm:
    """Sites and proxies that run within a block."""

    def __init__(self, sites: list[Shop], proxies: list[Proxy]) -> None:
        self.sites = sites
        self.proxies = proxies
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for proxy in self.proxies:
            self._running.enter_context(proxy)
            if proxy.kind == "refuse":
                proxy.go_down()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
        for site in self.sites:
            site.close()

    def stop_all_proxies(self) -> None:
        """Every proxy hangs up from now on."""
        for proxy in self.proxies:
            proxy.kind = "cut"

    def proxy_list(self) -> str:
        return "\n".join(url for proxy in self.proxies for url in proxy.urls())
