"""Throughput of good hosts beside hosts that are slow or have no end, next to the same crawl without those.

    bench_hostile.py [--rounds 3] [--pages 16000] [--good 8] [--bad 16] [--concurrency 64]

Each round crawls twice, in turns: the good hosts alone, and the good hosts with bad ones of every kind. Pages a second
are counted from the first good page to the last. The ratio of the medians is to be 0.95 at least. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable

LINKS = 20
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"

Bad = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def silent(_writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


def again(head: bytes, piece: bytes, seconds: float) -> Bad:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(seconds)

    return answer


KINDS: list[Bad] = [
    silent,
    again(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x", 0.2),
    again(CHUNKED, b"1\r\nx\r\n", 0.05),
    again(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.2),
    # Without an end, and as fast as a slow line is.
    again(CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n", 0.01),
]


class Web:
    """Good and bad hosts, each a port, in a loop of their own."""

    def __init__(self, pages: int, good: int, bad: int) -> None:
        self._pages, self._count = pages, good
        self.seen: list[float] = []
        self.good_urls: list[str] = []
        self.bad_urls: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        threading.Thread(target=self._run, args=(good, bad), daemon=True).start()
        self._ready.wait()

    def _run(self, good: int, bad: int) -> None:
        async def main() -> None:
            for _ in range(good):
                server = await asyncio.start_server(self._good, "127.0.0.1", 0, backlog=512)
                self.good_urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
            for number in range(bad):
                server = await asyncio.start_server(self._bad(KINDS[number % len(KINDS)]), "127.0.0.1", 0, backlog=512)
                self.bad_urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
            self._ready.set()
            await asyncio.sleep(3600)

        self._loop.run_until_complete(main())

    async def _good(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
                place = int(path[1:]) if path[1:].isdigit() else 0
                targets = range(place * LINKS + 1, place * LINKS + LINKS + 1)
                links = "".join(f'<a href="/{n}">{n}</a>' for n in targets if n < self._pages // self._count)
                body = (links + "x" * 4000).encode() if path != "/robots.txt" else b""
                self.seen.append(time.monotonic())
                # As far away as a near server is: with none at all the crawl has no use for more than a few slots.
                await asyncio.sleep(0.02)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    @staticmethod
    def _bad(answer: Bad) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
                if path == b"/robots.txt":
                    writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    await writer.drain()
                    writer.close()
                    return
                await answer(writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                writer.close()

        return serve


def crawl(web: Web, seeds: list[str], pages: int, concurrency: int) -> float:
    """Good pages a second."""
    web.seen.clear()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "skitter", "crawl", *seeds, "-q", "--job", "hostile", "--concurrency"]
        command += [str(concurrency), "--set", "shutdown_seconds=0"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        # The bad ones would go on for a while.
        while len(web.seen) < pages and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        process.wait()
    return (pages - 1) / (web.seen[pages - 1] - web.seen[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="good hosts beside bad ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=16000)
    parser.add_argument("--good", type=int, default=8)
    parser.add_argument("--bad", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=64)
    options = parser.parse_args()
    web = Web(options.pages, options.good, options.bad)
    # Ten pages of every bad host: more than it may have in flight.
    bad = [f"{url}{number}" for number in range(10) for url in web.bad_urls]
    alone, beside = [], []
    for _ in range(options.rounds):
        wanted = options.pages // options.good * options.good
        alone.append(crawl(web, web.good_urls, wanted, options.concurrency))
        beside.append(crawl(web, bad + web.good_urls, wanted, options.concurrency))
    found = {
        "good_hosts": options.good,
        "bad_hosts": options.bad,
        "concurrency": options.concurrency,
        "alone_pages_per_second": round(statistics.median(alone)),
        "beside_pages_per_second": round(statistics.median(beside)),
        "ratio": round(statistics.median(beside) / statistics.median(alone), 3),
    }
    json.dump(found, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
