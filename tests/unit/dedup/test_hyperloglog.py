"""HyperLogLog in memory: how far it is off, and merging."""

from __future__ import annotations

import math
import random

import pytest

from skitter.dedup import HyperLogLog
from skitter.dedup.hyperloglog import REGISTERS, changes_since, with_changes


@pytest.mark.parametrize(
    ("number", "trials"),
    [(100, 50), (1000, 50), (10_000, 30), (100_000, 10), pytest.param(1_000_000, 3, marks=pytest.mark.soak)],
)
def test_a_count_is_less_than_one_percent_off_on_average(number: int, trials: int) -> None:
    source = random.Random(1)
    errors = []
    for _ in range(trials):
        counted = HyperLogLog()
        counted.add_ids(source.getrandbits(64) - (1 << 63) for _ in range(number))
        errors.append(counted.count() / number - 1)
    assert math.sqrt(sum(error * error for error in errors) / trials) < 0.01


def test_a_key_counts_once() -> None:
    counted = HyperLogLog()
    assert counted.count() == 0
    for _ in range(10):
        counted.add_many(["a", "b", b"c"])
        counted.add("a")
    assert counted.count() == 3


def test_a_merged_count_is_that_of_both_together() -> None:
    first, second, both = HyperLogLog(), HyperLogLog(), HyperLogLog()
    first.add_many(str(number) for number in range(2000))
    second.add_many(str(number) for number in range(1000, 4000))
    both.add_many(str(number) for number in range(4000))
    first.merge(second)
    assert first.count() == both.count()


async def test_a_count_can_be_awaited() -> None:
    counted = HyperLogLog()
    await counted.add_many_async(["a", "b"])
    assert await counted.count_async() == 2


def test_changes_told_in_pieces_make_the_same_count() -> None:
    counted, told, pieces = HyperLogLog(), bytes(REGISTERS), 0
    for first in range(0, 3000, 1000):
        counted.add_many(str(number) for number in range(first, first + 1000))
        while changes := changes_since(told, counted.registers, 400):
            told, pieces = with_changes(told, changes), pieces + 1
    assert pieces > 3
    assert HyperLogLog.from_registers(told).count() == counted.count()


@pytest.mark.parametrize("registers", [b"\0", bytes(REGISTERS - 1) + b"\xff"])
def test_what_are_no_registers_is_refused(registers: bytes) -> None:
    with pytest.raises(ValueError, match="invalid registers"):
        HyperLogLog.from_registers(registers)
