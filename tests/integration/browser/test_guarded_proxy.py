"""The proxy of a page, by itself: what passes, what is refused, and what goes through the proxy of the crawl."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from rig.browser_sites import Site, html

from skitter.fetch.browser.guarded_proxy import Network, PageProxy
from skitter.fetch.browser.host_connections import HostConnections
from skitter.fetch.browser.upstream import Upstream
from skitter.fetch.dns_lookups import DnsLookups
from skitter.fetch.network_guard import Guard
from skitter.fetch.proxy import read_proxy

PAGE = html("the page")


class Names:
    """Names of this test, which are public but for one."""

    async def addresses(self, url: str, seconds: float) -> list[str]:
        return [] if url.startswith("http://127.") else ["8.8.8.8"]


@contextlib.asynccontextmanager
async def page_proxy(
    *, allow_private: bool = False, upstream: str = "", per_host: int = 8, lookups: Any = None, **opened: Any
) -> AsyncIterator[PageProxy]:
    network = Network(
        guard=Guard(allow_private=allow_private),
        lookups=lookups or DnsLookups(max_lookups=4),
        connections=HostConnections(per_host),
        connect_timeout_seconds=5,
    )
    proxy = PageProxy(network)
    await proxy.listen()
    read = read_proxy(upstream)
    through = Upstream(read, ca_file=None, verify_tls=True, seconds=5) if read is not None else None
    proxy.open(**{"trusted": None, "max_bytes": 1_000_000, "on_full": lambda: None, "upstream": through, **opened})
    yield proxy
    await proxy.close()


async def ask(proxy: PageProxy, text: str, more: str = "") -> bytes:
    """What comes back for a request, until the connection ends; ``more`` follows what has come first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(text.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    found = b""
    with contextlib.suppress(OSError):
        if more:
            found = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            writer.write(more.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        found += await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return found


@pytest.fixture
def site() -> Any:
    site = Site({"*": PAGE})
    yield site
    site.close()


async def test_a_request_and_a_tunnel_pass_to_what_is_trusted_only(site: Site) -> None:
    async with page_proxy(trusted=("127.0.0.1", site.port)) as proxy:
        head = f"GET {site.url('/a?b')} HTTP/1.1\nHost: x\nProxy-Connection: keep-alive\nConnection: keep-alive"
        # What follows on the connection may be for another host, and goes nowhere.
        answer = await ask(proxy, f"{head}\n\nGET http://other.example/ HTTP/1.1\nHost: other.example")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nConnection: close\r\n")
        assert answer.endswith(PAGE[2])
        assert site.hits == ["GET /a?b"]
        assert (site.seen[0].get("proxy-connection"), site.seen[0]["connection"]) == (None, "close")
        assert proxy.addresses == {("127.0.0.1", site.port): "127.0.0.1"}
        tunnelled = await ask(
            proxy, f"CONNECT 127.0.0.1:{site.port} HTTP/1.1", "GET /t HTTP/1.1\nHost: x\nConnection: close"
        )
        assert tunnelled.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
        assert proxy.bytes > 2 * len(PAGE[2])
        # Another port of the same machine is another place.
        other = Site({"*": PAGE})
        assert await ask(proxy, f"GET {other.url('/')} HTTP/1.1\nHost: x") == b""
        assert (await ask(proxy, f"CONNECT localhost:{other.port} HTTP/1.1")).startswith(b"HTTP/1.1 502")
        assert [error.error_class for error in proxy.failures.values()] == ["guard", "guard"]
        assert other.hits == []
        other.close()


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "CONNECT",
        "GET http://a:b:c/ HTTP/1.1",
        "\x00\xff",
        "GET  x",
    ],
)
async def test_what_is_no_request_is_refused(head: str) -> None:
    async with page_proxy(allow_private=True) as proxy:
        assert (await ask(proxy, head)).startswith(b"HTTP/1.1 400")


async def test_nothing_passes_before_and_after_the_page_and_beyond_its_size(site: Site) -> None:
    full: list[bool] = []
    async with page_proxy(allow_private=True, max_bytes=300, on_full=lambda: full.append(True)) as proxy:
        site.answers["*"] = html("x" * 1000)
        answer = await ask(proxy, f"GET {site.url('/')} HTTP/1.1\nHost: x")
        assert b"xxx" not in answer
        assert full == [True]
        assert await ask(proxy, f"GET {site.url('/')} HTTP/1.1\nHost: x") == b""
        assert len(site.hits) == 1


