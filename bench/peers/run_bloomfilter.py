"""scrapy-redis-bloomfilter as its dupefilter uses it: REDIS_URL KEYS PROBES. Prints one JSON object."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from importlib.metadata import version

import redis
from scrapy_redis_bloomfilter.bloomfilter import BloomFilter
from scrapy_redis_bloomfilter.defaults import BLOOMFILTER_BIT, BLOOMFILTER_HASH_NUMBER

SECONDS = 30.0


def fingerprint(kind: str, number: int) -> str:
    return hashlib.sha1(f"https://shop.example/{kind}/{number}".encode(), usedforsecurity=False).hexdigest()


def main() -> None:
    url, number, probes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    server = redis.Redis.from_url(url)
    before = server.info("memory")["used_memory"]
    seen = BloomFilter(server, "bench:bloomfilter", BLOOMFILTER_BIT, BLOOMFILTER_HASH_NUMBER)
    # Half a minute of them says the rate; all of them would take a quarter of an hour.
    started, known, done = time.perf_counter(), 0, 0
    for each in range(number):
        value = fingerprint("page", each)
        if seen.exists(value):
            known += 1
        else:
            seen.insert(value)
        done += 1
        if time.perf_counter() - started > SECONDS:
            break
    seconds = time.perf_counter() - started
    started, wrong, asked = time.perf_counter(), 0, 0
    for each in range(probes):
        wrong += bool(seen.exists(fingerprint("other", each)))
        asked += 1
        if time.perf_counter() - started > SECONDS:
            break
    told = {
        "version": version("scrapy-redis-bloomfilter"),
        "rate": done / seconds,
        "added": done,
        "known": known,
        "wrong": wrong,
        "probes": asked,
        "bytes": server.info("memory")["used_memory"] - before,
    }
    server.delete("bench:bloomfilter")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
