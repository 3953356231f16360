"""HyperLogLog: a count of distinct keys that needs 16 KiB, however many keys there are."""

from __future__ import annotations

import asyncio
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Self

from skitter.dedup.seen_set import Fingerprints, Key

PRECISION = 14
"""Bits of a hash that select its register. The standard error is 1.04 / sqrt(2 ** 14), which is 0.81 %."""
REGISTERS = 1 << PRECISION
_LEFT = 64 - PRECISION
CHANGE_BYTES = 3
"""Size of one change in ``changes_since``: a register and its new rank."""
_HASH_SECRET = b"skitter.dedup.HyperLogLog"
"""The same in all counts, because otherwise two counts could not be merged."""


class DistinctCount(ABC):
    """Count of distinct keys with a standard error of 0.81 %."""

    is_shared = False
    """Whether other processes share the count. Calls then wait for a server, and their async forms run in a thread."""

    @abstractmethod
    def add_many(self, keys: Iterable[Key]) -> None:
        """Add keys to the count."""

    @abstractmethod
    def count(self) -> int:
        """Return the approximate number of distinct keys that were added."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the keys of another count to this one."""

    def add(self, key: Key) -> None:
        """Add a key to the count."""
        self.add_many((key,))

    async def add_many_async(self, keys: Iterable[Key]) -> None:
        """Add keys like ``add_many``, without blocking the event loop."""
        if self.is_shared:
            await asyncio.to_thread(self.add_many, keys)
        else:
            self.add_many(keys)

    async def count_async(self) -> int:
        """Return the count like ``count``, without blocking the event loop."""
        return await asyncio.to_thread(self.count) if self.is_shared else self.count()


class HyperLogLog(DistinctCount):
    """Count of distinct keys in 16 KiB of memory, with a standard error of 0.81 %."""

    def __init__(self) -> None:
        self._registers = bytearray(REGISTERS)
        self._fingerprints = Fingerprints(_HASH_SECRET)
        self._lock = threading.Lock()

    @classmethod
    def from_registers(cls, registers: bytes) -> Self:
        """Return the count that has these ``registers``; empty bytes give an empty count.

        Raises ValueError if they are not the registers of a count.
        """
        count = cls()
        count._registers[:] = checked_registers(registers) or bytes(REGISTERS)
        return count

    @property
    def registers(self) -> bytes:
        """Copy of the registers, one byte each."""
        with self._lock:
            return bytes(self._registers)

    def add_many(self, keys: Iterable[Key]) -> None:
        self.add_ids(self._fingerprints.of(keys))

    def add_ids(self, ids: Iterable[int]) -> None:
        """Add keys that are already hashed: random 64-bit integers."""
        registers = self._registers
        with self._lock:
            for each in ids:
                register = each & (REGISTERS - 1)
                # The place of the first bit that is set in the rest of the hash; one more than it has: there is none.
                rank = _LEFT + 1 - ((each >> PRECISION) & ((1 << _LEFT) - 1)).bit_length()
                registers[register] = max(rank, registers[register])

    def count(self) -> int:
        """Return the approximate number of distinct keys that were added."""
        # Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017: no tables of bias are needed.
        histogram = [0] * (_LEFT + 2)
        for rank in self._registers:
            histogram[rank] += 1
        total = REGISTERS * _tau(1 - histogram[_LEFT + 1] / REGISTERS)
        for rank in range(_LEFT, 0, -1):
            total = 0.5 * (total + histogram[rank])
        total += REGISTERS * _sigma(histogram[0] / REGISTERS)
        return round(REGISTERS * REGISTERS / (2 * math.log(2) * total))

    def merge(self, other: Self) -> None:
        """Add the keys of another count to this one."""
        with self._lock:
            self._registers[:] = bytes(map(max, self._registers, other._registers))


def checked_registers(registers: bytes) -> bytes:
    """Return the registers, which are empty if nothing was counted. Raises ValueError if they are not valid."""
    if registers and (len(registers) != REGISTERS or max(registers) > _LEFT + 1):
        raise ValueError(f"invalid registers of a HyperLogLog: {len(registers)} bytes, {registers[:8].hex()}…")
    return registers


def changes_since(before: bytes, now: bytes, limit: int) -> bytes:
    """Return at most ``limit`` registers that have grown, each as two bytes for its index and one for its rank."""
    places = (place for place, (old, new) in enumerate(zip(before, now, strict=True)) if new > old)
    return b"".join(place.to_bytes(2, "big") + now[place : place + 1] for place in islice(places, limit))


def with_changes(registers: bytes, changes: bytes) -> bytes:
    """Return the registers with the changes of another count merged into them."""
    merged = bytearray(registers or bytes(REGISTERS))
    for place, rank in _read_changes(changes):
        merged[place] = max(merged[place], rank)
    return bytes(merged)


def checked_changes(changes: bytes) -> bytes:
    """Return the changes. Raises ValueError if they are not valid."""
    if len(changes) % CHANGE_BYTES or not all(
        place < REGISTERS and rank <= _LEFT + 1 for place, rank in _read_changes(changes)
    ):
        raise ValueError(f"invalid changes of registers: {len(changes)} bytes, {changes[:CHANGE_BYTES].hex()}…")
    return changes


def _read_changes(changes: bytes) -> Iterator[tuple[int, int]]:
    return ((high << 8 | low, rank) for high, low, rank in zip(*[iter(changes)] * CHANGE_BYTES, strict=True))


def _sigma(x: float) -> float:
    """Return the term for the share of registers that no key has reached."""
    if x == 1:
        return math.inf
    power, total = 1.0, x
    while True:
        x *= x
        before = total
        total += x * power
        power += power
        if total == before:
            return total


def _tau(x: float) -> float:
    """Return the term for the share of registers that are not saturated."""
    if x in (0, 1):
        return 0.0
    power, total = 1.0, 1 - x
    while True:
        x = math.sqrt(x)
        before = total
        power *= 0.5
        total -= (1 - x) ** 2 * power
        if total == before:
            return total / 3
