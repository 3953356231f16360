"""The sets in Redis: on one server, behind sentinels, in a cluster; by many processes at once."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import secrets
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import redis

from rig.servers.redis import OwnRedis
from skitter.dedup import (
    BloomFilter,
    LayeredSet,
    RedisBloomFilter,
    RedisExactSet,
    RedisExpiringSet,
    RedisHyperLogLog,
    SeenSet,
)
from skitter.errors import DedupError, UsageError

RATE = 0.0001
NUMBERS = itertools.count()


@pytest.fixture
def url(services: Any) -> str:
    return str(services.need("redis")["url"])


@pytest.fixture
def name() -> str:
    return secrets.token_hex(4)


@pytest.fixture(params=["redis", "redis-6.2", "redis-sentinel", "redis-cluster"])
def any_url(request: pytest.FixtureRequest, services: Any) -> str:
    return str(services.need(request.param)["url"])


def new_keys(number: int) -> list[str]:
    first = next(NUMBERS)
    return [f"{first}/{each}" for each in range(number)]


@pytest.mark.parametrize(
    "make",
    [
        RedisExactSet,
        lambda url, name: RedisBloomFilter(url, name, capacity=2000),
        lambda url, name: RedisExpiringSet(url, name, seconds=3600),
        lambda url, name: LayeredSet(
            RedisExactSet(url, name), bloom=RedisBloomFilter(url, f"{name}-bloom", capacity=2000)
        ),
    ],
    ids=["exact", "bloom", "expiring", "layered"],
)
def test_every_set_says_once_that_a_key_is_new_whoever_asks(
    any_url: str, name: str, make: Callable[[str, str], SeenSet]
) -> None:
    keys = new_keys(3000)
    with make(any_url, name) as seen, make(any_url, name) as other:
        assert seen.add_many(["a", b"a", "b"]) == [True, False, True]
        assert (other.add("b"), other.add("c")) == (False, True)
        assert asyncio.run(seen.add_async("c")) is False
        assert asyncio.run(seen.contains_many_async(["c", "e"])) == [True, False]
        assert sum(seen.add_many(keys)) >= 2995
        assert not any(other.add_many(keys))
        assert all(other.contains_many(keys))
        assert seen.add_many([]) == []
        if isinstance(seen, RedisExactSet | RedisBloomFilter | RedisExpiringSet):
            seen.drop()
            with make(any_url, name) as anew:
                assert not any(anew.contains_many(keys))


def test_a_count_in_redis_can_be_merged_also_from_another_slot(any_url: str, name: str) -> None:
    first, second = RedisHyperLogLog(any_url, name), RedisHyperLogLog(any_url, f"{name}-2")
    first.add_many(str(number) for number in range(2000))
    second.add_many(str(number) for number in range(1000, 4000))
    first.merge(second)
    assert first.count() == pytest.approx(4000, rel=0.03)
    assert asyncio.run(second.count_async()) == pytest.approx(3000, rel=0.03)
    for each in (first, second):
        each.drop()
        assert each.count() == 0
        each.close()


@pytest.mark.parametrize(
    ("times", "capacity", "rate", "probes"),
    [
        # Keys differ from run to run, so the stated rate allows hundreds: with five, chance alone exceeds it.
        (1, 10_000, 0.01, 50_000),
        (3, 4_000, 0.01, 50_000),
        pytest.param(1, 1_000_000, RATE, 10_000_000, marks=pytest.mark.soak),
        pytest.param(3, 1_000_000, RATE, 10_000_000, marks=pytest.mark.soak),
    ],
)
def test_of_new_keys_no_more_than_the_stated_rate_are_taken_for_known(
    url: str, name: str, times: int, capacity: int, rate: float, probes: int
) -> None:
    with RedisBloomFilter(url, name, capacity=capacity, error_rate=rate) as seen:
        seen.add_many(new_keys(times * capacity))
        assert sum(sum(seen.contains_many(new_keys(probes // 10))) for _ in range(10)) <= rate * probes
        stats = seen.stats()
        assert len(seen._state().record["items"]) == (1 if times == 1 else 2)
        assert 0 < stats.implied_error_rate <= rate / 2
        seen.drop()


@pytest.mark.soak
def test_keys_take_the_memory_that_is_said(url: str, name: str) -> None:
    keys = new_keys(200_000)
    with (
        redis.Redis.from_url(url) as client,
        RedisBloomFilter(url, name, capacity=len(keys)) as bloom,
        RedisExactSet(url, f"{name}-exact") as exact,
    ):

        def taken(prefix: str) -> int:
            found = client.scan_iter(match=f"skitter:dedup:{{{prefix}}}:*", count=1000)
            sizes = [(client.strlen(key) if client.type(key) == b"string" else 0, key) for key in found]
            assert max(sizes)[0] <= 1 << 20
            return sum(client.memory_usage(key, samples=0) for _, key in sizes)

        bloom.add_many(keys)
        assert taken(name) / len(keys) <= 1.15 * -math.log(RATE) / math.log(2) ** 2 / 8
        exact.add_many(keys)
        assert taken(f"{name}-exact") / len(keys) < 9.6
        bloom.drop()
        exact.drop()
        assert taken_keys(client, name) == 0


def taken_keys(client: redis.Redis, name: str) -> int:
    return len(client.keys(f"*{name}*"))


def test_a_bit_of_another_key_is_never_cleared_when_a_block_is_made(url: str, name: str) -> None:
    """Ids whose bits are the last ones of a block, among the first that come."""
    with RedisBloomFilter(url, name, capacity=50) as seen:
        ids = [(high << 32 | 0xFFFFFFFF) - (1 << 63) for high in range(0, 1 << 32, 1 << 27)]
        for each in ids:
            seen.add_ids([each])
        assert all(seen.contains_ids(ids))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("started", [1000.0, 1001.0, 1009.99])
def test_a_key_is_kept_an_eighth_too_long_at_most_and_never_too_short(url: str, name: str, started: float) -> None:
    clock = Clock()
    clock.now = started
    with RedisExpiringSet(url, name, seconds=80, clock=clock) as seen:
        seen.add("a")
        for passed in (0, 9.99, 10, 35, 79.99, 80):
            clock.now = started + passed
            assert "a" in seen, passed
            assert not seen.add("a")
        clock.now = started + 90
        assert "a" not in seen
        assert seen.add("a")


def test_generations_that_are_too_old_are_removed_a_piece_at_a_time(url: str, name: str) -> None:
    clock = Clock()
    with redis.Redis.from_url(url) as client, RedisExpiringSet(url, name, seconds=80, clock=clock) as seen:
        seen.add_many(new_keys(100_000))
        before = taken_keys(client, name)
        assert before > 450
        clock.now += 1000
        seen.add("a")
        assert before - 250 < taken_keys(client, name) < before - 150
        for key in ("b", "c", "d"):
            seen.add(key)
        assert taken_keys(client, name) == 2


_ADDER = """
import sys
from skitter.dedup import RedisBloomFilter, RedisExactSet
kind, url, name, number = sys.argv[1:]
kinds = {"exact": RedisExactSet, "bloom": lambda url, name: RedisBloomFilter(url, name, capacity=int(number))}
seen = kinds[kind](url, name)
sys.stdin.readline()
step = int(number) // 20
for first in range(0, int(number), step):
    keys = [str(each) for each in range(first, first + step)]
    print(*(key for key, new in zip(keys, seen.add_many(keys)) if new))
