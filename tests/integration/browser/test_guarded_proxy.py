"""The proxy of a page, by itself: what passes, what is refused, and what goes through the proxy of the crawl."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from rig.browser_sites import html
from rig.proxies import HttpProxy, SocksProxy
from rig.web import Site
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
            found = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            writer.write(more.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        found += await asyncio.wait_for(reader.read(), 60)
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
        assert site.paths() == ["/a?b"]
        assert (site.seen[0].headers.get("proxy-connection"), site.seen[0].headers["connection"]) == (None, "close")
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
        assert other.seen == []
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
        assert len(site.seen) == 1


async def test_a_body_is_sent_as_long_as_it_says(site: Site) -> None:
    async with page_proxy(allow_private=True) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"POST {site.url('/')} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET".encode())
        assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 200")
        writer.close()
        assert [(seen.method, seen.body) for seen in site.seen] == [("POST", b"hello")]


@pytest.fixture
def outside() -> Iterator[Site]:
    """The server behind the proxy of the crawl, wherever a page wants to go."""
    site = Site({"*": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfrom"}, keep=False)
    yield site
    site.close()


async def test_everything_goes_through_the_proxy_of_the_crawl(outside: Site) -> None:
    with HttpProxy(outside.port, user="u:p") as crawl:
        url = f"http://u:p@127.0.0.1:{crawl.port}"
        async with page_proxy(upstream=url) as proxy:
            assert (await ask(proxy, "GET http://a.example/x HTTP/1.1\nHost: a.example")).endswith(b"from")
            tunnelled = await ask(proxy, "CONNECT a.example:443 HTTP/1.1", "GET /y HTTP/1.1")
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
        first, connect = crawl.heads
        assert first.startswith(b"GET http://a.example/x HTTP/1.1\r\nProxy-Authorization: Basic dTpw\r\n")
        assert (
            connect
            == b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
        )


@pytest.mark.parametrize(("scheme", "asked"), [("socks5h", "a.example:80"), ("socks5", "8.8.8.8:80")])
async def test_names_are_resolved_where_the_scheme_says(outside: Site, scheme: str, asked: str) -> None:
    with SocksProxy(outside.port, user="u:p") as crawl:
        async with page_proxy(upstream=f"{scheme}://u:p@{crawl.address}", lookups=Names()) as proxy:
            assert (await ask(proxy, "GET http://a.example/x HTTP/1.1\nHost: a.example")).endswith(b"from")
            assert crawl.asked == [asked]
            assert outside.seen[0].line == "GET /x HTTP/1.1"


async def test_a_proxy_that_fails_is_the_proxys_fault_and_nothing_goes_directly(site: Site) -> None:
    async with page_proxy(upstream="http://127.0.0.1:9", trusted=("127.0.0.1", site.port)) as proxy:
        assert await ask(proxy, f"GET {site.url('/')} HTTP/1.1\nHost: x") == b""
        assert (await ask(proxy, f"CONNECT 127.0.0.1:{site.port} HTTP/1.1")).startswith(b"HTTP/1.1 502")
        assert [error.error_class for error in proxy.failures.values()] == ["proxy"]
        assert site.seen == []
    with SocksProxy(site.port, user="u:p") as crawl:
        async with page_proxy(upstream=f"socks5h://u:wrong@{crawl.address}") as proxy:
            assert await ask(proxy, "GET http://a.example/ HTTP/1.1\nHost: x") == b""
            (error,) = proxy.failures.values()
            assert error.error_class == "proxy"
            assert "wrong" not in str(error)
            assert site.seen == []


async def test_an_idle_connection_makes_room_for_one_that_waits(site: Site) -> None:
    async with page_proxy(allow_private=True, per_host=1) as proxy:
        idle = await asyncio.open_connection("127.0.0.1", proxy.port)
        idle[1].write(f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n\r\n".encode())
        assert b"200" in await idle[0].readuntil(b"\r\n\r\n")
        assert (await ask(proxy, f"GET {site.url('/')} HTTP/1.1\nHost: x")).endswith(PAGE[2])
        assert await asyncio.wait_for(idle[0].read(), 60) == b""
        idle[1].close()
