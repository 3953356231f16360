"""The Bloom filter in memory: its false rate, its size, and that it forgets nothing."""

from __future__ import annotations

import logging
import math
import random
import threading

import pytest

from skitter.dedup import BloomFilter
from skitter.dedup.bloom_layout import layout
from skitter.errors import UsageError

RATE = 0.0001


def random_ids(seed: int, number: int) -> list[int]:
    """Ids as a hash makes them. Two lists of them have next to none in common."""
    source = random.Random(seed)
    return [source.getrandbits(64) - (1 << 63) for _ in range(number)]


def false_positives(seen: BloomFilter, probes: int) -> int:
    return sum(sum(seen.contains_ids(random_ids(1000 + piece, probes // 10))) for piece in range(10))


@pytest.mark.parametrize(
    ("capacity", "probes"), [(20_000, 200_000), pytest.param(1_000_000, 10_000_000, marks=pytest.mark.soak)]
)
def test_of_new_keys_no_more_than_the_stated_rate_are_taken_for_known(capacity: int, probes: int) -> None:
    seen = BloomFilter(capacity=capacity, error_rate=RATE)
    seen.add_ids(random_ids(1, capacity))
    assert false_positives(seen, probes) <= 1.1 * RATE * probes
    assert len(seen._bitmaps) == 1


@pytest.mark.parametrize(
    ("capacity", "probes"), [(20_000, 200_000), pytest.param(1_000_000, 10_000_000, marks=pytest.mark.soak)]
)
def test_at_three_times_the_capacity_the_rate_still_holds(capacity: int, probes: int) -> None:
    seen = BloomFilter(capacity=capacity, error_rate=RATE)
    seen.add_ids(random_ids(1, 3 * capacity))
    assert false_positives(seen, probes) <= 1.1 * RATE * probes
    assert len(seen._bitmaps) == 2


def test_what_was_added_is_never_new_again() -> None:
    seen = BloomFilter(capacity=1000)
    keys = [f"https://shop.example/{number}" for number in range(20_000)]
    seen.add_many(keys)
    assert not any(seen.add_many(keys))
    assert all(seen.contains_many(keys))


def test_a_key_is_new_once() -> None:
    seen = BloomFilter(capacity=10)
    assert seen.add_many(["a", "b", "a"]) == [True, True, False]
    assert (seen.add("b"), seen.add("c"), "c" in seen, "d" in seen) == (False, True, True, False)
    assert len(seen) == 3


@pytest.mark.parametrize("capacity", [10_000, 30_000, 1_000_000, 30_000_000, 10_000_000_000])
@pytest.mark.parametrize("rate", [0.01, 0.0001, 0.000001])
def test_bytes_per_key_are_those_of_theory_and_half_the_rate_and_no_block_is_larger_than_a_megabyte(
    capacity: int, rate: float
) -> None:
    first = layout(capacity, rate)[0]
    assert first.bits / capacity <= 1.01 * -math.log(0.375 * rate) / math.log(2) ** 2
    assert first.block_bits <= 8 << 20


def test_at_the_default_rate_a_key_takes_no_more_than_fifteen_percent_above_theory() -> None:
    assert layout(1_000_000, 0.0001)[0].bits / 8 / 1_000_000 <= 1.15 * -math.log(0.0001) / math.log(2) ** 2 / 8


def test_the_fill_tells_the_false_rate() -> None:
    seen = BloomFilter(capacity=20_000, error_rate=0.01)
    assert seen.stats().implied_error_rate == 0
    seen.add_ids(random_ids(1, 60_000))
    stats = seen.stats()
    # The sum of two sub-filters, which is below the half of the stated rate.
    assert stats.implied_error_rate == pytest.approx(false_positives(seen, 400_000) / 400_000, rel=0.1)
    assert stats.implied_error_rate < 0.005
    assert stats.fill == pytest.approx(0.5, abs=0.05)


def test_nobody_can_craft_keys_that_collide_because_each_filter_hashes_in_its_own_way() -> None:
    first, second = BloomFilter(capacity=1000, error_rate=0.01), BloomFilter(capacity=1000, error_rate=0.01)
    for seen in (first, second):
        seen.add_many(str(number) for number in range(1000))
    wrong = [key for key in map("x{}".format, range(100_000)) if key in first]
    assert len(wrong) > 100
    assert sum(second.contains_many(wrong)) < 0.05 * len(wrong)


def test_at_ninety_percent_of_the_capacity_it_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    seen = BloomFilter(capacity=100)
    with caplog.at_level(logging.WARNING, "skitter.dedup"):
        seen.add_ids(random_ids(1, 89))
        assert (caplog.records, seen.stats().is_nearly_full) == ([], False)
        seen.add_ids(random_ids(2, 1))
        seen.add_ids(random_ids(3, 1))
    assert [record.getMessage() for record in caplog.records] == [
        "a Bloom filter has 90 of 100 keys: beyond its capacity, each doubling takes more than twice its memory"
    ]
    assert seen.stats().is_nearly_full


def test_threads_that_add_the_same_keys_at_once_are_told_once_that_each_is_new() -> None:
    seen, ids, new = BloomFilter(capacity=5000), random_ids(1, 5000), []
    pieces = [ids[start : start + 50] for start in range(0, 5000, 50)]

    def add() -> None:
        new.append(sum(sum(seen.add_ids(piece)) for piece in pieces))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(new) == len(seen)


@pytest.mark.parametrize(
    ("capacity", "error_rate", "text"),
    [(0, 0.1, "invalid capacity: 0"), (1, 0.0, "invalid error rate: 0.0"), (1, 1.0, "invalid error rate: 1.0")],
)
def test_impossible_sizes_are_refused(capacity: int, error_rate: float, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        BloomFilter(capacity=capacity, error_rate=error_rate)
