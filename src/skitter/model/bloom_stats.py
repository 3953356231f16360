"""Statistics of a Bloom filter."""

from __future__ import annotations

import msgspec

NEARLY_FULL = 0.9
"""Share of its capacity from which a filter warns that it is nearly full."""


class BloomStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a Bloom filter."""

    items: int
    """Number of keys that were new when added."""
    capacity: int
    """Number of keys that the filter was created for. It can grow beyond, at the same error rate."""
    bits: int
    """Number of bits in all bitmaps."""
    fill: float
    """Share of the bits that are set."""
    error_rate: float
    """Configured error rate: the share of new keys that are reported as seen."""
    implied_error_rate: float
    """Current error rate, computed from the bits that are set."""

    @property
    def is_nearly_full(self) -> bool:
        """Whether the filter has reached 90 % of its capacity. Beyond the capacity it doubles."""
        return self.items >= NEARLY_FULL * self.capacity
