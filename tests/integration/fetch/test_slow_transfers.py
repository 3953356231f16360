"""Fetches that take much longer than most stand aside, and silent hosts cost the others neither slots nor CPU."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from rig.hostile_servers import Connection, HostileServer, tls_context

from skitter.errors import FetchError
from skitter.fetch.engine import REST_SECONDS
from skitter.fetch.poller import SystemPoller


def silent(_seen: Any, _writer: asyncio.StreamWriter) -> Any:
    return asyncio.Event().wait()


class Waiting:
    """Fetches of one client that are not expected to end."""

    def __init__(self, client: Any, quick: Any) -> None:
        self.client = client
        self._quick = quick
        self._tasks: list[asyncio.Task[Any]] = []

    async def fetch(self, site: Any, count: int) -> list[asyncio.Task[Any]]:
        """So many of a site, once they are with it."""
        seen = len(site.seen) + count
        tasks = [asyncio.create_task(self.client.get(site.url())) for _ in range(count)]
        self._tasks += tasks
        await site.until(lambda: len(site.seen) == seen)
        return tasks

    async def until_aside(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.client.fetcher.slow_transfers(100) != count:
                await self.client.get(self._quick.url())

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(FetchError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def waiting(serve: Any, make_client: Any) -> AsyncIterator[Waiting]:
    """On a client that knows what is quick."""
    quick, client = await serve(serve.answer()), make_client()
    for _ in range(100):
        await client.get(quick.url())
    made = Waiting(client, quick)
    yield made
    await made.end()


async def test_what_takes_much_longer_than_most_stands_aside(waiting: Any, serve: Any) -> None:
    tarpit = await serve(silent)
    await waiting.fetch(tarpit, 5)
    assert waiting.client.fetcher.slow_transfers(100) == 0
    await waiting.until_aside(5)
    await waiting.end()
    assert waiting.client.fetcher.slow_transfers(100) == 0


async def test_a_silent_host_stands_aside_from_the_start_until_it_answers(waiting: Any, serve: Any) -> None:
    tarpit = await serve(silent)
    await waiting.fetch(tarpit, 1)
    await waiting.until_aside(1)
    await waiting.fetch(tarpit, 2)
    assert waiting.client.fetcher.slow_transfers(100) == 3
    await waiting.end()
    await waiting.fetch(tarpit, 1)
    assert waiting.client.fetcher.slow_transfers(100) == 1
    tarpit.behaviour = serve.says(serve.answer())
    await waiting.client.get(tarpit.url())
    tarpit.behaviour = silent
    await waiting.fetch(tarpit, 1)
    assert waiting.client.fetcher.slow_transfers(100) == 1


async def test_where_no_more_may_stand_aside_the_host_that_has_most_gives_way(waiting: Any, serve: Any) -> None:
    greedy, modest = await serve(silent), await serve(silent)
    first = await waiting.fetch(greedy, 4)
    last = await waiting.fetch(modest, 2)
    await waiting.until_aside(6)
    assert waiting.client.fetcher.slow_transfers(4) == 4
    await asyncio.wait(first[2:], timeout=5)
    # Until both have as many; and of the same host, those that were begun first stay.
    assert [task for task in first + last if task.done()] == first[2:]
    for task in first[2:]:
        error = task.exception()
        assert isinstance(error, FetchError)
        assert error.error_class == "slow"
    assert waiting.client.fetcher.in_flight == 4


async def test_where_none_may_stand_aside_none_is_ended(waiting: Any, serve: Any) -> None:
    tarpit = await serve(silent)
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
    writers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    over = asyncio.Event()

    async def trickle(_seen: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writers.put_nowait(writer)
        return await over.wait()

    async def say(pieces: int) -> None:
        for _ in range(pieces):
            writer.write(b"1\r\nx\r\n")
            await asyncio.sleep(0.002)
            client.fetcher.slow_transfers(100)

    acts = Acts()
    site, client = await serve(trickle), make_client(poller=acts.poller)
    fetching = asyncio.create_task(client.get(site.url()))
    writer = await writers.get()
    await say(500)  # by now it is known for what it is
    before = acts.count
    await say(500)
    assert acts.count - before < 50
    writer.write(b"0\r\n\r\n")
    over.set()
    assert (await fetching).body == b"x" * 1_000
    # The connection is as good as any other.
    site.behaviour = serve.says(serve.answer(b"next"))
    assert (await client.get(site.url())).body == b"next"
    assert site.connections == 1


async def test_a_file_that_takes_its_time_is_not_held_up(serve: Any, make_client: Any) -> None:
    """It comes faster than the looks at a silent host would let it."""
    piece = bytes(65_536)

    async def large(_seen: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (256 * len(piece)))
        for _ in range(256):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.004)
        return True

    acts = Acts()
    site, client = await serve(large), make_client(poller=acts.poller)
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

    async def flood(_seen: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;")
        while True:
            writer.write(b"x" * 65_536)  # of an extension that has no end
            await writer.drain()

    def calls() -> int:
        number: int = client.fetcher._call.number
        return number

    quick = await serve(serve.answer())
    site, client = await serve(flood, tls=tls), make_client(ca_file=certificate)
    client.fetcher._call.is_noted = True
    fetching = asyncio.create_task(client.get(site.url(), timeout_seconds=60))
    async with asyncio.timeout(20):
        while not client.fetcher._resting:
            client.fetcher.slow_transfers(100)
            await client.get(quick.url())
    before, ticks = calls(), 4
    await asyncio.sleep(ticks * REST_SECONDS)
    # Hundreds without a rest: one for every 100 KB.
    assert calls() - before <= ticks * 12
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

    quick, client = await serve(serve.answer()), make_client(ca_file=certificate)
    with HostileServer(slowly, scheme="https") as site:
        client.fetcher._slow_transfers.silent[f"127.0.0.1:{site.port}"] = None
        fetching = asyncio.create_task(client.get(site.url()))
        while not fetching.done():
            client.fetcher.slow_transfers(100)
            await client.get(quick.url())
            await asyncio.sleep(0.01)
        assert (await fetching).body == body
