"""CPU microseconds that one fetch costs this process: CurlFetcher against bare pycurl on the same page.

    python bench/fetch_cost.py http://127.0.0.1:8900/page.html [--requests 10000] [--rounds 3] [--loop uvloop]

``bare`` is the least that pycurl can do on a loop: one multi handle, one epoll set, callbacks written in C,
no page made of the answer. The rounds alternate; the best of each is printed, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import select
import time

import pycurl
import uvloop

from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.settings import Fetch

EVENTS = {
    pycurl.POLL_IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}


class Bare:
    """The floor: the least code that keeps ``concurrency`` handles busy."""

    def __init__(self, url: str, requests: int) -> None:
        self.url, self.to_start, self.to_end = url, requests, requests
        self.loop = asyncio.get_running_loop()
        self.finished = self.loop.create_future()
        self.kicked = False
        self.held: dict[pycurl.Curl, tuple[list[bytes], list[bytes]]] = {}
        self.watched: set[int] = set()
        self.epoll = select.epoll()
        self.multi = pycurl.CurlMulti()
        self.multi.setopt(pycurl.M_MAXCONNECTS, 256)
        self.multi.setopt(pycurl.M_SOCKETFUNCTION, self.watch)
        self.multi.setopt(pycurl.M_TIMERFUNCTION, self.set_timer)
        self.loop.add_reader(self.epoll.fileno(), self.ready)

    async def run(self, concurrency: int) -> None:
        for _ in range(concurrency):
            curl = pycurl.Curl()
            headers, chunks = self.held[curl] = ([], [])
            curl.setopt(pycurl.NOSIGNAL, 1)
            curl.setopt(pycurl.ACCEPT_ENCODING, "")
            curl.setopt(pycurl.HEADERFUNCTION, headers.append)
            curl.setopt(pycurl.WRITEFUNCTION, chunks.append)
            self.start(curl)
        await self.finished
        self.loop.remove_reader(self.epoll.fileno())
        self.multi.close()

    def start(self, curl: pycurl.Curl) -> None:
        self.to_start -= 1
        for collected in self.held[curl]:
            collected.clear()
        curl.setopt(pycurl.URL, self.url)
        self.multi.add_handle(curl)

    def watch(self, what: int, fd: int, *_: object) -> None:
        if what == pycurl.POLL_REMOVE:
            self.watched.discard(fd)
            self.epoll.unregister(fd)
        elif fd in self.watched:
            self.epoll.modify(fd, EVENTS[what])
        else:
            self.watched.add(fd)
            self.epoll.register(fd, EVENTS[what])

    def set_timer(self, milliseconds: int) -> None:
        if milliseconds == 0 and not self.kicked:
            self.kicked = True
            self.loop.call_soon(self.kick)

    def kick(self) -> None:
        self.kicked = False
        self.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self.collect()

    def ready(self) -> None:
        for fd, events in self.epoll.poll(0):
            if fd in self.watched:
                self.multi.socket_action(fd, pycurl.CSELECT_IN if events != select.EPOLLOUT else pycurl.CSELECT_OUT)
        self.collect()

    def collect(self) -> None:
        _, done, failed = self.multi.info_read()
        if failed:
            self.finished.set_exception(RuntimeError(failed[0][2]))
        for curl in done:
            self.multi.remove_handle(curl)
            self.to_end -= 1
            if self.to_start:
                self.start(curl)
            elif not self.to_end:
                self.finished.set_result(None)


async def bare(url: str, requests: int, concurrency: int) -> None:
    """pycurl and nothing else."""
    await Bare(url, requests).run(concurrency)


async def engine(url: str, requests: int, concurrency: int) -> None:
    """What a worker pays: a request object in, a Page out, one task per slot."""
    fetcher = CurlFetcher(Fetch())
    left = iter(range(requests))

    async def slot() -> None:
        for _ in left:
            page = await fetcher.fetch(FetchRequest(url=url, trusted=True))
            assert page.status == 200

    await asyncio.gather(*(slot() for _ in range(concurrency)))
    await fetcher.close()


def main() -> None:
    """Run, and print one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    options = parser.parse_args()
    run = uvloop.run if options.loop == "uvloop" else asyncio.run
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for name, client in (("bare", bare), ("engine", engine)):
            cpu, wall = time.process_time(), time.monotonic()
            run(client(options.url, options.requests, options.concurrency))
            cpu, wall = time.process_time() - cpu, time.monotonic() - wall
            figures = {
                "cpu_us_per_request": round(cpu / options.requests * 1e6, 1),
                "requests_per_second": round(options.requests / wall),
            }
            if name not in best or figures["cpu_us_per_request"] < best[name]["cpu_us_per_request"]:
                best[name] = figures
    print(json.dumps({"loop": options.loop, "libcurl": pycurl.version_info()[1], **best}))


if __name__ == "__main__":
    main()
