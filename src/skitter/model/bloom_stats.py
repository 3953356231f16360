"""The state of a Bloom filter, for people."""

from __future__ import annotations

import msgspec

NEARLY_FULL = 0.9
"""The part of its capacity from which on a filter says so."""


class BloomStats(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a Bloom filter."""

    items: int
    """Keys that were new."""
    capacity: int
    """Keys that it was made for. It grows beyond, at the stated rate."""
    bits: int
    """Bits of all bitmaps."""
    fill: float
    """The part of the bits that are set."""
    error_rate: float
    """The stated rate: of new keys, those that are taken for known."""
    implied_error_rate: float
    """The present rate, by the bits that are set."""

    @property
    def is_nearly_full(self) -> bool:
        """Whether it has 90 % of its capacity. Beyond the capacity it doubles."""
        return self.items >= NEARLY_FULL * self.capacity
