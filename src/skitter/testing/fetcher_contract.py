"""Test suite for the fetcher contract. Needs the extra ``testing``.

A test module subclasses the suite and creates its fetcher::

    from skitter.testing import FetcherContract

    class TestMyFetcher(FetcherContract):
        def make_fetcher(self, settings):
            return my_fetcher(settings)

The servers are small and listen on loopback. Each test is named after a promise of ``skitter.fetch.contract``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

from skitter.errors import FetchError, LateError, SkitterError
from skitter.fetch.contract import Fetcher, FetchRequest, slow_transfers_of
from skitter.model.page import Page
from skitter.settings import Settings

WAIT_SECONDS = 60.0
"""Time limit of waits. A fetcher that hangs fails the test after this time."""

Answer = Callable[["ContractSite", str], Coroutine[Any, Any, bytes]]
"""Function that returns the bytes to answer a request with; empty bytes close the connection without an answer."""


class ContractSite:
    """Server on loopback, with the requests that it has received."""

    def __init__(self, answer: Answer) -> None:
        self.heads: list[str] = []
        """Request line and headers of each request, as received."""
        self.bodies: list[bytes] = []
        self.connections = 0
        self.open = 0
        """Number of open connections."""
        self._answer = answer
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def url(self, path: str = "/", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def header(self, name: str, request: int = -1) -> str | None:
        """Return a header of a request by its lower-case name, or None if it was not sent."""
        values = [value.strip() for key, _, value in self._lines(request) if key.lower() == name]
        assert len(values) <= 1, f"sent more than once: {name}"
        return values[0] if values else None

    def lines(self) -> list[str]:
        """Return the request lines without the protocol version."""
        return [head.partition("\r\n")[0].rpartition(" ")[0] for head in self.heads]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a condition about this site is true."""
        async with self._changed, asyncio.timeout(WAIT_SECONDS):
            await self._changed.wait_for(is_so)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _lines(self, request: int) -> list[tuple[str, str, str]]:
        return [line.partition(":") for line in self.heads[request].split("\r\n")[1:] if line]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self.open += 1
        try:
            await self._speak(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the fetcher may disconnect at any time
        finally:
            self.open -= 1
            writer.close()
            await self._tell()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(int(self.header("content-length") or 0)))
        await self._tell()
        answering = asyncio.create_task(self._answer(self, head.split(" ")[1]))
        leaving = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                writer.write(answering.result())
                await writer.drain()
        finally:
            answering.cancel()
            leaving.cancel()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class ContractSites:
    """Factory of servers and fetchers for one test."""

    def __init__(self, stack: contextlib.AsyncExitStack, make: Callable[[Settings], Fetcher]) -> None:
        self._stack = stack
        self._make = make

    async def site(self, answer: Answer | bytes) -> ContractSite:
        """Start a server that answers with a function or with fixed bytes.

        It closes each connection after one answer.
        """

        async def always(_site: ContractSite, _path: str) -> bytes:
            assert isinstance(answer, bytes)
            return answer

        site = ContractSite(always if isinstance(answer, bytes) else answer)
        await site.start()
        self._stack.push_async_callback(site.stop)
        return site

    def fetcher(self, **settings: object) -> Fetcher:
        """Create a fetcher with these settings. It is closed at the end of the test."""
        fetcher = self._make(Settings.from_layers([("the test", settings)]))
        self._stack.push_async_callback(fetcher.close)
        return fetcher


