"""Small real servers on loopback, each as badly behaved as its test wants, and fetchers to meet them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.model.page import Page
from skitter.settings import Fetch

CERTIFICATE = Path(__file__).with_name("localhost.pem")


@dataclass
class Seen:
    """A request as it came over the wire."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


Behaviour = Callable[[Seen, asyncio.StreamWriter], Awaitable[bool]]
"""Answers one request; True keeps the connection for the next."""


@dataclass
class Site:
    """A running server and what it has seen."""

    behaviour: Behaviour
    scheme: str = "http"
    port: int = 0
    connections: int = 0
    open: int = 0
    seen: list[Seen] = field(default_factory=list)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Wait until something about this site is so."""
        async with self.changed, asyncio.timeout(20):
            await self.changed.wait_for(predicate)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        self.connections += 1
        self.open += 1
        await self._tell()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            keep = True
            while keep:
                head = await reader.readuntil(b"\r\n\r\n")
                seen = Seen(head, b"")
                seen.body = await reader.readexactly(int(seen.headers.get("content-length", 0)))
                self.seen.append(seen)
                await self._tell()
                keep = await self.behaviour(seen, writer)
                await writer.drain()
        self.open -= 1
        writer.close()
        await self._tell()

    async def stop(self, server: asyncio.Server) -> None:
        server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()


class Servers:
    """Starts servers, and has the words they answer with: tests cannot import this file."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack

    async def __call__(
        self,
        behaviour: Behaviour | bytes,
        *,
        tls: bool = False,
        tls_version: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED,
        keep: bool = True,
        host: str = "127.0.0.1",
    ) -> Site:
        """A server that behaves so, or always says the same bytes and then keeps the connection or not."""
        if isinstance(behaviour, bytes):
            behaviour = self.says(behaviour, keep=keep)
        site = Site(behaviour, scheme="https" if tls else "http")
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            context.maximum_version = tls_version
        server = await asyncio.start_server(site.serve, host, 0, ssl=context, limit=2**22)
        self._stack.push_async_callback(site.stop, server)
        site.port = server.sockets[0].getsockname()[1]
        return site

    @staticmethod
    def answer(body: bytes = b"ok", *headers: str, status: str = "200 OK") -> bytes:
        """A whole HTTP/1.1 response."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        return "\r\n".join(lines).encode("latin-1") + body

    @staticmethod
    def says(response: bytes, *, keep: bool = True) -> Behaviour:
        """Always the same bytes."""

        async def behaviour(_seen: Seen, writer: asyncio.StreamWriter) -> bool:
            writer.write(response)
            return keep

        return behaviour


@pytest.fixture
async def serve() -> AsyncIterator[Servers]:
    async with contextlib.AsyncExitStack() as stack:
        yield Servers(stack)


@pytest.fixture
async def make_fetcher() -> AsyncIterator[Callable[..., CurlFetcher]]:
    made: list[CurlFetcher] = []

    def make(settings: Fetch | None = None, **options: Any) -> CurlFetcher:
        made.append(CurlFetcher(settings or Fetch(), **options))
        return made[-1]

    yield make
    for fetcher in made:
        await fetcher.close()


@pytest.fixture
def fetcher(make_fetcher: Callable[..., CurlFetcher]) -> CurlFetcher:
    return make_fetcher()


class Client:
    """Fetches as the worker would a seed's pages."""

    def __init__(self, fetcher: CurlFetcher) -> None:
        self.fetcher = fetcher

    async def get(self, url: str, **fields: Any) -> Page:
        return await self.fetcher.fetch(FetchRequest(url=url, **{"trusted": True, **fields}))

    async def kind(self, url: str, **fields: Any) -> str:
        """The class of the error that this ends with."""
        with pytest.raises(FetchError) as caught:
            await self.get(url, **fields)
        assert "\n" not in str(caught.value)
        return caught.value.error_class


@pytest.fixture
def client(fetcher: CurlFetcher) -> Client:
    return Client(fetcher)


@pytest.fixture
def make_client(make_fetcher: Callable[..., CurlFetcher]) -> Callable[..., Client]:
    def make(settings: Fetch | None = None, **options: Any) -> Client:
        return Client(make_fetcher(settings, **options))

    return make


@pytest.fixture
def certificate() -> str:
    return str(CERTIFICATE)
