"""Fetches that take much longer than most stand aside, and silent hosts cost the others neither slots nor CPU."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from rig.web import Seen
from rig.web_connection import Connection, Server, tls_context
from rig.web_faults import endless, in_pieces, silent
from skitter.errors import FetchError
from skitter.fetch.engine import REST_SECONDS
from skitter.fetch.poller import SystemPoller


class Waiting:
    """Fetches of one client that are not expected to end."""

    def __init__(self, client: Any, quick: Any) -> None:
        self.client = client
        self._quick = quick
        self._tasks: list[asyncio.Task[Any]] = []
        self._much_later = False

    def time(self) -> float:
        """Of the looks at slow transfers: none has taken long, until much time passes."""
        return time.time() + (1_000 if self._much_later else -1_000)

    async def fetch(self, site: Any, count: int) -> list[asyncio.Task[Any]]:
        """So many of a site, once they are with it."""
        seen = len(site.seen) + count
        tasks = [asyncio.create_task(self.client.get(site.url())) for _ in range(count)]
        self._tasks += tasks
        await site.until(lambda: len(site.seen) == seen)
        return tasks

    async def until_aside(self, count: int) -> None:
        """All that is under way takes much longer than most."""
        await self.client.get(self._quick.url())
        self._much_later = True
        assert self.client.fetcher.slow_transfers(100) == count
        self._much_later = False

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(FetchError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def waiting(serve: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Waiting]:
    """On a client that knows what is quick."""
    quick, client = serve(serve.answer()), make_client()
    for _ in range(100):
        await client.get(quick.url())
    made = Waiting(client, quick)
    monkeypatch.setattr("skitter.fetch.slow_transfers.time", SimpleNamespace(time=made.time))
    yield made
    await made.end()


async def test_what_takes_much_longer_than_most_stands_aside(waiting: Any, serve: Any) -> None:
    tarpit = serve(silent)
    await waiting.fetch(tarpit, 5)
    assert waiting.client.fetcher.slow_transfers(100) == 0
    await waiting.until_aside(5)
    await waiting.end()
    assert waiting.client.fetcher.slow_transfers(100) == 0


async def test_a_silent_host_stands_aside_from_the_start_until_it_answers(waiting: Any, serve: Any) -> None:
    tarpit = serve(silent)
    await waiting.fetch(tarpit, 1)
    await waiting.until_aside(1)
    await waiting.fetch(tarpit, 2)
    assert waiting.client.fetcher.slow_transfers(100) == 3
    await waiting.end()
    await waiting.fetch(tarpit, 1)
    assert waiting.client.fetcher.slow_transfers(100) == 1
    tarpit.on("*", serve.answer())
    await waiting.client.get(tarpit.url())
    tarpit.on("*", silent)
    await waiting.fetch(tarpit, 1)
    assert waiting.client.fetcher.slow_transfers(100) == 1


async def test_where_no_more_may_stand_aside_the_host_that_has_most_gives_way(waiting: Any, serve: Any) -> None:
    greedy, modest = serve(silent), serve(silent)
    first = await waiting.fetch(greedy, 4)
    last = await waiting.fetch(modest, 2)
    await waiting.until_aside(6)
    assert waiting.client.fetcher.slow_transfers(4) == 4
    await asyncio.wait(first[2:], timeout=60)
    # Until both have as many; and of the same host, those that were begun first stay.
    assert [task for task in first + last if task.done()] == first[2:]
    for task in first[2:]:
        error = task.exception()
        assert isinstance(error, FetchError)
        assert error.error_class == "slow"
    assert waiting.client.fetcher.in_flight == 4


async def test_where_none_may_stand_aside_none_is_ended(waiting: Any, serve: Any) -> None:
    tarpit = serve(silent)
    tasks = await waiting.fetch(tarpit, 3)
    await waiting.until_aside(3)
    assert waiting.client.fetcher.slow_transfers(0) == 0
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


class Acts:
    """Counts how often libcurl is told of a socket."""

    def __init__(self) -> None:
        self.count = 0

    def poller(self, loop: Any, act: Any, done: Any) -> Any:
        def counted(fd: int, events: int) -> None:
            self.count += 1
            act(fd, events)

        return SystemPoller(loop, counted, done)


@pytest.mark.skipif(sys.platform != "linux", reason="without epoll every socket is the loop's own")
async def test_a_host_that_trickles_is_not_read_each_time_it_says_something(serve: Any, make_client: Any) -> None:
    """And what it says in the end is read as it is."""
    connections: queue.Queue[Connection] = queue.Queue()
    over = threading.Event()

    def trickle(_seen: Seen, connection: Connection) -> bool:
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connections.put(connection)
        return over.wait()

    async def say(pieces: int) -> None:
        for _ in range(pieces):
            connection.send(b"1\r\nx\r\n")
            await asyncio.sleep(0.002)
            client.fetcher.slow_transfers(100)

    acts = Acts()
    site, client = serve(trickle), make_client(poller=acts.poller)
    fetching = asyncio.create_task(client.get(site.url()))
    connection = await asyncio.to_thread(connections.get)
    await say(500)  # by now it is known for what it is
    before = acts.count
    await say(500)
    # Four times a second and not five hundred times, however long a busy machine takes for the pieces.
    assert acts.count - before < 200
    connection.send(b"0\r\n\r\n")
    over.set()
    assert (await fetching).body == b"x" * 1_000
    # The connection is as good as any other.
    site.on("*", serve.answer(b"next"))
    assert (await client.get(site.url())).body == b"next"
    assert site.connections == 1


async def test_a_file_that_takes_its_time_is_not_held_up(serve: Any, make_client: Any) -> None:
    """It comes faster than the looks at a silent host would let it."""
    piece = bytes(65_536)

    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (256 * len(piece))
    acts = Acts()
    site, client = serve(in_pieces(head, [piece] * 256, 0.004)), make_client(poller=acts.poller)
    fetching = asyncio.create_task(client.get(site.url()))
    while not (await asyncio.wait([fetching], timeout=0.01))[0]:
        client.fetcher.slow_transfers(100)
    assert len((await fetching).body) == 256 * len(piece)
    assert acts.count > 100


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_a_silent_host_that_floods_is_read_four_times_a_second(
    tls: bool, serve: Any, make_client: Any, certificate: str
) -> None:
    """libcurl does not wait for the socket of one that always has more."""

    # Of an extension that has no end.
    flood = endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;", b"x" * 65_536)

    def calls() -> int:
        number: int = client.fetcher._call.number
        return number

    quick = serve(serve.answer())
    site, client = serve(flood, tls=tls), make_client(ca_file=certificate)
    client.fetcher._call.is_noted = True
    fetching = asyncio.create_task(client.get(site.url(), timeout_seconds=60))
    async with asyncio.timeout(60):
        while not client.fetcher._resting:
            client.fetcher.slow_transfers(100)
            await client.get(quick.url())
    before, began = calls(), time.monotonic()
    await asyncio.sleep(4 * REST_SECONDS)
    made, ticks = calls() - before, (time.monotonic() - began) / REST_SECONDS
    # Hundreds without a rest: one for every 100 KB.
    assert made <= ticks * 12
    fetching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await fetching


async def test_a_silent_host_whose_handshake_takes_its_time_is_served(
    serve: Any, make_client: Any, certificate: str
) -> None:
    """A transfer that rests before it has a connection loses nothing."""
    body = b"at last" * 10_000

    def slowly(connection: Connection) -> None:
        time.sleep(0.7)
        connection.use_tls(tls_context())
        connection.read_head()
        time.sleep(0.7)
        connection.send(serve.answer(body))

    quick, client = serve(serve.answer()), make_client(ca_file=certificate)
    with Server(slowly, scheme="https") as site:
        client.fetcher._slow_transfers.silent[f"127.0.0.1:{site.port}"] = None
        fetching = asyncio.create_task(client.get(site.url()))
        while not fetching.done():
            client.fetcher.slow_transfers(100)
            await client.get(quick.url())
            await asyncio.sleep(0.01)
        assert (await fetching).body == body
