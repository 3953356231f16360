"""What a job takes of a Redis's memory: a seen URL, a queued request, a host with one request.

redis_memory.py [--queued 1000000] [--hosts 1000] [--lonely 1000000] [--referrer] [--redis-url redis://HOST:PORT]

``used_memory`` before and after adding; ``seen`` is MEMORY USAGE of a sample of the buckets. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path

from bench_frontier import Stores
from private_redis import redis_at

from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import prefix_of
from skitter.model.job import JobSpec
from skitter.model.request import Fingerprinter, Request
from skitter.redis_driver.address import parse_address

BATCH = 256
SAMPLE = 500


async def fill(stores: Stores, name: str, count: int, hosts: int, referrer: str | None) -> dict[str, float]:
    """Bytes for each of ``count`` requests spread over so many hosts."""
    frontier = stores.frontier(name)
    before = await stores.bytes_of(name)
    await frontier.begin(JobSpec(name=name, spider="", settings={"obey_robots": False}))
    fingerprinter = Fingerprinter((await frontier.job()).secret)
    chars, began = 0, time.perf_counter()
    for first in range(0, count, BATCH):
        urls = [
            f"http://host{number % hosts}.example/catalogue/section-{number % 97}/page-{number}.html"
            for number in range(first, min(first + BATCH, count))
        ]
        chars += sum(map(len, urls))
        await frontier.add([fingerprinter.entry(Request(url, depth=3, referrer=referrer)) for url in urls])
    seconds = time.perf_counter() - began
    used = await stores.bytes_of(name) - before
    await frontier.close()
    return {
        "count": count,
        "bytes_each": round(used / count, 1),
        "url_chars": round(chars / count, 1),
        "bytes_beyond_url": round((used - chars) / count, 1),
        "seconds": round(seconds, 1),
    }


async def seen_bytes(url: str, name: str, count: int) -> dict[str, float]:
    """Of the sets that hold the identities, each."""
    server = RedisServer(parse_address(url))
    found: list[int] = []
    sizes: list[int] = []
    while len(found) < SAMPLE:
        key = f"{prefix_of(name)}1:seen:{len(found)}"
        size = await server.command("MEMORY", "USAGE", key)
        if size is None:
            break
        found.append(size)
        sizes.append(await server.command("SCARD", key))
    encoding = await server.command("OBJECT", "ENCODING", f"{prefix_of(name)}1:seen:0")
    await server.close()
    return {
        "bytes_each": round(sum(found) / sum(sizes), 2),
        "mean_of_bucket": round(sum(sizes) / len(sizes), 1),
        "largest_bucket": max(sizes),
        "encoding": encoding.decode(),
        "count": count,
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description="memory of a Redis frontier")
    parser.add_argument("--queued", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--lonely", type=int, default=1_000_000)
    parser.add_argument("--referrer", action="store_true", help="requests carry the page they were found on")
    parser.add_argument("--redis-url", default="", help="default: a private server of its own")
    options = parser.parse_args()
    referrer = "http://host0.example/catalogue/index.html" if options.referrer else None
    with redis_at(options.redis_url) as url:
        stores = Stores("redis", Path(), url)
        report = {"queued": await fill(stores, "memory-queued", options.queued, options.hosts, referrer)}
        report["seen"] = await seen_bytes(stores.redis_url, "memory-queued", options.queued)
        report["lonely"] = await fill(stores, "memory-lonely", options.lonely, options.lonely, referrer)
        await stores.forget(["memory-queued", "memory-lonely"])
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    asyncio.run(main())
