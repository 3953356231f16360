"""The exact, bounded, expiring and layered sets in memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence

import pytest

from skitter.dedup import BloomFilter, BoundedSet, ExactSet, ExpiringSet, LayeredSet, SeenSet
from skitter.errors import UsageError

KEYS = [f"https://shop.example/{number}" for number in range(1000)]


@pytest.mark.parametrize(
    "seen",
    [
        ExactSet(),
        BoundedSet(max_bytes=1 << 20),
        ExpiringSet(seconds=3600),
        BloomFilter(capacity=1000),
        LayeredSet(ExactSet(), bloom=BloomFilter(capacity=1000)),
    ],
    ids=lambda seen: type(seen).__name__,
)
def test_every_set_says_once_that_a_key_is_new_whoever_asks(seen: SeenSet) -> None:
    assert seen.add_many(["a", b"a", "b", "a\udc80"]) == [True, False, True, True]
    assert (seen.add("b"), seen.add("c")) == (False, True)
    assert asyncio.run(seen.add_async("c")) is False
    assert asyncio.run(seen.add_many_async(iter(["c", "d"]))) == [False, True]
    assert asyncio.run(seen.contains_many_async(["d", "e"])) == [True, False]
    assert ("d" in seen, "e" in seen) == (True, False)
    assert seen.add_many([]) == []
    with seen:
        assert seen.add("e") is True


def test_a_bounded_set_keeps_the_newest_keys_and_its_memory() -> None:
    tracemalloc.start()
    try:
        seen = BoundedSet(max_bytes=1 << 20)
        for start in range(0, 50_000, 100):
            seen.add_ids(range(start, start + 100))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    half = (1 << 20) // 160 // 2
    assert half <= len(seen) <= 2 * half
    assert seen.contains_ids([0, 49_999, 50_000 - half]) == [False, True, True]


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("started", [1000.0, 1001.0, 1009.99, 0.0])
def test_a_key_is_kept_an_eighth_too_long_at_most_and_never_too_short(started: float) -> None:
    clock = Clock(started)
    seen = ExpiringSet(seconds=80, clock=clock)
    seen.add("a")
    for passed in (0, 9.99, 10, 35, 79.99, 80):
        clock.now = started + passed
        assert "a" in seen, passed
    clock.now = started + 90
    assert "a" not in seen
    assert seen.add("a")


def test_adding_again_does_not_start_the_time_of_a_key_anew() -> None:
    clock = Clock(5.0)
    seen = ExpiringSet(seconds=80, clock=clock)
    seen.add("a")
    clock.now = 75.0
    assert not seen.add("a")
    clock.now = 95.0
    assert seen.add("a")


def test_a_set_that_nobody_has_asked_for_long_is_empty_and_a_clock_that_goes_back_forgets_nothing() -> None:
    clock = Clock(5.0)
    seen = ExpiringSet(seconds=80, clock=clock)
    seen.add("a")
    clock.now = 100_000.0
    assert len(seen) == 0
    seen.add("b")
    clock.now = 50.0
    assert "b" in seen
    assert not seen.add("b")


class Asked(ExactSet):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(secret=b"same")
        self.asked: list[int] = []

    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        self.asked += ids
        return super().contains_ids(ids)

    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        self.asked += ids
        return super().add_ids(ids)


def test_a_layered_set_asks_its_store_only_for_what_no_layer_before_it_can_answer() -> None:
    store = Asked()
    seen = LayeredSet(store, bloom=BloomFilter(capacity=1000))
    assert all(seen.add_many(KEYS))
    assert len(store.asked) == 1000
    assert not any(seen.add_many(KEYS))
    assert all(seen.contains_many(KEYS))
    assert len(store.asked) == 1000, "the cache knows them"
    assert not any(seen.contains_many(["x", "y"]))
    assert len(store.asked) == 1000, "the filter does not"
    stats = seen.stats()
    assert (stats.cache_hits, stats.bloom_misses, stats.store_hits, stats.false_positives_avoided) == (2000, 1002, 0, 0)


def test_what_the_filter_takes_for_known_by_mistake_is_new_all_the_same_and_counted() -> None:
    store, bloom = Asked(), BloomFilter(capacity=1000)
    LayeredSet(store, bloom=bloom).add_many(KEYS)
    # Another store with the same hashes, before which the filter is wrong about every key.
    other = LayeredSet(Asked(), bloom=bloom)
    assert all(other.add_many(KEYS))
    assert other.stats().false_positives_avoided == 1000
    # And another process with the first store: its cache is empty, the store has them.
    third = LayeredSet(store, bloom=bloom)
    assert not any(third.add_many(KEYS))
    assert third.stats().store_hits == 1000


def test_a_key_whose_adding_failed_is_not_in_the_cache() -> None:
    class Broken(ExactSet):
        def add_ids(self, ids: Sequence[int]) -> list[bool]:
            raise OSError("unavailable")

    seen = LayeredSet(Broken())
    with pytest.raises(OSError, match="unavailable"):
        seen.add("a")
    assert "a" not in seen


@pytest.mark.parametrize("store", [ExpiringSet(seconds=1), BoundedSet(max_bytes=1000)])
def test_a_set_that_forgets_cannot_be_a_layer(store: SeenSet) -> None:
    with pytest.raises(UsageError, match="a set that forgets keys cannot have a cache"):
        LayeredSet(store)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="too little memory for a set: 1 bytes"):
        BoundedSet(max_bytes=1)
    with pytest.raises(UsageError, match="not a duration: 0 seconds"):
        ExpiringSet(seconds=0)
