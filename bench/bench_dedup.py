"""Dedup: keys a second, bytes a key and mistakes of each kind of set, beside scrapy-redis-bloomfilter.

    python bench/bench_dedup.py [--keys 1000000] [--probes 10000000] [--times 1] [--only NAME...] [--redis URL]

Each set is made for ``--keys`` and gets ``--times`` as many: in batches, then all of them again, then some thousand one
by one. Then ``--probes`` keys that were never added are looked for in filters: *wrong* are those taken for known. Keys
are URLs, so hashing them is a part of the time. All sets and the peer run one after the other, in this process and in
one of the peer's own, against one private Redis without persistence. ``--write`` makes the section of
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import redis
from others import ENVIRONMENTS, SCRIPTS, NotInstalledError, Peer, install, surroundings
from private_redis import redis_at
from report import table, write_section

from skitter.dedup import BloomFilter, ExactSet, RedisBloomFilter, RedisExactSet, SeenSet

BATCH = 500
SINGLE = 20_000
RATE = 0.0001
PEER = Peer(
    name="bloomfilter",
    title="scrapy-redis-bloomfilter",
    script="run_bloomfilter.py",
    environment="bloomfilter",
    redis=True,
)
NAMES = ("exact, memory", "bloom, memory", "exact, Redis", "bloom, Redis", PEER.title)


def keys(kind: str, number: int) -> Iterator[list[str]]:
    """Batches of URLs, which are made before the clock starts."""
    for first in range(0, number, BATCH):
        yield [f"https://shop.example/{kind}/{each}" for each in range(first, min(first + BATCH, number))]


def a_second(seen: SeenSet, kind: str, number: int) -> tuple[float, int]:
    """How many keys a second are added, and how many of them were new."""
    seconds, new = 0.0, 0
    for batch in keys(kind, number):
        started = time.perf_counter()
        new += sum(seen.add_many(batch))
        seconds += time.perf_counter() - started
    return number / seconds, new


def measure(name: str, seen: SeenSet, options: argparse.Namespace, taken: Callable[[], int]) -> dict[str, Any]:
    total = options.keys * options.times
    new_rate, new = a_second(seen, "page", total)
    known_rate, again = a_second(seen, "page", total)
    assert again == 0, "a key was new twice"
    size = taken()
    started = time.perf_counter()
    for each in range(SINGLE):
        seen.add(f"https://shop.example/single/{each}")
    single_rate = SINGLE / (time.perf_counter() - started)
    # An exact set makes no mistakes: tests say so.
    has_filter = isinstance(seen, BloomFilter | RedisBloomFilter)
    wrong = f"{sum(sum(seen.contains_many(batch)) for batch in keys('other', options.probes)):,}" if has_filter else ""
    row = {
        "set": name,
        "new keys/s": f"{new_rate:,.0f}",
        "known keys/s": f"{known_rate:,.0f}",
        "one by one/s": f"{single_rate:,.0f}",
        "bytes/key": f"{size / total:.2f}",
        "called known when added": f"{total - new:,}",
        f"wrong of {options.probes:,}": wrong,
    }
    print(json.dumps(row), file=sys.stderr)
    return row


def measure_peer(url: str, options: argparse.Namespace) -> dict[str, Any]:
    install(PEER)
    command = [str(ENVIRONMENTS / PEER.environment / "bin" / "python"), str(SCRIPTS / PEER.script)]
    told = subprocess.run(
        [*command, url, str(options.keys * options.times), str(min(options.probes, 1_000_000))],
        capture_output=True, text=True, check=True, env=surroundings(),
    )  # fmt: skip
    found = json.loads(told.stdout)
    row = {
        "set": f"{PEER.title} {found['version']}",
        "new keys/s": "",
        "known keys/s": "",
        "one by one/s": f"{found['rate']:,.0f}",
        "bytes/key": f"{found['bytes'] / 1_000_000:,.0f} MB",
        "called known when added": f"{found['known']:,} of {found['added']:,}",
        f"wrong of {options.probes:,}": f"{found['wrong']:,} of {found['probes']:,}",
    }
    print(json.dumps(row), file=sys.stderr)
    return row


def exact_taken(exact: ExactSet) -> int:
    """The table and its numbers."""
    return sys.getsizeof(exact._ids) + 32 * len(exact)  # noqa: SLF001  nobody else needs to know


def redis_taken(client: redis.Redis) -> int:
    return sum(client.memory_usage(key, samples=0) for key in client.scan_iter(match="skitter:dedup:*", count=1000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--probes", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--redis", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    with redis_at(options.redis) as url, redis.Redis.from_url(url) as client:
        client.ping()
        for name in options.only:
            if name == "exact, memory":
                exact = ExactSet()
                rows.append(measure(name, exact, options, lambda exact=exact: exact_taken(exact)))
            elif name == "bloom, memory":
                bloom = BloomFilter(capacity=options.keys, error_rate=RATE)
                rows.append(measure(name, bloom, options, lambda bloom=bloom: bloom.stats().bits // 8))
            elif name == PEER.title:
                try:
                    rows.append(measure_peer(url, options))
                except NotInstalledError as error:
                    print(f"not measured: {PEER.title}: {error}", file=sys.stderr)
            else:
                seen = (
                    RedisExactSet(url, "bench-exact")
                    if name == "exact, Redis"
                    else RedisBloomFilter(url, "bench-bloom", capacity=options.keys, error_rate=RATE)
                )
                rows.append(measure(name, seen, options, lambda: redis_taken(client)))
                seen.drop()
    text = (
        f"## Dedup\n\n{options.keys * options.times:,} URLs into sets made for {options.keys:,}"
        f" (Bloom filters: error rate {RATE}), in batches of {BATCH}; the peer has no batches, and its own sizes.\n\n"
        f"{table(rows)}"
    )
    print(text)
    if options.write:
        write_section("dedup", "make bench BENCH=dedup", text)


if __name__ == "__main__":
    main()
