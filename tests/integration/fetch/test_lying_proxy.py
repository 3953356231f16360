"""Proxies that lie: no answer of theirs becomes a page of an https site, and each page ends in time.

What a proxy says to a request for a tunnel is its own word. To a request for a page of an http site it may say
anything, and nobody can tell: see docs/explanation/safety.md.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from rig.measured_fetches import measure
from rig.proxy_attacks import HTTP_PROXY_ATTACKS, SOCKS_ATTACKS
from rig.web_connection import CERTIFICATE, Connection, Server, tls_context
from skitter.fetch.contract import FetchRequest
from skitter.settings import Fetch

PASSWORD = "s3cret-w0rd"
TIMEOUT_SECONDS = 3.0
AS_A_SLOW_SERVER = {"tls", "connect", "timeout", "proxy"}
"""A proxy that waits for a dead server says as little as one that is dead itself."""
ENDINGS: dict[str, set[str]] = {
    "says nothing": AS_A_SLOW_SERVER,
    "headers that trickle": AS_A_SLOW_SERVER,
    "half an answer": AS_A_SLOW_SERVER,
    "a name longer than what follows": AS_A_SLOW_SERVER,
    "204": AS_A_SLOW_SERVER,
    # What comes through the tunnel is the server's as far as anybody can see.
    "junk instead of a handshake": {"tls"},
    "plain HTTP instead of a handshake": {"tls"},
    "a handshake with its own certificate": {"tls"},
    "a megabyte of headers": {"proxy", "too_large"},
    "endless headers": {"proxy", "too_large"},
}
"""How a page may end; others are ``proxy``."""


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, dict[str, Any]]]:
    """By scheme and attack: one process each, for it has one proxy."""
    with contextlib.ExitStack() as stack:
        servers = {
            f"{scheme}: {name}": (scheme, stack.enter_context(Server(attack)))
            for scheme, attacks in (("http", HTTP_PROXY_ATTACKS), ("socks5h", SOCKS_ATTACKS))
            for name, attack in attacks.items()
        }

        def fetch(scheme: str, server: Server) -> dict[str, Any]:
            return measure(
                urls=["https://example.com/"],
                proxy=f"{scheme}://me:{PASSWORD}@127.0.0.1:{server.port}",
                settings={"timeout_seconds": TIMEOUT_SECONDS},
                ca_file=str(CERTIFICATE),
                trusted=False,
            )

        with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
            running = {name: pool.submit(fetch, *server) for name, server in servers.items()}
            yield {name: future.result() for name, future in running.items()}


@pytest.mark.parametrize(
    "name", [*(f"http: {name}" for name in HTTP_PROXY_ATTACKS), *(f"socks5h: {name}" for name in SOCKS_ATTACKS)]
)
def test_no_lie_becomes_a_page(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    (ending,) = outcomes[name]["endings"]
    assert ending["kind"] in ENDINGS.get(name.partition(": ")[2], {"proxy"}), ending
    assert PASSWORD not in ending["message"]
    assert ending["body"] == ""
    assert ending["seconds"] < 60
    assert outcomes[name]["longest_turn_seconds"] < 1
    assert outcomes[name]["grown_bytes"] < 32 * 2**20


async def test_a_talkative_proxy_is_used_and_its_password_stays_with_it(make_fetcher: Any) -> None:
    """Its answer to CONNECT has 20 KB of headers, which libcurl reads byte by byte; that is no flood."""
    heads: list[bytes] = []

    def tunnel(connection: Connection) -> None:
        heads.append(connection.read_head())
        connection.send(b"HTTP/1.1 200 Go on\r\n" + b"X-Word: some words\r\n" * 1_000 + b"\r\n")
        connection.use_tls(tls_context())
        heads.append(connection.read_head())
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")

    with Server(tunnel) as proxy:
        settings = Fetch(verify_tls=False, timeout_seconds=60)
        fetcher = make_fetcher(settings, proxy=f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}")
        page = await fetcher.fetch(FetchRequest(url="https://example.com/"))
    assert page.body == b"fine"
    assert page.header("x-word") is None
    assert b"Proxy-Authorization: Basic " in heads[0]
    assert b"proxy" not in heads[1].lower()
