"""``on_headers``: status and headers are seen before the body, which need not be read."""

from __future__ import annotations

from typing import Any

from rig.web_faults import endless
from skitter.model.page import Page
from skitter.settings import Fetch

LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\nX-Kind: film\r\n\r\nthe first bytes"


class Asked:
    """Notes what it is asked, and answers the same each time."""

    def __init__(self, *, wanted: bool) -> None:
        self.pages: list[Page] = []
        self._wanted = wanted

    def __call__(self, page: Page) -> bool:
        self.pages.append(page)
        return self._wanted


async def test_a_body_that_is_not_wanted_is_not_read(serve: Any, client: Any) -> None:
    site = serve(endless(LARGE, bytes(65_536)))
    asked = Asked(wanted=False)
    page = await client.get(site.url("/a"), on_headers=asked)
    assert (page.status, page.body, page.header("x-kind")) == (200, b"", "film")
    (seen,) = asked.pages
    assert (seen.url, seen.status, seen.body, seen.header("x-kind")) == (site.url("/a"), 200, b"", "film")
    await site.until(lambda: site.open == 0)


async def test_a_body_that_is_wanted_comes_whole_and_the_handle_is_as_before(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"hello" * 5000, "X-Kind: page"))
    asked = Asked(wanted=True)
    assert (await client.get(site.url(), on_headers=asked)).body == b"hello" * 5000
    assert (await client.get(site.url())).body == b"hello" * 5000
    assert len(asked.pages) == 1
    assert site.connections == 1


async def test_only_the_headers_of_the_answer_are_shown(serve: Any, client: Any) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n"
    site = serve(early + b"2\r\nok\r\n0\r\nX-Trailer: yes\r\n\r\n")
    asked = Asked(wanted=True)
    page = await client.get(site.url(), on_headers=asked)
    assert (page.status, page.body) == (404, b"ok")
    (seen,) = asked.pages
    assert (seen.status, seen.headers) == (404, [("transfer-encoding", "chunked")])


async def test_over_tls_too(serve: Any, make_fetcher: Any, client: Any) -> None:
    site = serve(LARGE, tls=True)
    fetcher = make_fetcher(Fetch(verify_tls=False))
    client.fetcher = fetcher
    asked = Asked(wanted=False)
    assert (await client.get(site.url(host="localhost"), on_headers=asked)).body == b""
    assert len(asked.pages) == 1
