"""Twenty real proxies with faults, and two sites behind them that know who comes directly."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections import Counter, defaultdict
from typing import Any, Self

SLOW_SECONDS = 0.3
_BASIC = b"proxy-authorization: basic "


class Site:
    """A site that lists its pages, has some that are not there, and bans proxies at will."""

    def __init__(self, pages: int, banned: frozenset[str] = frozenset()) -> None:
        self.pages = pages
        self.banned = banned
        self.direct: list[str] = []
        """Requests that came past every proxy: the canary."""
        self.by: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            via = [line[5:].strip().decode() for line in head.split(b"\r\n") if line.lower().startswith(b"via:")]
            status, body = self.answer(path, via[0] if via else "")
            writer.write(b"HTTP/1.1 %d X\r\nContent-Type: text/html\r\n" % status)
            writer.write(b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        writer.close()

    def answer(self, path: str, via: str) -> tuple[int, bytes]:
        if not via:
            self.direct.append(path)
            return 200, b"direct"
        if path == "/robots.txt":
            return 404, b""
        if via in self.banned:
            self.refused[via] += 1
            return 403, b"you look like a robot"
        self.by[via] += 1
        if path == "/":
            return 200, b"".join(b"<a href=/%d>x</a><a href=/gone%d>y</a>" % (n, n) for n in range(self.pages))
        return (404, b"") if path.startswith("/gone") else (200, b"a page")


class Proxy:
    """One port. ``kind``: good, slow, hang, cut, garbage, wants-another-password; ``refuse`` does not listen."""

    def __init__(self, name: str, kind: str, users: tuple[str, ...] = ()) -> None:
        self.name = name
        self.kind = kind
        self.users = users
        self.port = 0
        self.requests: Counter[str] = Counter()
        """By user."""
        self.in_flight: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.users_of_connections: defaultdict[int, set[str]] = defaultdict(set)

    def urls(self) -> list[str]:
        return [f"http://{user}@127.0.0.1:{self.port}" for user in self.users] or [f"http://127.0.0.1:{self.port}"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                user = _user_of(head)
                self.requests[user] += 1
                self.in_flight[user] += 1
                self.most[user] = max(self.most[user], self.in_flight[user])
                self.users_of_connections[id(writer)].add(user)
                try:
                    if not await self.work(head, user, reader, writer):
                        break
                finally:
                    self.in_flight[user] -= 1
        writer.close()

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
        if self.kind == "other-password" or (self.users and f"{user}:" not in "".join(f"{u}:" for u in self.users)):
            writer.write(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
            return True
        if self.kind == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        writer.write(await self.forward(head, user))
        await writer.drain()
        return True

    async def forward(self, head: bytes, user: str) -> bytes:
        method, url, version = head.split(b"\r\n", 1)[0].split(b" ")
        authority, _, path = url.removeprefix(b"http://").partition(b"/")
        host, _, port = authority.partition(b":")
        via = f"{self.name}{'-' + user.partition(':')[0] if user else ''}".encode()
        request = b"%b /%b %b\r\nHost: %b\r\nVia: %b\r\nConnection: close\r\n\r\n" % (method, path, version, host, via)
        reader, writer = await asyncio.open_connection(host.decode(), int(port))
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer.replace(b"Connection: close\r\n", b"")


def _user_of(head: bytes) -> str:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(_BASIC):
            return base64.b64decode(line[len(_BASIC) :]).decode()
    return ""


class Farm:
    """Sites and proxies in a thread with an event loop of its own."""

    def __init__(self, sites: list[Site], proxies: list[Proxy]) -> None:
        self.sites = sites
        self.proxies = proxies
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for one in (*self.sites, *self.proxies):
            self.call(self._listen(one))
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self, one: Site | Proxy) -> None:
        server = await asyncio.start_server(one.serve, "127.0.0.1", 0, backlog=256)
        one.port = server.sockets[0].getsockname()[1]
        if getattr(one, "kind", "") == "refuse":
            server.close()
        else:
            self._servers.append(server)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop_all_proxies(self) -> None:
        """Every proxy hangs up from now on."""
        for proxy in self.proxies:
            proxy.kind = "cut"

    def proxy_list(self) -> str:
        return "\n".join(url for proxy in self.proxies for url in proxy.urls())
