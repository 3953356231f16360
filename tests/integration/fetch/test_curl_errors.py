"""A fetch that brings no page says why, in one word and one line, and never hangs."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rig.web_connection import Server
from rig.web_faults import endless, in_pieces, reset, silent, trickle
from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.settings import Fetch

SMALL = Fetch(max_body_bytes=100_000, timeout_seconds=20)
# 64 MiB of zeros in 106 bytes
BROTLI_BOMB = bytes.fromhex(
    "cbffff3ff82700e2b14020f7fe8fffff7ff04f00c4611180eefd1fffffffe09f0088c30200ddfb3ffeffffc13f0110870500baf77ffcffff"
    "837f02200e0b0074effff8ffff07ff04401c1600e8defff1ffff0ffe0980382c00d0bdffe3ffff1ffc1300715800a07bff37"
)


# -- too_large


async def test_an_announced_size_beyond_the_cap_is_not_even_read(serve: Any, make_client: Any) -> None:
    site = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n")
    assert await make_client(SMALL).kind(site.url()) == "too_large"


async def test_an_unannounced_size_is_cut_off(serve: Any, make_client: Any) -> None:
    site = serve(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 50_000))
    assert await make_client(SMALL).kind(site.url()) == "too_large"


async def test_a_body_of_exactly_the_cap_is_a_page(serve: Any, make_client: Any) -> None:
    site = serve(serve.answer(b"x" * SMALL.max_body_bytes))
    page = await make_client(SMALL).get(site.url())
    assert len(page.body) == SMALL.max_body_bytes


@pytest.mark.parametrize(
    ("encoding", "make"),
    [
        ("gzip", lambda: gzip.compress(bytes(2**26), mtime=0)),
        ("deflate", lambda: zlib.compress(bytes(2**26))),
        ("br", lambda: BROTLI_BOMB),
        ("gzip, gzip", lambda: gzip.compress(gzip.compress(bytes(2**26), mtime=0), mtime=0)),
    ],
    ids=["gzip", "deflate", "brotli", "gzip twice"],
)
async def test_a_decompression_bomb_is_too_large(
    encoding: str, make: Callable[[], bytes], serve: Any, make_client: Any
) -> None:
    site = serve(serve.answer(make(), f"Content-Encoding: {encoding}"))
    client = make_client(SMALL)
    assert await client.kind(site.url()) == "too_large"
    assert client.fetcher._idle[0]._body.whole() == b""


@pytest.mark.parametrize("line", [b"X-Header: some value\r\n", b"X", b"X-" + b"y" * 5_000 + b": z\r\n"])
async def test_endless_headers_are_too_large(line: bytes, serve: Any, client: Any) -> None:
    site = serve(endless(b"HTTP/1.1 200 OK\r\n", line * 1_000))
    assert await client.kind(site.url()) == "too_large"


async def test_endless_informational_answers_end(serve: Any, client: Any) -> None:
    site = serve(endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" * 1_000))
    assert await client.kind(site.url()) in {"too_large", "protocol"}


# -- protocol


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabcde\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdefgh\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 8\r\n\r\nnot brot",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: rot13\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n\0\0\0\4\0\0\0\0\0",
        b"HTTP/1.1 1000 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/3 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"<html>no header at all</html>",
        b"\x00\x01\x02\x03",
        b"",
    ],
)
async def test_an_answer_that_is_not_http_is_a_protocol_error(response: bytes, serve: Any, client: Any) -> None:
    site = serve(response, keep=False)
    assert await client.kind(site.url()) == "protocol"
    good = serve(serve.answer(b"fine"))
    assert (await client.get(good.url())).body == b"fine"


async def test_a_truncated_gzip_body_is_not_taken_for_whole(serve: Any, client: Any) -> None:
    encoded = gzip.compress(bytes(range(256)) * 40)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(encoded)}\r\n\r\n".encode()
    site = serve(head + encoded[:-20], keep=False)
    assert await client.kind(site.url()) == "truncated"


async def test_a_reset_connection_is_a_protocol_error(serve: Any, client: Any) -> None:
    site = serve(reset)
    assert await client.kind(site.url()) == "protocol"


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"X-A": "1\r\nX-Injected: 2"}},
        {"headers": {"X-A": "1\nX-Injected: 2"}},
        {"headers": {"X-A\r\nX-Injected": "2"}},
        {"headers": {"X-A: 1": "2"}},
        {"headers": {"": "2"}},
        {"headers": {"X-A": "a\x00b"}},
        {"cookies": {"a": "1\r\nX-Injected: 2"}},
        {"cookies": {"a\r\nX-Injected": "1"}},
        {"cookies": {"a": "1; b=2"}},
        {"method": "GET / HTTP/1.1\r\nX-Injected: 2\r\n\r\nGET"},
        {"method": "GE T"},
        {"method": ""},
    ],
)
async def test_a_request_cannot_smuggle_lines(fields: dict[str, Any], serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    assert await client.kind(site.url(), **fields) == "protocol"
    await client.get(site.url())
    assert len(site.seen) == 1
    assert b"Injected" not in site.seen[0].head


@pytest.mark.parametrize("path", ["/\r\nX-Injected: 1", "/ HTTP/1.1\r\nX-Injected: 1", "/\u00fc", "/\x00"])
async def test_an_unparsed_url_is_refused(path: str, serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    assert await client.kind(site.url(path)) == "protocol"
    assert site.seen == []


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "gopher://127.0.0.1:70/", "dict://127.0.0.1/"]
)
async def test_only_http_and_https_are_spoken(url: str, client: Any) -> None:
    assert await client.kind(url) == "protocol"


# -- connect, dns, tls


async def test_a_closed_port_is_a_connect_error(client: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert await client.kind(f"http://127.0.0.1:{unused.getsockname()[1]}/") == "connect"


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: the next one gets no answer at all."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(4):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
            waiting.append(caller)
        yield listener.getsockname()[1]
        for caller in waiting:
            caller.close()


async def test_a_connect_that_takes_too_long_is_a_connect_error(full_port: int, client: Any) -> None:
    url = f"http://127.0.0.1:{full_port}/"
    assert await client.kind(url, connect_timeout_seconds=0.2) == "connect"
    assert await client.kind(url, timeout_seconds=0.2) == "connect"


async def test_a_name_that_does_not_exist_is_a_dns_error(client: Any) -> None:
    # Where there is no resolver at all, waiting for it ends in the same class.
    assert await client.kind("http://nonexistent.invalid/", connect_timeout_seconds=5) == "dns"


async def test_a_certificate_that_does_not_verify_is_a_tls_error(serve: Any, client: Any) -> None:
    site = serve(serve.answer(), tls=True)
    assert await client.kind(site.url()) == "tls"
    assert site.seen == []


async def test_a_certificate_for_another_name_is_a_tls_error(serve: Any, make_client: Any, certificate: str) -> None:
    site = serve(serve.answer(), tls=True)
    assert await make_client(ca_file=certificate).kind(site.url(host="a.localhost")) == "tls"
    assert site.seen == []


async def test_a_plain_server_on_a_tls_port_is_a_tls_error(client: Any) -> None:
    with Server(lambda connection: connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), scheme="https") as server:
        assert await client.kind(server.url()) == "tls"


async def test_a_handshake_that_never_ends_is_a_tls_error(serve: Any, client: Any) -> None:
    silent = serve(serve.answer())  # waits for the end of a request that never comes
    url = silent.url().replace("http:", "https:")
    assert await client.kind(url, connect_timeout_seconds=1) == "tls"


# -- timeout


async def test_an_answer_that_does_not_come_is_a_timeout(serve: Any, client: Any) -> None:
    site = serve(silent)
    assert await client.kind(site.url(), timeout_seconds=1) == "timeout"
    await site.until(lambda: site.open == 0 or bool(site.seen))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["headers", "body"])
async def test_a_trickle_does_not_outlast_the_total_timeout(head: bytes, serve: Any, client: Any) -> None:
    site = serve(trickle(head, b"x", 0.02))
    assert await client.kind(site.url(), timeout_seconds=1) == "timeout"


async def test_a_body_below_the_minimum_rate_is_a_timeout(serve: Any, make_client: Any) -> None:
    site = serve(trickle(b"HTTP/1.1 200 OK\r\n\r\n", b"x", 0.02))
    client = make_client(Fetch(min_bytes_per_second=1_000, timeout_seconds=600), rate_window_seconds=0.4)
    async with asyncio.timeout(60):
        assert await client.kind(site.url()) == "timeout"


async def test_a_slow_body_above_the_minimum_rate_is_read(serve: Any, make_client: Any) -> None:
    site = serve(in_pieces(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", [b"x"] * 20, 0.06))
    # A window in which nothing comes would be one in which this process stands still.
    client = make_client(Fetch(min_bytes_per_second=0.5), rate_window_seconds=1.0)
    assert len((await client.get(site.url())).body) == 20


async def test_the_minimum_rate_does_not_count_the_wait_for_the_answer(serve: Any, make_client: Any) -> None:
    site = serve(in_pieces(b"", [b"", serve.answer(b"thought")], 0.6))
    client = make_client(Fetch(min_bytes_per_second=10_000), rate_window_seconds=0.1)
    assert (await client.get(site.url())).body == b"thought"


async def test_a_message_names_the_url(serve: Any, fetcher: CurlFetcher) -> None:
    site = serve(b"", keep=False)
    with pytest.raises(FetchError, match=r": http://127\.0\.0\.1:\d+/x$"):
        await fetcher.fetch(FetchRequest(url=site.url("/x"), trusted=True))
