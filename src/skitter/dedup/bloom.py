"""Bloom filter in memory. ``lua/bloom.lua`` is its counterpart in Redis."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from skitter.dedup.bloom_layout import SubFilter, layout, stats_of
from skitter.dedup.seen_set import SeenSet
from skitter.model.bloom_stats import BloomStats

_log = logging.getLogger("skitter.dedup")


class BloomFilter(SeenSet):
    """Bloom filter in memory. At an error rate of 0.0001 it needs 2.7 bytes per key.

    The error rate is the share of new keys that are reported as seen. A key that was added is never reported as new.
    Beyond its capacity the filter grows and keeps its error rate.
    """

    def __init__(self, *, capacity: int, error_rate: float = 0.0001, secret: bytes | None = None) -> None:
        super().__init__(secret)
        self._layout = layout(capacity, error_rate)
        self._error_rate = error_rate
        self._bitmaps: list[_Bitmap] = [_Bitmap(self._layout[0])]
        self._warned = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(bitmap.items for bitmap in self._bitmaps)

    def stats(self) -> BloomStats:
        """Return the number of items and bits, the fill, and the error rate that the fill implies."""
        items = [bitmap.items for bitmap in self._bitmaps]
        return stats_of(self._layout, items, [bitmap.ones for bitmap in self._bitmaps], self._error_rate)

    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        with self._lock:
            answers = [self._add(each) for each in ids]
        if not self._warned and any(answers) and (stats := self.stats()).is_nearly_full:
            self._warned = True
            warn_nearly_full(stats, "")
        return answers

    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        return [any(each in bitmap for bitmap in reversed(self._bitmaps)) for each in ids]

    def _add(self, each: int) -> bool:
        # The newest first: it is the largest, and has most of what comes again.
        if any(each in bitmap for bitmap in reversed(self._bitmaps)):
            return False
        last = self._bitmaps[-1]
        if last.items >= last.size.capacity and len(self._bitmaps) < len(self._layout):
            last = _Bitmap(self._layout[len(self._bitmaps)])
            self._bitmaps.append(last)
        last.add(each)
        return True


def warn_nearly_full(stats: BloomStats, name: str) -> None:
    """Log that a filter has reached 90 % of its capacity."""
    _log.warning(
        "a Bloom filter%s has %d of %d keys: beyond its capacity, each doubling takes more than twice its memory",
        name and f" {name}",
        stats.items,
        stats.capacity,
    )


class _Bitmap:
    """One sub-filter. Each block is allocated when it is first written."""

    __slots__ = ("_blocks", "items", "ones", "size")

    def __init__(self, size: SubFilter) -> None:
        self.size = size
        self.items = 0
        self.ones = 0
        """Number of bits that are set."""
        self._blocks: list[bytearray] = [bytearray()] * size.blocks

    def __contains__(self, each: int) -> bool:
        size = self.size.block_bits
        high, low = each >> 32 & 0xFFFFFFFF, each & 0xFFFFFFFF
        block = self._blocks[high * self.size.blocks >> 32]
        if not block:
            return False
        # Enhanced double hashing: the distance between positions grows too, or keys with one distance would meet often.
        position, distance = first_position(high, low, size)
        for number in range(self.size.hashes):
            if not block[position >> 3] >> (position & 7) & 1:
                return False
            position = (position + distance) % size
            distance += number
        return True

    def add(self, each: int) -> None:
        """Set the bits of an id that the sub-filter does not contain."""
        size = self.size.block_bits
        high, low = each >> 32 & 0xFFFFFFFF, each & 0xFFFFFFFF
        number = high * self.size.blocks >> 32
        if not self._blocks[number]:
            self._blocks[number] = bytearray(-(-size // 8))
        block = self._blocks[number]
        position, distance = first_position(high, low, size)
        for number in range(self.size.hashes):
            byte, bit = position >> 3, 1 << (position & 7)
            if not block[byte] & bit:
                block[byte] |= bit
                self.ones += 1
            position = (position + distance) % size
            distance += number
        self.items += 1


def first_position(high: int, low: int, size: int) -> tuple[int, int]:
    """Return the first position in a block of ``size`` bits, and the distance to the next.

    The leading bits of ``high`` select the block, and those of ``low`` the position. The remaining bits of both
    determine the distance.
    """
    return low * size >> 32, ((high & 0xFFFF) << 13 | low & 0x1FFF) % (size - 1) + 1