async def test_a_body_is_sent_as_long_as_it_says(site: Site) -> None:
    bodies: list[bytes] = []
    site.answers["*"] = lambda request: (bodies.append(request.rfile.read(5)), PAGE)[1]
    async with page_proxy(allow_private=True) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"POST {site.url('/')} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET".encode())
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 200")
        writer.close()
        assert bodies == [b"hello"]


class CrawlProxy:
    """An HTTP and SOCKS 5 proxy that notes what it was asked, and answers everything itself."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.asked: list[bytes] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        if first == b"\x05":
            await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\x05\x02")
            user = await reader.readexactly((await reader.readexactly(2))[1])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\x01" + (b"\x00" if (user, password) == (b"u", b"p") else b"\x01"))
            kind = (await reader.readexactly(4))[3]
            self.asked.append(await reader.readexactly((await reader.readexactly(1))[0] + 2 if kind == 3 else 6))
            writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
            first = b""
        head = first + await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfrom")
        writer.close()


async def test_everything_goes_through_the_proxy_of_the_crawl() -> None:
    async with CrawlProxy() as crawl:
        url = f"http://u:p@127.0.0.1:{crawl.port}"
        async with page_proxy(upstream=url) as proxy:
            assert (await ask(proxy, "GET http://a.example/x HTTP/1.1\nHost: a.example")).endswith(b"from")
            tunnelled = await ask(proxy, "CONNECT a.example:443 HTTP/1.1", "hello")
            assert tunnelled.endswith(b"from")
            assert (proxy.addresses, proxy.failures) == ({}, {})
            # Where the guard can tell, it does.
            for inside in (
                "http://127.0.0.1/",
                "http://router.lan/",
                "http://a.example:6379/",
                "http://169.254.169.254/",
            ):
                assert await ask(proxy, f"GET {inside} HTTP/1.1\nHost: x") == b""
            assert {error.error_class for error in proxy.failures.values()} == {"guard"}
        first, connect, _ = crawl.heads
        assert first.startswith(b"GET http://a.example/x HTTP/1.1\r\nProxy-Authorization: Basic dTpw\r\n")
        assert (
            connect
            == b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
        )


@pytest.mark.parametrize(
    ("scheme", "asked"), [("socks5h", b"a.example\x00\x50"), ("socks5", b"\x08\x08\x08\x08\x00\x50")]
)
async def test_names_are_resolved_where_the_scheme_says(scheme: str, asked: bytes) -> None:
    async with (
        CrawlProxy() as crawl,
        page_proxy(upstream=f"{scheme}://u:p@127.0.0.1:{crawl.port}", lookups=Names()) as proxy,
    ):
        assert (await ask(proxy, "GET http://a.example/x HTTP/1.1\nHost: a.example")).endswith(b"from")
        assert crawl.asked == [asked]
        assert crawl.heads[0].startswith(b"GET /x HTTP/1.1\r\n")


async def test_a_proxy_that_fails_is_the_proxys_fault_and_nothing_goes_directly(site: Site) -> None:
    async with page_proxy(upstream="http://127.0.0.1:9", trusted=("127.0.0.1", site.port)) as proxy:
        assert await ask(proxy, f"GET {site.url('/')} HTTP/1.1\nHost: x") == b""
        assert (await ask(proxy, f"CONNECT 127.0.0.1:{site.port} HTTP/1.1")).startswith(b"HTTP/1.1 502")
        assert [error.error_class for error in proxy.failures.values()] == ["proxy"]
        assert site.hits == []
    async with CrawlProxy() as crawl, page_proxy(upstream=f"socks5h://u:wrong@127.0.0.1:{crawl.port}") as proxy:
        assert await ask(proxy, "GET http://a.example/ HTTP/1.1\nHost: x") == b""
        (error,) = proxy.failures.values()
        assert error.error_class == "proxy"
        assert "wrong" not in str(error)


async def test_an_idle_connection_makes_room_for_one_that_waits(site: Site) -> None:
    async with page_proxy(allow_private=True, per_host=1) as proxy:
        idle = await asyncio.open_connection("127.0.0.1", proxy.port)
        idle[1].write(f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n\r\n".encode())
        assert b"200" in await idle[0].readuntil(b"\r\n\r\n")
        assert (await ask(proxy, f"GET {site.url('/')} HTTP/1.1\nHost: x")).endswith(PAGE[2])
        assert await asyncio.wait_for(idle[0].read(), 10) == b""
        idle[1].close()
