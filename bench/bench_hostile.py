"""Throughput of good hosts beside hosts that are slow or have no end, next to the same crawl without those.

    bench_hostile.py [--rounds 3] [--good 8] [--bad 16] [--concurrency 64] [--bound slots|cpu|both]

Each round crawls twice, in turns: the good hosts alone, and the good hosts with bad ones of every kind. Pages a second
are counted from the first good page to the last, the first meeting with the bad ones included. The ratio of the medians
is to be 0.95 at least. It is measured twice, because a crawl can be short of two things:

``slots``   every good answer takes a fifth of a second, so that pages a second are slots a second;
``cpu``     good answers take 20 ms, and the crawler is never idle. Its CPU a page is told too: unlike pages a second,
            it hardly depends on what else the machine has to do.

Good and bad hosts are served by a process each, so that what it costs to be bad is not taken from the good ones, as
far as there are cores: with fewer than three, the bad hosts' own work is part of the second figure. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import uvloop

LINKS = 20
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
BACKLOG = 512


class Kind(NamedTuple):
    """What a bad host says to every page: a head, and then a piece again and again."""

    head: bytes
    piece: bytes
    seconds: float


KINDS = [
    Kind(b"", b"", 3600),
    Kind(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x", 0.2),
    Kind(CHUNKED, b"1\r\nx\r\n", 0.05),
    Kind(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.2),
    # Without an end, and as fast as a slow line is.
    Kind(CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n", 0.01),
]


class Seen:
    """Requests of good hosts in a crawl: how many, and when the first and the last of those that count came."""

    def __init__(self) -> None:
        self._figures = multiprocessing.Array("d", 3)

    def begin(self, wanted: int) -> None:
        self._figures[:] = [wanted, 0.0, 0.0]

    def one_more(self) -> None:
        left, first, _ = self._figures
        if left > 0:
            now = time.monotonic()
            self._figures[:] = [left - 1, first or now, now]

    def is_complete(self) -> bool:
        return self._figures[0] <= 0

    def seconds(self) -> float:
        return self._figures[2] - self._figures[1]


class GoodHost(asyncio.Protocol):
    """A tree of pages with twenty links each, as far unavailable as it is told."""

    def __init__(self, pages: int, answer_seconds: float, seen: Seen) -> None:
        self._pages, self._answer_seconds, self._seen = pages, answer_seconds, seen

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        place = int(path[1:]) if path[1:].isdigit() else 0
        targets = range(place * LINKS + 1, min(place * LINKS + LINKS + 1, self._pages))
        links = "".join(f'<a href="/{number}">{number}</a>' for number in targets)
        body = (links + "x" * 4000).encode() if path != "/robots.txt" else b""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._seen.one_more()
        asyncio.get_running_loop().call_later(self._answer_seconds, self._answer, head + body)

    def _answer(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


class BadHost(asyncio.Protocol):
    """It has no robots.txt, and no answer that ends."""

    def __init__(self, kind: Kind, talking: set[Any]) -> None:
        self._kind, self._talking = kind, talking

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET /robots.txt "):
            self._transport.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._transport.close()
            return
        self._transport.write(self._kind.head)
        self._talking.add(self._transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self._talking.discard(self._transport)


async def talk(kind: Kind, talking: set[Any]) -> None:
    """One timer for all connections of a kind: to be bad is to cost no more here than it must."""
    while True:
        await asyncio.sleep(kind.seconds)
        for transport in list(talking):
            transport.write(kind.piece)


Serve = Callable[[asyncio.AbstractEventLoop], list[Callable[[], asyncio.Protocol]]]


def serve(say: Connection, make_hosts: Serve) -> None:
    """A process of hosts, each a port, until it is terminated. Says where they are."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(host, "127.0.0.1", 0, backlog=BACKLOG) for host in make_hosts(loop)]
        say.send([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/" for server in servers])
        await asyncio.Event().wait()

    uvloop.run(main())


def good_hosts(count: int, pages: int, answer_seconds: float, seen: Seen) -> Serve:
    return lambda _loop: [lambda: GoodHost(pages // count, answer_seconds, seen)] * count


def bad_hosts(count: int) -> Serve:
    def make(loop: asyncio.AbstractEventLoop) -> list[Callable[[], asyncio.Protocol]]:
        talking: list[set[Any]] = [set() for _ in KINDS]
        for kind, those in zip(KINDS, talking, strict=True):
            loop.create_task(talk(kind, those))
        places = (number % len(KINDS) for number in range(count))
        return [lambda place=place: BadHost(KINDS[place], talking[place]) for place in places]  # type: ignore[misc]

    return make


class Web:
    """Good hosts or bad ones, in a process of their own."""

    def __init__(self, make_hosts: Serve) -> None:
        hear, say = multiprocessing.get_context("fork").Pipe(duplex=False)
        self._process = multiprocessing.get_context("fork").Process(target=serve, args=(say, make_hosts), daemon=True)
        self._process.start()
        self.urls: list[str] = hear.recv()

    def close(self) -> None:
        self._process.terminate()
        self._process.join()


def crawl(seen: Seen, seeds: list[str], pages: int, concurrency: int) -> tuple[float, float]:
    """Good pages a second, and milliseconds of the crawler's CPU for each."""
    seen.begin(pages)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "skitter", "crawl", *seeds, "-q", "--job", "hostile", "--concurrency"]
        command += [str(concurrency), "--set", "shutdown_seconds=0"]
        before = os.times()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        # The bad ones would go on for a while.
        while not seen.is_complete() and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        process.wait()
        after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return (pages - 1) / seen.seconds(), 1000 * cpu / pages


def measure(bound: str, options: argparse.Namespace) -> dict[str, float]:
    seen = Seen()
    answer_seconds, pages = (0.2, options.slots_pages) if bound == "slots" else (0.02, options.cpu_pages)
    pages = pages // options.good * options.good
    good, bad = Web(good_hosts(options.good, pages, answer_seconds, seen)), Web(bad_hosts(options.bad))
    # Ten pages of every bad host: more than it may have in flight.
    seeds = [f"{url}{number}" for number in range(10) for url in bad.urls] + good.urls
    alone, beside = [], []
    for _ in range(options.rounds):
        alone.append(crawl(seen, good.urls, pages, options.concurrency))
        beside.append(crawl(seen, seeds, pages, options.concurrency))
    good.close()
    bad.close()
    (alone_rate, alone_cpu), (beside_rate, beside_cpu) = (
        map(statistics.median, zip(*found, strict=True)) for found in (alone, beside)
    )
    return {
        "alone_pages_per_second": round(alone_rate),
        "beside_pages_per_second": round(beside_rate),
        "ratio": round(beside_rate / alone_rate, 3),
        "alone_cpu_ms_a_page": round(alone_cpu, 3),
        "beside_cpu_ms_a_page": round(beside_cpu, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="good hosts beside bad ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots-pages", type=int, default=6000)
    parser.add_argument("--cpu-pages", type=int, default=16000)
    parser.add_argument("--good", type=int, default=8)
    parser.add_argument("--bad", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--bound", choices=["slots", "cpu", "both"], default="both")
    options = parser.parse_args()
    found: dict[str, Any] = {
        "good_hosts": options.good,
        "bad_hosts": options.bad,
        "concurrency": options.concurrency,
    }
    for bound in ["slots", "cpu"] if options.bound == "both" else [options.bound]:
        found[f"short_of_{bound}"] = measure(bound, options)
    json.dump(found, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
