"""How fast intakes are read, next to a bare client that drains the same source.

bench_intakes.py [--messages 20000] [--rounds 3] [--write]

Each round fills a source three times. ``bare`` is the driver's shortest loop that takes all messages in batches of
1,000 and acknowledges them, where there is such a thing: what a script would do that may lose them. ``intake`` is
skitter's intake without a frontier: read, acknowledge. ``crawl`` is the whole reader of a node: messages parsed, added
to a SQLite frontier (a new request each), acknowledged. Redis keeps nothing on disk, RabbitMQ and Kafka
do. Prints one JSON object; with --write, the table goes to docs/benchmarks.md as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import redis
from broker_sources import broker_sources
from private_redis import redis_at
from report import table, write_section

from skitter.frontier.sqlite import sqlite_frontier
from skitter.intakes.contract import Intake
from skitter.intakes.sources import intake_of, parse_source
from skitter.model.job import JobSpec
from skitter.node.intake_reader import IntakeReader
from skitter.stop_request import StopRequest

TEXT = """\
## Intakes

{messages:,} messages of {size} bytes from a source, each a new URL; messages a second, the median of {rounds} rounds.
`bare` is the driver's own loop, which loses what it holds when it is killed; `intake` reads and acknowledges without a
frontier; `crawl` also adds each request to a SQLite frontier, which syncs every batch to the disk. `ratio` is `crawl`
to `bare`.
"""
BATCH = 1000
KEY = "urls"


class Source:
    """A source that is filled again and again."""

    def __init__(self, kind: str, url: str, folder: Path) -> None:
        self.kind = kind
        self._client: Any = redis.Redis.from_url(url)
        self._path = folder / "urls.txt"
        self.url = f"file:{self._path}" if kind == "file" else f"{url}?type={kind}#{KEY}"

    def fill(self, bodies: list[bytes]) -> None:
        if self.kind == "file":
            self._path.write_bytes(b"\n".join(bodies) + b"\n")
            return
        self._client.flushdb()
        for first in range(0, len(bodies), BATCH):
            some = bodies[first : first + BATCH]
            if self.kind == "list":
                self._client.rpush(KEY, *some)
            elif self.kind == "set":
                self._client.sadd(KEY, *some)
            elif self.kind == "zset":
                self._client.zadd(KEY, dict.fromkeys(some, 0))
            else:
                with self._client.pipeline(transaction=False) as pipe:
                    for body in some:
                        pipe.xadd(KEY, {"message": body})
                    pipe.execute()

    def drain(self) -> int:
        """Take everything with the driver alone; how many."""
        if self.kind == "file":
            with self._path.open("rb") as file:
                return sum(1 for line in file if line.strip())
        if self.kind == "stream":
            return self._drain_stream()
        take = {"list": self._client.lpop, "set": self._client.spop, "zset": self._client.zpopmax}[self.kind]
        total = 0
        while found := take(KEY, BATCH):
            total += len(found)
        return total

    def _drain_stream(self) -> int:
        self._client.xgroup_create(KEY, "bare", id="0")
        total = 0
        while answer := self._client.xreadgroup("bare", "me", {KEY: ">"}, count=BATCH):
            ids = [entry for entry, _ in answer[0][1]]
            self._client.xack(KEY, "bare", *ids)
            total += len(ids)
        return total

    def intake(self) -> Intake:
        return intake_of(parse_source(self.url, job="bench"))


def read_intake(source: Any, messages: int) -> int:
    intake, total = source.intake(), 0
    intake.open(b"")
    while total < messages:
        found = intake.read(BATCH, 1.0)
        intake.ack(found)
        total += len(found)
    intake.close()
    return total


async def read_into_frontier(source: Any, messages: int, path: Path) -> int:
    frontier = sqlite_frontier(path, "bench")
    await frontier.begin(JobSpec(name="bench", spider="", settings={}))
    reader = IntakeReader(
        frontier,
        source.intake(),
        max_queued=2 * messages,
        until_idle_seconds=0.05,
        stop=StopRequest(),
        on_event=lambda _: None,
    )
    await reader.open()
    await reader.run()
    added = (await frontier.intakes())[0].added
    await frontier.close()
    return added


def rate(messages: int, work: Callable[[], int]) -> float:
    began = time.perf_counter()
    taken = work()
    seconds = time.perf_counter() - began
    if taken != messages:
        raise SystemExit(f"{taken} messages of {messages} came")
    return messages / seconds


def measure(make: Callable[[Path], Any], messages: int, rounds: int) -> tuple[dict[str, str], int]:
    found: dict[str, list[float]] = {"bare": [], "intake": [], "crawl": []}
    bodies = [b"https://shop-%d.example/products/%d?page=1" % (n % 100, n) for n in range(messages)]
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            source = make(Path(folder))
            source.fill(bodies)
            found["bare"].append(rate(messages, source.drain))
            source.fill(bodies)
            found["intake"].append(rate(messages, lambda: read_intake(source, messages)))  # noqa: B023  called at once
            source.fill(bodies)
            path = Path(folder) / "frontier.db"
            whole = lambda: asyncio.run(read_into_frontier(source, messages, path))  # noqa: B023, E731  called at once
            found["crawl"].append(rate(messages, whole))
    middle = {name: statistics.median(rates) for name, rates in found.items()}
    row = {name: f"{number:,.0f}" for name, number in middle.items()}
    return {"source": source.kind, **row, "ratio": f"{middle['crawl'] / middle['bare']:.2f}"}, len(bodies[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="how fast intakes are read")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    options = parser.parse_args()
    rows, size = [], 0
    with redis_at() as url, broker_sources() as brokers:
        own = [partial(Source, kind, url) for kind in ("list", "set", "zset", "stream", "file")]
        for make in (*own, *brokers):
            row, size = measure(make, options.messages, options.rounds)
            rows.append(row)
    print(json.dumps(rows, indent=1))
    if options.write:
        about = TEXT.format(messages=options.messages, size=size, rounds=options.rounds)
        write_section("intakes", "make bench BENCH=intakes", about + "\n" + table(rows))


if __name__ == "__main__":
    main()
