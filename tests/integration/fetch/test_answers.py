"""A page is what the server sent, and the server got what the request says."""

from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from typing import Any

import pytest
import uvloop

from rig.web import Seen
from rig.web_connection import Connection
from skitter.agent import DEFAULT_USER_AGENT
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.fetch.poller import LoopPoller, SystemPoller
from skitter.settings import Fetch

TEXT = "grüße\n".encode() * 20
TEXT_BROTLI = bytes.fromhex("1b9f00f88d946eeaad1c3e2b6b05b94f5ea15b38405a2b00")


async def test_a_page_carries_the_whole_answer(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"hello", "Content-Type: text/html", "X-Name:  caf\xe9 ", "X-Name: two"))
    page = await client.get(site.url("/a?b=c"))
    assert page.url == site.url("/a?b=c")
    assert page.status == 200
    assert page.headers == [
        ("content-length", "5"),
        ("content-type", "text/html"),
        ("x-name", "café"),
        ("x-name", "two"),
    ]
    assert page.header("content-type") == "text/html"
    assert page.body == b"hello"
    assert page.address == "127.0.0.1"
    assert page.http_version == "1.1"
    assert page.wire_bytes == 5
    assert page.started_at > 1.6e9
    assert page.seconds > 0


async def test_the_default_request_is_small_and_honest(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    await client.get(site.url("/x"))
    (seen,) = site.seen
    assert seen.line == "GET /x HTTP/1.1"
    assert set(seen.headers) == {"host", "user-agent", "accept", "accept-language", "accept-encoding"}
    assert seen.headers["user-agent"] == DEFAULT_USER_AGENT
    assert seen.headers["accept-encoding"] == "gzip, deflate"


async def test_the_url_is_sent_as_it_is(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    paths = ["/a/../b", "/./x", "/%7Euser/%2F?q=%20a&&=", "//double", "/;p?a|b", "/?"]
    for path in paths:
        await client.get(site.url(path))
    assert [seen.path for seen in site.seen] == paths


@pytest.mark.parametrize(
    ("encoding", "encoded"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("br", TEXT_BROTLI),
        ("gzip, br", None),
        ("identity", TEXT),
    ],
)
async def test_encodings_are_undone(encoding: str, encoded: bytes | None, serve: Any, client: Any) -> None:
    if encoded is None:
        compressor = zlib.compressobj(0, wbits=31)
        encoding, encoded = "br, gzip", compressor.compress(TEXT_BROTLI) + compressor.flush()
    site = serve(serve.answer(encoded, f"Content-Encoding: {encoding}"))
    page = await client.get(site.url())
    assert page.body == TEXT
    assert page.wire_bytes == len(encoded)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int, serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"", "Location: /elsewhere", status=f"{status} Moved"))
    page = await client.get(site.url())
    assert (page.status, page.header("location")) == (status, "/elsewhere")
    assert len(site.seen) == 1


@pytest.mark.parametrize("status", [400, 404, 418, 429, 500, 503, 599, 999])
async def test_an_error_status_is_an_answer(status: int, serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"no", status=f"{status} No"))
    page = await client.get(site.url())
    assert (page.status, page.body) == (status, b"no")


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_answers_without_a_body_do_not_wait_for_one(status: str, serve: Any, client: Any) -> None:
    site = serve(f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode())
    for _ in range(2):
        page = await client.get(site.url())
        assert (page.status, page.body) == (int(status[:3]), b"")
    assert site.connections == 1


async def test_head_has_headers_and_no_body(serve: Any, make_client: Any) -> None:
    site = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
    client = make_client(Fetch(max_body_bytes=100))
    page = await client.get(site.url(), method="HEAD")
    assert (page.status, page.body, page.header("content-length")) == (200, b"", "99999")
    assert site.seen[0].line == "HEAD / HTTP/1.1"


