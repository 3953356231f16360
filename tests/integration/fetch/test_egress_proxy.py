"""The proxy of an egress: it passes on what it is asked for by whoever has the password, and leads nobody inside."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rig.web import Seen
from rig.web_connection import Connection, Server
from rig.web_faults import silent
from skitter.egress import proxy_server
from skitter.egress.proxy_server import ProxyServer
from skitter.egress.request_head import RefusedRequestError, basic, read_answer, read_request
from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.model.page import Page
from skitter.settings import Fetch

USER, PASSWORD = "egress", "s3cret-w0rd"


class Client:
    """A fetcher behind a proxy, and raw bytes to it."""

    def __init__(self, server: ProxyServer, port: int, make_fetcher: Any, ca_file: str) -> None:
        self.server, self.port = server, port
        self._make = make_fetcher
        self._ca_file = ca_file
        self.fetcher = self.with_password(PASSWORD)

    def with_password(self, password: str) -> Any:
        proxy = f"http://{USER}:{password}@127.0.0.1:{self.port}"
        return self._make(Fetch(allow_private=True), proxy=proxy, ca_file=self._ca_file)

    async def get(self, url: str, **fields: Any) -> Page:
        page: Page = await self.fetcher.fetch(FetchRequest(url=url, trusted=True, **fields))
        return page

    async def say(self, data: bytes) -> bytes:
        """What comes back for these bytes, to the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        async with asyncio.timeout(60):
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()


@pytest.fixture
async def egress(make_fetcher: Any, certificate: str) -> AsyncIterator[Callable[..., Any]]:
    async with contextlib.AsyncExitStack() as stack:

        async def start(source: str = "", **options: Any) -> Client:
            server = ProxyServer(**{"allow_private": True, **options})
            port = await server.open("127.0.0.1", 0, user=USER, password=PASSWORD, source=source)
            stack.push_async_callback(server.close)
            return Client(server, port, make_fetcher, certificate)

        yield start


async def test_plain_requests_are_passed_on(serve: Any, egress: Any) -> None:
    body = b"text" * 50_000
    site = serve(serve.answer(gzip.compress(body), "Content-Encoding: gzip", "X-Odd: \x80", "Keep-Alive: 5"))
    client = await egress()
    page = await client.get(site.url("/a/%2F?q=1"), headers={"X-Own": "1"})
    assert (page.status, page.body, page.header("x-odd")) == (200, body, "\x80")
    assert page.header("keep-alive") is None
    page = await client.get(site.url(), method="POST", body=b"b" * 300_000, headers={"Content-Type": "a/b"})
    first, second = site.seen
    assert (first.line, first.headers["x-own"]) == ("GET /a/%2F?q=1 HTTP/1.1", "1")
    assert first.headers["host"] == f"127.0.0.1:{site.port}"
    assert not [name for name in first.headers if name.startswith("proxy-")]
    assert (second.line, len(second.body)) == ("POST / HTTP/1.1", 300_000)
    assert client.server.requests == 2


async def test_tls_goes_through_a_tunnel(serve: Any, egress: Any) -> None:
    site = serve(serve.answer(b"through"), tls=True)
    client = await egress()
    pages = await asyncio.gather(*(client.get(site.url(f"/{number}", host="localhost")) for number in range(5)))
    assert [page.body for page in pages] == [b"through"] * 5


async def test_requests_go_out_from_the_address_it_is_told(serve: Any, egress: Any) -> None:
    seen: list[str] = []

    def note_address(_seen: Seen, connection: Connection) -> bytes:
        seen.append(connection.address)
        return serve.answer()

    site = serve(note_address)
    client = await egress("127.0.0.7")
    await client.get(site.url())
    await client.server.close()
    await client.server.open("127.0.0.1", client.port, user=USER, password=PASSWORD, source="127.0.0.8")
    await client.get(site.url())
    assert seen == ["127.0.0.7", "127.0.0.8"]


async def test_nobody_is_served_without_the_password(serve: Any, egress: Any) -> None:
    site = serve(serve.answer())
    client = await egress()
    stranger = client.with_password("wrong")
    for url in (site.url(), site.url().replace("http:", "https:")):
        with pytest.raises(FetchError) as caught:
            await stranger.fetch(FetchRequest(url=url))
        assert caught.value.error_class == "proxy"
    for head in (b"GET /status HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n"):
        assert (await client.say(head)).startswith(b"HTTP/1.1 407 ")
    assert site.connections == 0