"""


@pytest.mark.parametrize(("number", "adders"), [(5_000, 4), pytest.param(1_000_000, 16, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["exact", "bloom"])
def test_processes_add_the_same_keys_at_once_and_none_is_new_twice(
    url: str, name: str, kind: str, number: int, adders: int
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(_ADDER), kind, url, name, str(number)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(command, **pipes, text=True) for _ in range(adders)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    new = [key for process in processes for key in process.communicate()[0].split()]
    assert len(new) == len(set(new)), "new twice"
    if kind == "exact":
        assert len(new) == number
    else:
        assert number - max(3, number * RATE) <= len(new) <= number
    assert all(process.returncode == 0 for process in processes)


def test_at_ninety_percent_of_the_capacity_it_says_so_once(
    url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisBloomFilter(url, name, capacity=100) as seen, caplog.at_level(logging.WARNING, "skitter.dedup"):
        seen.add_many(new_keys(89))
        assert caplog.records == []
        seen.add_many(new_keys(2))
        seen.add_many(new_keys(2))
    (record,) = caplog.records
    assert f"a Bloom filter {name} has 9" in record.getMessage()


def test_a_set_that_is_there_is_not_taken_for_another_kind_or_size(url: str, name: str) -> None:
    RedisBloomFilter(url, name, capacity=100).close()
    with pytest.raises(UsageError, match=f"the set {name} already exists with other parameters: bloom capacity=100 "):
        RedisBloomFilter(url, name, capacity=200)
    with pytest.raises(UsageError, match="with other parameters: bloom"):
        RedisExactSet(url, name)
    with pytest.raises(UsageError, match="invalid name of a set"):
        RedisExactSet(url, "a}b")


def test_a_filter_of_one_process_is_refused_before_a_set_of_many(url: str, name: str) -> None:
    with RedisExactSet(url, name) as store, pytest.raises(UsageError, match="a shared set needs a shared Bloom filter"):
        LayeredSet(store, bloom=BloomFilter(capacity=10))


def test_a_set_that_was_dropped_is_an_error_and_not_an_empty_set(url: str, name: str) -> None:
    with RedisExactSet(url, name) as seen, RedisExactSet(url, name) as other:
        seen.add("a")
        other.drop()
        with pytest.raises(DedupError, match=f"the set no longer exists: {name}"):
            seen.add("a")


def test_what_lies_there_and_is_something_else_is_an_error(url: str, name: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.set(f"skitter:dedup:{{{name}}}:state", b"\xc1")
        with pytest.raises(DedupError, match="was not written by this version of skitter"):
            RedisExactSet(url, name)
        client.delete(f"skitter:dedup:{{{name}}}:state")
        client.lpush(f"skitter:dedup:{{{name}}}:state", "x")
        with pytest.raises(DedupError, match=r"Redis says: .*wrong kind of value"):
            RedisExactSet(url, name)


def test_a_server_that_is_away_is_an_error_with_a_hint(own_redis: Callable[..., OwnRedis], name: str) -> None:
    server = own_redis()
    seen = RedisExactSet(server.url, name)
    seen.add("a")
    server.kill()
    with pytest.raises(DedupError, match="the Redis cannot be reached") as caught:
        seen.add("b")
    assert "is it running?" in caught.value.hint


def test_a_full_server_takes_nothing_and_the_call_can_be_made_again(
    own_redis: Callable[..., OwnRedis], name: str
) -> None:
    server = own_redis("--maxmemory-policy", "noeviction")
    with redis.Redis.from_url(server.url) as client, RedisBloomFilter(server.url, name, capacity=1000) as seen:
        client.config_set("maxmemory", 1)
        with pytest.raises(DedupError, match="is out of memory"):
            seen.add_many(["a", "b"])
        assert seen.contains_many(["a", "b"]) == [False, False]
        client.config_set("maxmemory", 0)
        assert seen.add_many(["a", "b"]) == [True, True]


def test_a_server_that_forgets_scripts_gets_them_again(url: str, name: str) -> None:
    with redis.Redis.from_url(url) as client, RedisExactSet(url, name) as seen:
        seen.add("a")
        client.script_flush()
        assert seen.add("b")