async def test_http_1_0_ends_with_its_connection(serve: Any, client: Any) -> None:
    site = serve(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold", keep=False)
    page = await client.get(site.url())
    assert (page.body, page.http_version) == (b"old", "1.0")


async def test_informational_answers_and_trailers_are_dropped(serve: Any, client: Any) -> None:
    site = serve(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
        b"HTTP/1.1 102 Processing\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Final: yes\r\n\r\n"
        b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nX-Trailer: no\r\nHTTP/1.1: odd\r\n\r\n"
    )
    page = await client.get(site.url())
    assert page.status == 200
    assert page.headers == [("transfer-encoding", "chunked"), ("x-final", "yes")]
    assert page.body == b"abcde"


async def test_bare_line_feeds_and_an_empty_header_block_are_read(serve: Any, client: Any) -> None:
    site = serve(b"HTTP/1.1 200 OK\nX-A: 1\nContent-Length: 2\n\nok")
    page = await client.get(site.url())
    assert (page.header("x-a"), page.body) == ("1", b"ok")
    bare = serve(b"HTTP/1.1 200 OK\r\n\r\nrest", keep=False)
    page = await client.get(bare.url())
    assert (page.headers, page.body) == ([], b"rest")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS", "PURGE"])
async def test_methods_and_bodies_are_sent(method: str, serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    body = b"\x00raw\r\n" * 500_000  # beyond the size where libcurl would ask for "100 Continue"
    await client.get(site.url(), method=method, body=body, headers={"Content-Type": "a/b"})
    (seen,) = site.seen
    assert seen.line == f"{method} / HTTP/1.1"
    assert seen.body == body
    assert seen.headers["content-type"] == "a/b"
    assert "expect" not in seen.headers


@pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("PUT", "0"), ("DELETE", None), ("GET", None)])
async def test_requests_without_a_body(method: str, length: str | None, serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    await client.get(site.url(), method=method)
    assert site.seen[0].headers.get("content-length") == length
    assert "content-type" not in site.seen[0].headers


async def test_own_headers_replace_the_defaults_and_do_not_stay(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    own = {"accept": "a/b", "USER-AGENT": "other/1", "X-Empty": "", "X-Text": "grüße"}
    await client.get(site.url(), headers=own, cookies={"a": "1", "b": "2"}, method="POST", body=b"x")
    await client.get(site.url())
    first, second = (seen.headers for seen in site.seen)
    assert (first["accept"], first["user-agent"], first["x-empty"]) == ("a/b", "other/1", "")
    assert first["x-text"].encode("latin-1").decode() == "grüße"
    assert first["cookie"] == "a=1; b=2"
    assert "accept-language" in first
    assert site.seen[0].head.lower().count(b"\naccept:") == 1
    assert set(second) == {"host", "user-agent", "accept", "accept-language", "accept-encoding"}
    assert site.seen[1].line.startswith("GET")


async def test_truncate_takes_the_beginning_for_the_whole(serve: Any, make_client: Any) -> None:
    site = serve(serve.answer(b"0123456789" * 10_000, "Content-Type: text/plain"))
    client = make_client(Fetch(max_body_bytes=50_000))
    page = await client.get(site.url(), truncate_bytes=12)
    assert (page.status, page.body, page.header("content-type")) == (200, b"012345678901", "text/plain")
    assert await client.kind(site.url()) == "too_large"


async def test_connections_are_kept_and_reused(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    for _ in range(20):
        await client.get(site.url())
    assert site.connections == 1


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced(serve: Any, client: Any) -> None:
    site = serve(serve.answer(), keep=False)
    for _ in range(3):
        assert (await client.get(site.url())).status == 200
        await site.until(lambda: site.open == 0)
    assert site.connections == 3


@pytest.mark.parametrize("poller", [SystemPoller, LoopPoller])
async def test_64_requests_run_at_the_same_time(poller: Any, serve: Any, make_client: Any) -> None:
    together = threading.Barrier(64)

    def answer(seen: Seen, _: Connection) -> bytes:
        together.wait()
        return serve.answer(seen.path.encode())

    site = serve(answer)
    client = make_client(poller=poller)
    for _ in range(2):
        pages = await asyncio.gather(*(client.get(site.url(f"/{number}")) for number in range(64)))
        assert [page.body for page in pages] == [f"/{number}".encode() for number in range(64)]
    assert site.connections == 64


def test_it_runs_on_uvloop(serve: Any) -> None:
    async def main() -> None:
        fetcher = CurlFetcher(Fetch())
        requests = [FetchRequest(url=site.url(), trusted=True) for _ in range(20)]
        pages = await asyncio.gather(*map(fetcher.fetch, requests))
        assert {page.body for page in pages} == {b"uv"}
        await fetcher.close()

    site = serve(serve.answer(b"uv"), keep=False)
    uvloop.run(main())


async def test_a_server_that_verifies_is_trusted(serve: Any, make_client: Any, certificate: str) -> None:
    site = serve(serve.answer(b"secret"), tls=True)
    client = make_client(ca_file=certificate)
    assert (await client.get(site.url())).body == b"secret"
    assert (await client.get(site.url(host="localhost"))).body == b"secret"


async def test_verification_can_be_turned_off(serve: Any, make_client: Any) -> None:
    site = serve(serve.answer(b"secret"), tls=True)
    client = make_client(Fetch(verify_tls=False))
    assert (await client.get(site.url(host="a.localhost"))).body == b"secret"