def answer(body: bytes = b"ok", *headers: str, status: str = "200 OK") -> bytes:
    """Return a complete HTTP/1.1 response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


async def never(_site: ContractSite, _path: str) -> bytes:
    """Answer of a server that accepts the connection and never responds."""
    await asyncio.Event().wait()
    return b""


async def get(fetcher: Fetcher, url: str, **fields: Any) -> Page:
    """Fetch a page as a worker fetches one from the host of a seed."""
    async with asyncio.timeout(WAIT_SECONDS):
        return await fetcher.fetch(FetchRequest(url=url, **{"trusted": True, **fields}))


async def kind(fetcher: Fetcher, url: str, **fields: Any) -> str:
    """Return the class of the FetchError that a fetch raises."""
    with pytest.raises(FetchError) as caught:
        await get(fetcher, url, **fields)
    return caught.value.error_class


@pytest.mark.asyncio
class FetcherContract:
    """Test suite for the fetcher contract. Subclass it and implement ``make_fetcher``."""

    def make_fetcher(self, settings: Settings) -> Fetcher:
        """Return a fetcher with these settings, as the factory of its entry point does."""
        raise NotImplementedError

    @pytest_asyncio.fixture
    async def sites(self) -> AsyncIterator[ContractSites]:
        async with contextlib.AsyncExitStack() as stack:
            yield ContractSites(stack, self.make_fetcher)

    # ---- the answer

    async def test_a_page_is_what_the_server_sent(self, sites: ContractSites) -> None:
        site = await sites.site(answer(b"hello", "Content-Type: text/html", "X-Name: one", "X-Name: two"))
        page = await get(sites.fetcher(), site.url("/a?b=c"))
        assert (page.url, page.status, page.body) == (site.url("/a?b=c"), 200, b"hello")
        assert page.header("content-type") == "text/html"
        assert [value for name, value in page.headers if name == "x-name"] == ["one", "two"]
        assert page.seconds > 0
        assert abs(page.started_at - time.time()) < WAIT_SECONDS

    @pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
    async def test_an_error_status_is_an_answer(self, sites: ContractSites, status: int) -> None:
        site = await sites.site(answer(b"no", "Retry-After: 7", status=f"{status} No"))
        page = await get(sites.fetcher(), site.url())
        assert (page.status, page.body, page.header("retry-after")) == (status, b"no", "7")

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_is_not_followed(self, sites: ContractSites, status: int) -> None:
        site = await sites.site(answer(b"", "Location: /elsewhere", status=f"{status} Moved"))
        page = await get(sites.fetcher(), site.url())
        assert (page.status, page.header("location")) == (status, "/elsewhere")
        assert site.lines() == ["GET /"]

    async def test_a_packed_body_is_unpacked(self, sites: ContractSites) -> None:
        site = await sites.site(answer(gzip.compress(b"text" * 100), "Content-Encoding: gzip"))
        assert (await get(sites.fetcher(), site.url())).body == b"text" * 100

    async def test_head_has_no_body(self, sites: ContractSites) -> None:
        site = await sites.site(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n")
        page = await get(sites.fetcher(), site.url(), method="HEAD")
        assert (page.status, page.body, site.lines()) == (200, b"", ["HEAD /"])

    async def test_truncate_takes_the_beginning_for_the_whole(self, sites: ContractSites) -> None:
        site = await sites.site(answer(b"0123456789" * 10_000))
        fetcher = sites.fetcher(max_body_bytes=50_000)
        assert (await get(fetcher, site.url(), truncate_bytes=12)).body == b"012345678901"

    # ---- the request

    async def test_it_says_who_it_is(self, sites: ContractSites) -> None:
        site = await sites.site(answer())
        await get(sites.fetcher(user_agent="suite/1"), site.url())
        assert site.header("user-agent") == "suite/1"

    async def test_headers_of_the_settings_are_sent_or_refused(self, sites: ContractSites) -> None:
        site = await sites.site(answer())
        try:
            fetcher = sites.fetcher(headers=["X-Everywhere: 1", "Accept: text/plain"])
        except SkitterError:
            return  # refused, so nothing is sent without them
        await get(fetcher, site.url())
        await get(fetcher, site.url(), headers={"ACCEPT": "text/html"})
        sent = [[site.header(name, request) for name in ("x-everywhere", "accept")] for request in (0, 1)]
        assert sent == [["1", "text/plain"], ["1", "text/html"]]

    async def test_the_url_is_sent_as_it_is(self, sites: ContractSites) -> None:
        site = await sites.site(answer())
        await get(sites.fetcher(), site.url("/%7Euser/%2F?q=%20a&b"))
        assert site.lines() == ["GET /%7Euser/%2F?q=%20a&b"]

    async def test_method_and_body_are_sent(self, sites: ContractSites) -> None:
        site = await sites.site(answer())
        headers = {"Content-Type": "a/b"}
        await get(sites.fetcher(), site.url(), method="PUT", body=b"\x00raw\r\n", headers=headers)
        assert (site.lines(), site.bodies) == (["PUT /"], [b"\x00raw\r\n"])
        assert site.header("content-type") == "a/b"

    async def test_own_headers_and_cookies_are_sent_once_and_not_kept(self, sites: ContractSites) -> None:
        site = await sites.site(answer())
        fetcher = sites.fetcher()
        await get(fetcher, site.url(), headers={"USER-AGENT": "other/1", "X-Own": "1"}, cookies={"a": "1"})
        assert [site.header(name) for name in ("user-agent", "x-own", "cookie")] == ["other/1", "1", "a=1"]
        await get(fetcher, site.url())
        assert site.header("user-agent") != "other/1"
        assert [site.header(name) for name in ("x-own", "cookie")] == [None, None]

    async def test_a_late_request_is_not_sent(self, sites: ContractSites) -> None:
        site = await sites.site(answer())
        fetcher = sites.fetcher()
        with pytest.raises(LateError):
            await get(fetcher, site.url(), start_by=time.monotonic() - 0.001)
        assert site.connections == 0
        assert (await get(fetcher, site.url(), start_by=time.monotonic() + WAIT_SECONDS)).status == 200

    async def test_requests_run_at_the_same_time(self, sites: ContractSites) -> None:
        together = asyncio.Barrier(16)

        async def when_all_are_there(_site: ContractSite, path: str) -> bytes:
            await together.wait()
            return answer(path.encode())

        site = await sites.site(when_all_are_there)
        fetcher = sites.fetcher()
        pages = await asyncio.gather(*(get(fetcher, site.url(f"/{number}")) for number in range(16)))
        assert [page.body for page in pages] == [f"/{number}".encode() for number in range(16)]

    # ---- errors

    async def test_a_refused_connection_is_class_connect(self, sites: ContractSites) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # nobody listens
            assert await kind(sites.fetcher(), f"http://127.0.0.1:{unused.getsockname()[1]}/") == "connect"

    async def test_a_name_that_does_not_exist_is_class_dns(self, sites: ContractSites) -> None:
        assert await kind(sites.fetcher(), "http://nonexistent.invalid/") == "dns"

    async def test_a_server_without_tls_is_class_tls(self, sites: ContractSites) -> None:
        async with contextlib.AsyncExitStack() as stack:
            server = await asyncio.start_server(_say_plain, "127.0.0.1", 0)
            stack.callback(server.close)
            port = server.sockets[0].getsockname()[1]
            assert await kind(sites.fetcher(), f"https://127.0.0.1:{port}/") == "tls"

    async def test_no_answer_in_time_is_class_timeout(self, sites: ContractSites) -> None:
        site = await sites.site(never)
        assert await kind(sites.fetcher(timeout_seconds=60), site.url(), timeout_seconds=1) == "timeout"
        assert await kind(sites.fetcher(timeout_seconds=1), site.url()) == "timeout"

    async def test_half_a_body_is_class_truncated(self, sites: ContractSites) -> None:
        site = await sites.site(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf")
        assert await kind(sites.fetcher(), site.url()) == "truncated"

    async def test_no_http_is_class_protocol(self, sites: ContractSites) -> None:
        site = await sites.site(b"")
        assert await kind(sites.fetcher(), site.url()) == "protocol"

    async def test_a_large_body_is_class_too_large(self, sites: ContractSites) -> None:
        site = await sites.site(answer(bytes(200_000)))
        assert await kind(sites.fetcher(max_body_bytes=100_000), site.url()) == "too_large"

    async def test_a_body_that_unpacks_to_too_much_is_class_too_large(self, sites: ContractSites) -> None:
        site = await sites.site(answer(gzip.compress(bytes(200_000)), "Content-Encoding: gzip"))
        assert await kind(sites.fetcher(max_body_bytes=100_000), site.url()) == "too_large"

    # ---- safety

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    async def test_a_found_link_does_not_lead_inside(self, sites: ContractSites, host: str) -> None:
        site = await sites.site(answer())
        assert await kind(sites.fetcher(), site.url(host=host), trusted=False) == "guard"
        assert site.connections == 0

    async def test_allow_private_lets_found_links_lead_inside(self, sites: ContractSites) -> None:
        site = await sites.site(answer())
        assert (await get(sites.fetcher(allow_private=True), site.url(), trusted=False)).status == 200

    async def test_a_proxy_is_used_or_refused(self, sites: ContractSites) -> None:
        proxy = await sites.site(answer(b"by the proxy"))
        try:
            fetcher = sites.fetcher(proxy=f"http://127.0.0.1:{proxy.port}")
        except SkitterError:
            return  # refused, so nothing is sent without it
        assert (await get(fetcher, "http://192.0.2.1/page")).body == b"by the proxy"
        assert proxy.lines() == ["GET http://192.0.2.1/page"]

    async def test_a_proxy_of_one_request_is_used_or_refused(self, sites: ContractSites) -> None:
        proxy, site = await sites.site(answer(b"by the proxy")), await sites.site(answer(b"directly"))
        request = FetchRequest(url=site.url(), trusted=True, proxy=f"http://127.0.0.1:{proxy.port}", proxy_trusted=True)
        try:
            told = (await sites.fetcher().fetch(request)).body
        except FetchError as error:
            told = error.error_class.encode()
        assert told in (b"by the proxy", b"proxy")
        assert site.connections == 0, "nothing is sent without it"

    # ---- the end

    async def test_cancelling_ends_the_transfer(self, sites: ContractSites) -> None:
        site = await sites.site(never)
        fetching = asyncio.create_task(get(sites.fetcher(), site.url()))
        await site.until(lambda: len(site.heads) == 1)
        fetching.cancel()
        await asyncio.wait([fetching])
        assert fetching.cancelled()
        await site.until(lambda: site.open == 0)

    async def test_closing_ends_what_is_in_flight(self, sites: ContractSites) -> None:
        site = await sites.site(never)
        fetcher = sites.fetcher()
        fetching = [asyncio.create_task(get(fetcher, site.url())) for _ in range(3)]
        await site.until(lambda: len(site.heads) == 3)
        await fetcher.close()
        ends = await asyncio.gather(*fetching, return_exceptions=True)
        assert [type(end) for end in ends] == [FetchError] * 3
        await site.until(lambda: site.open == 0)

    async def test_closing_may_be_done_twice_and_without_a_fetch(self, sites: ContractSites) -> None:
        fetcher = sites.fetcher()
        await fetcher.close()
        await fetcher.close()

    async def test_slow_transfers_are_at_most_those_that_may_be(self, sites: ContractSites) -> None:
        """A fetcher without ``slow_transfers`` counts no transfer as slow."""
        site = await sites.site(never)
        fetcher = sites.fetcher()
        slow_transfers = slow_transfers_of(fetcher)
        assert slow_transfers(100) == 0
        fetching = [asyncio.create_task(get(fetcher, site.url())) for _ in range(3)]
        await site.until(lambda: len(site.heads) == 3)
        assert slow_transfers(100) <= 3
        assert slow_transfers(0) == 0
        for task in fetching:
            task.cancel()
        await asyncio.wait(fetching)
        assert all(task.cancelled() for task in fetching)


async def _say_plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer())
    await writer.drain()
    writer.close()
