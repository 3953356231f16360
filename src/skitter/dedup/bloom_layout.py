"""Sizes of the sub-filters of a Bloom filter, and the error rate that their fill implies. Lua reads the same layout.

A filter starts with one sub-filter for its capacity. When that is full, a sub-filter of twice the capacity is added,
and so on. The error rates of all sub-filters sum to half of the requested rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from skitter.errors import UsageError
from skitter.model.bloom_stats import BloomStats

SUB_FILTERS = 12
"""Together they hold 4,095 times the capacity. Beyond that the last one keeps filling."""
TIGHTENING = 0.25
"""Ratio of the error rate of a sub-filter to that of its predecessor. Most filters have only the first sub-filter. With
a ratio of 0.5 it would need 15 % more memory than in theory; with 0.25 it needs 11 % more."""
MAX_BLOCK_BYTES = 1 << 20
MIN_BLOCK_BYTES = 1 << 14
BLOCKS = 64
"""Minimum number of blocks of a sub-filter, unless they have the minimum size. All blocks have the same size, which
Redis rounds up to a power of two."""
HEADER_BYTES = 16
"""A block is smaller than a power of two by this much, so that it fits together with the header of a Redis string."""


class SubFilter(msgspec.Struct, frozen=True):
    """Bitmap in blocks. A key belongs to one block and sets ``hashes`` bits in it."""

    capacity: int
    hashes: int
    blocks: int
    block_bits: int

    @property
    def bits(self) -> int:
        return self.blocks * self.block_bits


def layout(capacity: int, error_rate: float) -> list[SubFilter]:
    """Return all sub-filters that a filter can grow to."""
    if capacity < 1:
        raise UsageError(f"invalid capacity: {capacity}", hint="give the expected number of keys")
    if not 0 < error_rate < 1:
        raise UsageError(f"invalid error rate: {error_rate}", hint="give a number between 0 and 1, such as 0.0001")
    first = error_rate / 2 * (1 - TIGHTENING)
    return [_sub_filter(capacity << step, first * TIGHTENING**step) for step in range(SUB_FILTERS)]


def _sub_filter(capacity: int, rate: float) -> SubFilter:
    hashes = max(1, round(-math.log2(rate)))
    # The size at which so many keys, with so many bits each, give this rate.
    needed = math.ceil(-hashes * capacity / math.log1p(-(rate ** (1 / hashes))) / 8)
    block = min(MAX_BLOCK_BYTES, max(MIN_BLOCK_BYTES, 1 << max(0, (needed // BLOCKS).bit_length() - 1)))
    block -= HEADER_BYTES
    blocks = -(-needed // block)
    return SubFilter(capacity, hashes, blocks, 8 * max(8, -(-needed // blocks)))


def stats_of(
    sub_filters: Sequence[SubFilter], items: Sequence[int], ones: Sequence[int], error_rate: float
) -> BloomStats:
    """Return the state of a filter whose first sub-filters contain ``items`` keys and have ``ones`` bits set."""
    used = sub_filters[: len(items)]
    bits = sum(each.bits for each in used)
    unmistaken = math.prod(1 - (set_bits / each.bits) ** each.hashes for each, set_bits in zip(used, ones, strict=True))
    return BloomStats(
        items=sum(items),
        capacity=sub_filters[0].capacity,
        bits=bits,
        fill=sum(ones) / bits,
        error_rate=error_rate,
        implied_error_rate=1 - unmistaken,
    )


def stats_together(parts: Sequence[BloomStats]) -> BloomStats:
    """Return the combined state of filters that share the keys, like the shards of a job."""
    bits, items = sum(part.bits for part in parts), sum(part.items for part in parts)
    mistaken = sum(part.implied_error_rate * (part.items or 1) for part in parts)
    return BloomStats(
        items=items,
        capacity=sum(part.capacity for part in parts),
        bits=bits,
        fill=sum(part.fill * part.bits for part in parts) / bits,
        error_rate=parts[0].error_rate,
        implied_error_rate=mistaken / max(items, 1),
    )
