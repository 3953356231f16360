"""Which socket the thread shuts down that looks after libcurl's calls, and when there is such a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pycurl
import pytest

from rig.web_faults import endless
from skitter.fetch.stuck_call_watchdog import Call, Watchdog

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs what Linux tells of a socket")


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other = server.accept()[0]
        with other:
            yield one, other


def receive(ends: tuple[socket.socket, socket.socket], count: int) -> None:
    ends[1].sendall(b"x" * count)
    ends[0].recv(count, socket.MSG_WAITALL)


def is_shut_down(ends: tuple[socket.socket, socket.socket]) -> bool:
    ends[1].setblocking(False)
    try:
        return ends[1].recv(1) == b""
    except BlockingIOError:
        return False


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def running() -> Call:
    call = Call()
    call.is_running = True
    return call


def test_the_socket_that_one_call_reads_from_is_shut_down_at_the_third_look() -> None:
    with pair() as busy, pair() as idle:
        watchdog = Watchdog(running(), lambda: [busy[0].fileno(), idle[0].fileno()])
        receive(idle, 9)
        for _ in range(3):
            receive(busy, 5)
            assert not is_shut_down(busy)
            watchdog.look()
        assert is_shut_down(busy)
        assert not is_shut_down(idle)


def test_a_call_that_returns_loses_nothing() -> None:
    with pair() as ends:
        call = running()
        watchdog = Watchdog(call, lambda: [ends[0].fileno()])
        for _ in range(10):
            watchdog.look()
            watchdog.look()
            receive(ends, 5)
            call.number += 1
        assert not is_shut_down(ends)


def test_another_socket_with_the_number_of_one_that_was_closed_is_left_alone() -> None:
    with pair() as old, pair() as new:
        watchdog = Watchdog(running(), lambda: [old[0].fileno()])
        watchdog.look()
        watchdog.look()
        receive(new, 5)
        os.dup2(new[0].fileno(), old[0].fileno())
        watchdog.look()
        assert not is_shut_down(new)


def test_what_is_no_socket_is_left_alone_and_nothing_is_leaked() -> None:
    with Path(os.devnull).open("rb") as file:
        watchdog = Watchdog(running(), lambda: [file.fileno(), -1])
        before = descriptors()
        for _ in range(3):
            watchdog.look()
        assert descriptors() == before


async def test_a_call_that_raises_is_over(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def socket_action(self, _fd: int, _events: int) -> None:
            raise pycurl.error(4, "bad")

    client.fetcher._call.is_noted = True
    with monkeypatch.context() as patch:
        patch.setattr(client.fetcher, "_multi", Broken())
        with pytest.raises(pycurl.error):
            client.fetcher._act(pycurl.SOCKET_TIMEOUT, 0)
    assert not client.fetcher._call.is_running


async def test_the_thread_is_there_from_the_first_https_page_on(serve: Any, make_client: Any, certificate: str) -> None:
    plain, secret = serve(serve.answer()), serve(serve.answer(), tls=True)
    client = make_client(ca_file=certificate)
    for site, is_started in ((plain, False), (secret, True), (secret, True), (plain, True)):
        await client.get(site.url())
        assert client.fetcher._watchdog.is_started == is_started
        assert (client.fetcher._call.number > 0) == is_started


async def test_a_socket_that_rested_is_not_looked_at_once_its_transfer_is_over(serve: Any, make_client: Any) -> None:
    flood = endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;", b"x" * 65_536)
    quick, site, client = serve(serve.answer()), serve(flood), make_client()
    fetching = asyncio.create_task(client.get(site.url(), timeout_seconds=60))
    async with asyncio.timeout(60):
        while not client.fetcher._resting:
            client.fetcher.slow_transfers(100)
            await client.get(quick.url())
    descriptor = client.fetcher._resting[0].descriptor()
    assert descriptor >= 0
    fetching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await fetching
    assert descriptor not in set(client.fetcher._watchdog._sockets())
