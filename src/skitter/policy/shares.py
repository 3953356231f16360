"""Shares of the workers, while fewer requests are ready than slots are free.

A worker that was granted fewer requests than it asked for is *short*, and is remembered for a while. Whoever asks while
others are short gets its share of what is ready, by slots, and leaves the rest to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

SHORT_SECONDS = 2.0
"""A worker counts as short for so long after it asked: twice the time after which an idle one asks again."""
SHORT_WORKERS = 32
"""Short workers that are remembered at a time. Of more, these stand for all: each grant looks at every one of them."""
SHARED_POLL_SECONDS = 0.05
"""A short worker asks again this soon, while something is left for others to take."""
OUTCOMES_AVERAGED = 16
LEAST_QUALITY = 0.05
GOLDEN_RATIO = 0.618033988749895


class ShortWorker(msgspec.Struct, array_like=True):
    """A worker that was granted fewer requests than it asked for."""

    slots: int
    missing: int
    """How many of its slots are free."""
    asked_at: float
    quality: float = 1.0
    """Moving average of its outcomes: 1 if all pages came, 0 if all failed."""

    @property
    def weight(self) -> float:
        return self.slots * self.quality


def quality_after(quality: float, good: int, outcomes: int) -> float:
    """Return the moving average of a worker's outcomes after some more, of which some were no failures."""
    averaged = (quality * OUTCOMES_AVERAGED + good) / (OUTCOMES_AVERAGED + outcomes)
    return max(LEAST_QUALITY, averaged)


def share_of(worker: ShortWorker, others: Iterable[ShortWorker], ready: int, now: float) -> int:
    """Return how many of ``ready`` requests a worker may be granted that misses some, while others do.

    One request after the other belongs to the worker whose slots are filled the least. So each request belongs to
    somebody, and none is left over. A worker with nothing to do gets one in any case.
    """
    # Four slots of 148 are 1.6 of 60 requests. What a part of a request counts differs each second,
    # so that on average it is worth what it is.
    part = math.floor(now) * GOLDEN_RATIO % 1.0
    busy = max(0, worker.slots - worker.missing)
    claims = [(other.weight, max(0, other.slots - other.missing), other.missing) for other in others]
    least, most = 0, min(worker.missing, ready)
    while least < most:
        count = (least + most + 1) // 2
        level = (busy + count - 1 + part) / worker.weight
        before = 0
        for weight, filled, missing in claims:
            before += max(0, min(missing, math.ceil(level * weight - part) - filled))
        if before + count <= ready:
            least = count
        else:
            most = count - 1
    return max(least, min(ready, 1)) if not busy else least
