"""Intakes under kill -9 of nodes and of Redis: every URL once in the results, and all poison in the dead letters.

Two nodes crawl and read the same source. A node that is killed takes its workers and its reader along, in the middle
of whatever they do; Redis, which has both the frontier and the source, is killed too (``appendfsync always``).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from own_redis import DURABLE, OwnRedis

SPIDER = """
import skitter

class Numbers(skitter.Spider):
    name = "numbers"

    def start(self):
        return []

    def parse(self, response):
        yield {"n": int(response.url.rpartition("/")[2])}
"""
POISON_EVERY = 20
FINISH_SECONDS = 90.0
SETTINGS = {
    "allow_private": "true",
    "obey_robots": "false",
    "lease_seconds": "3",
    "per_host": "64",
    "max_queued": "100",
}
"""With a short queue the source is read as long as the crawl lasts, and so also when something is killed."""


class Size(NamedTuple):
    """How many messages, and how many kills of each process."""

    messages: int
    kills: int


SLICE, TEN_THOUSAND, HUNDRED_THOUSAND = Size(1_000, 1), Size(10_000, 5), Size(100_000, 20)


class PageServer:
    """Answers every path at once; ``served`` counts the answers."""

    def __init__(self) -> None:
        self.served = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._started.wait(20)

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._answer, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
        self._loop.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b"<p>a page</p>"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
        with suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                self.served += 1
                writer.write(head + body)
                await writer.drain()
        writer.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@pytest.fixture
def pages() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.stop()


class Node:
    """A command that is started again whenever it was killed."""

    def __init__(self, skitter: Any, *arguments: object) -> None:
        self._skitter = skitter
        self._arguments = arguments
        self._path = skitter.folder / f"{arguments[0]}.log"
        self._log = self._path.open("ab")
        self.start()

    def start(self) -> None:
        self._begun_at = self._path.stat().st_size
        streams = {"stdout": self._log, "stderr": self._log, "stdin": subprocess.DEVNULL}
        self.process = self._skitter.start(*self._arguments, **streams)

    def has_joined(self) -> bool:
        """It has a worker, so that it waits for a server that is unavailable; or it has ended."""
        return b"worker.joined" in self._path.read_bytes()[self._begun_at :] or self.process.poll() is not None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.start()

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


class Source:
    """A source with messages, some of them poison, and its dead letters."""

    def __init__(self, kind: str, server: OwnRedis, folder: Path) -> None:
        self._kind = kind
        self._client: Any = redis.Redis.from_url(f"{server.url}/1")
        self._path = folder / "urls.txt"
        is_file = kind == "file"
        self.url = f"file:{self._path}" if is_file else f"{server.url}/1?type={kind}&claim_seconds=3#urls"

    def put(self, bodies: list[str]) -> None:
        if self._kind == "file":
            self._path.write_text("".join(f"{body}\n" for body in bodies))
        elif self._kind == "list":
            self._client.rpush("urls", *bodies)
        elif self._kind == "set":
            self._client.sadd("urls", *bodies)
        elif self._kind == "zset":
            self._client.zadd("urls", {body: number % 7 for number, body in enumerate(bodies)})
        else:
            with self._client.pipeline(transaction=False) as pipe:
                for body in bodies:
                    pipe.xadd("urls", {"message": body})
                pipe.execute()

    def dead_letters(self) -> set[str]:
        if self._kind == "file":
            lines = Path(f"{self._path}.dead-letters.jsonl").read_bytes().splitlines()
        else:
            lines = self._client.lrange("urls:dead-letters", 0, -1)
        return {json.loads(line)["body"] for line in lines if line}

    def close(self) -> None:
        self._client.close()


def suffer(kind: str, size: Size, skitter: Any, server: OwnRedis, pages: PageServer) -> None:
    chance = random.Random(size.kills)
    skitter.write("page_numbers.py", SPIDER)
    source = Source(kind, server, skitter.folder)
    urls = [f"http://127.0.0.1:{pages.port}/{number}" for number in range(size.messages)]
    poison = [f"poison {number}" for number in range(0, size.messages, POISON_EVERY)]
    messages = urls + poison
    chance.shuffle(messages)
    source.put(messages)
    job = ("--job", "numbers", "--frontier", f"{server.url}/0", "--intake", source.url, "--until-idle", 2)
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    nodes = [Node(skitter, "crawl", "page_numbers.py", *job, "-o", "out.jsonl", *settings)]
    try:
        wait_for(lambda: pages.served > 0, nodes)
        nodes.append(Node(skitter, "worker", *job))

        def restart_redis() -> None:
            # A node that is just being started does not wait for a server: it says that there is none.
            wait_for(lambda: all(node.has_joined() for node in nodes), nodes)
            server.kill()
            server.start()

        kills = [nodes[0].kill, nodes[1].kill, restart_redis] * size.kills
        chance.shuffle(kills)
        for number, kill in enumerate(kills):
            # Spread over the first two thirds of the crawl: a node that is killed after the end would begin a new run.
            due = size.messages * 2 * (number + 1) // (3 * (len(kills) + 1))
            wait_for(lambda due=due: pages.served >= due, nodes)  # type: ignore[misc]
            kill()
        for node in nodes:
            node.process.wait(FINISH_SECONDS + size.messages / 100)
    finally:
        for node in nodes:
            node.end()
    logs = "".join((skitter.folder / name).read_text()[-3000:] for name in ("crawl.log", "worker.log"))
    assert [node.process.returncode for node in nodes] == [0, 0], logs
    found = Counter(record["n"] for record in skitter.lines("out.jsonl"))
    assert [n for n, times in found.items() if times > 1] == [], "nothing is doubled"
    assert set(range(size.messages)) - set(found) == set(), f"nothing is lost\n{logs}"
    assert source.dead_letters() == set(poison)
    (intake,) = skitter.json("status", "--job", "numbers", "--frontier", f"{server.url}/0")["intakes"]
    assert intake["closed"]
    assert intake["backlog"] in (0, None)
    source.close()


def wait_for(condition: Callable[[], bool], nodes: list[Node]) -> None:
    deadline = time.monotonic() + FINISH_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not go on"
        assert all(node.process.poll() in (None, 0) for node in nodes), "a node has failed"
        time.sleep(0.02)


KINDS = ["list", "set", "zset", "stream", "file"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "list" else pytest.mark.soak) for kind in KINDS]
)
def test_a_thousand_messages(kind: str, skitter: Any, own_redis: Any, pages: PageServer) -> None:
    suffer(kind, SLICE, skitter, own_redis(*DURABLE), pages)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [TEN_THOUSAND, HUNDRED_THOUSAND], ids=["ten-thousand", "hundred-thousand"])
def test_many_messages(kind: str, size: Size, skitter: Any, own_redis: Any, pages: PageServer) -> None:
    suffer(kind, size, skitter, own_redis(*DURABLE), pages)