async def test_it_leads_nobody_inside(serve: Any, egress: Any) -> None:
    site = serve(serve.answer())
    client = await egress(allow_private=False)
    for url in (site.url(), site.url(host="localhost"), "http://[::1]:1/", "http://[::ffff:127.0.0.1]:1/"):
        assert (await client.get(url)).status == 502
    open_to_all = await egress()
    redis_port = 6379
    assert (await open_to_all.get(f"http://127.0.0.1:{redis_port}/")).status == 502, "ports of services stay refused"
    trusting = await egress(allow_private=False, trusted=[("127.0.0.1", site.port)])
    assert (await trusting.get(site.url())).status == 200
    assert site.connections == 1


async def test_a_server_that_cannot_be_reached_is_the_servers_failure(egress: Any) -> None:
    client = await egress()
    assert (await client.get("http://127.0.0.1:9999/")).status == 502
    with pytest.raises(FetchError) as caught:
        await client.get("https://127.0.0.1:9999/")
    assert caught.value.error_class != "proxy"


async def test_half_an_answer_is_not_taken_for_a_whole_one(serve: Any, egress: Any) -> None:
    site = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", keep=False)
    client = await egress()
    with pytest.raises(FetchError) as caught:
        await client.get(site.url())
    assert caught.value.error_class == "truncated"


async def test_a_tunnel_is_idle_only_if_neither_side_sends(egress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "IDLE_SECONDS", 1.5)

    def drip(connection: Connection) -> None:
        """Send for longer than a tunnel may be idle, and then nothing more."""
        for number in range(10):
            connection.send(b"%d" % number)
            connection.sleep(0.2)
        connection.silence()

    with Server(drip) as server:
        client = await egress()
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        head = f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nProxy-Authorization: ".encode()
        writer.write(head + basic(USER, PASSWORD) + b"\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(10) == b"0123456789"
            # Now both are silent.
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


async def test_who_hangs_up_ends_the_request_to_the_server(serve: Any, egress: Any) -> None:
    site = serve(silent)
    client = await egress()
    fetching = asyncio.create_task(client.get(site.url()))
    await site.until(lambda: len(site.seen) == 1)
    fetching.cancel()
    await asyncio.wait([fetching])
    again = asyncio.create_task(client.get(site.url()))
    await site.until(lambda: len(site.seen) == 2)
    await client.server.close()
    with pytest.raises(FetchError):
        await again


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n%b",
        b"GET https://a.example/ HTTP/1.1\r\n%b",
        b"GET http://me:pw@a.example/ HTTP/1.1\r\n%b",
        b"GET http:///path HTTP/1.1\r\n%b",
        b"GET http://a.example:99999/ HTTP/1.1\r\n%b",
        b"GET http://a.example/ HTTP/2.0\r\n%b",
        b"CONNECT a.example HTTP/1.1\r\n%b",
        b"CONNECT a.example:0 HTTP/1.1\r\n%b",
        b"GET  http://a.example/ HTTP/1.1\r\n%b",
        b"GET http://a.example/ HTTP/1.1\r\n folded: 1\r\n%b",
        b"GET http://a.example/ HTTP/1.1\r\nno colon\r\n%b",
        b"GET http://a.example/ HTTP/1.1\r\nX: a\rb\r\n%b",
        b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n%b",
        b"POST http://a.example/ HTTP/1.1\r\nContent-Length: -5\r\n%b",
        b"POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n%b",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(head: bytes) -> None:
    authorization = basic(USER, PASSWORD)
    with pytest.raises(RefusedRequestError) as caught:
        read_request(head % (b"Proxy-Authorization: " + authorization + b"\r\n\r\n"), authorization)
    assert caught.value.status in (400, 411)


def test_headers_of_the_connection_are_not_passed_on() -> None:
    authorization = basic(USER, PASSWORD)
    head = b"GET http://a.example:8080?q HTTP/1.1\r\nHost: other\r\nConnection: x-hop, content-length\r\nX-Hop: 1\r\n"
    head += b"Keep: 1\r\nProxy-Connection: keep-alive\r\nContent-Length: 5\r\nTE: trailers\r\nProxy-Authorization: "
    request = read_request(head + authorization + b"\r\n\r\n", authorization)
    assert request.head == (
        b"GET /?q HTTP/1.1\r\nHost: a.example:8080\r\nKeep: 1\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
    )
    assert (request.host, request.port, request.body_bytes) == ("a.example", 8080, 5)
    status, passed = read_answer(
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-A\r\nX-A: 1\r\nodd line\r\nX-B: 2\r\n\r\n"
    )
    assert (status, passed) == (200, b"HTTP/1.1 200 OK\r\nodd line\r\nX-B: 2\r\nConnection: close\r\n\r\n")


async def test_a_head_without_an_end_is_refused(egress: Any) -> None:
    client = await egress()
    assert await client.say(b"GET http://a.example/ HTTP/1.1\r\nX: " + b"x" * 200_000) in (
        b"",
        RefusedRequestError(431, "Request Header Fields Too Large").answer(),
    )
