"""Connections that are kept for the next request of their host: how many, and TLS sessions after they were closed."""

from __future__ import annotations

import asyncio
import resource
import ssl
from typing import Any

import pytest

from rig.web import Seen
from rig.web_connection import Connection, tls_context
from skitter.fetch.engine import IDLE_CONNECTION_BYTES


def _hosts(count: int) -> list[str]:
    """Loopback has a network of them, and each is a host of its own."""
    return [f"127.0.1.{number}" for number in range(1, count + 1)]


async def test_each_host_keeps_its_connection(serve: Any, client: Any) -> None:
    site = serve(serve.answer(), host="0.0.0.0")
    for _ in range(2):
        for host in _hosts(100):
            await client.get(site.url(host=host))
    assert (site.connections, site.open) == (100, 100)


async def test_idle_connections_are_kept_as_far_as_their_memory_goes(serve: Any, make_client: Any) -> None:
    site = serve(serve.answer(), host="0.0.0.0")
    client = make_client(max_idle_bytes=10 * IDLE_CONNECTION_BYTES)
    for host in _hosts(30):
        await client.get(site.url(host=host))
    await site.until(lambda: site.open == 10)
    # Those that were used last.
    for host in _hosts(30)[20:]:
        await client.get(site.url(host=host))
    assert site.connections == 30


async def test_idle_connections_leave_files_to_slow_transfers(
    serve: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (480, 480))
    site = serve(serve.answer(), host="0.0.0.0")
    client = make_client()
    for host in _hosts(150):
        await client.get(site.url(host=host))
    await site.until(lambda: site.open == 120)
    assert client.fetcher._max_aside == 480 - 120 - 60 - 256


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_tls_session_is_resumed_by_the_next_connection_of_its_host(
    serve: Any, make_client: Any, certificate: str, version: ssl.TLSVersion
) -> None:
    resumed: dict[int, list[bool]] = {}

    def note_session(_seen: Seen, connection: Connection) -> bytes:
        assert isinstance(connection.socket, ssl.SSLSocket)
        port = connection.socket.getsockname()[1]
        resumed.setdefault(port, []).append(bool(connection.socket.session_reused))
        return serve.answer(b"ok", "Connection: close")

    def context() -> ssl.SSLContext:
        made = tls_context()
        made.maximum_version = version
        return made

    sites = [serve(note_session, tls=context(), keep=False) for _ in range(10)]
    client = make_client(ca_file=certificate)
    for _ in range(3):
        await asyncio.gather(*(client.get(site.url()) for site in sites))
    assert list(resumed.values()) == [[False, True, True]] * 10
