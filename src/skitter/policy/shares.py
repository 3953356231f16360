"""Shares of the workers, while fewer requests are ready than slots are free.

A worker that was granted fewer requests than it asked for is *short*, and is remembered for a while. Whoever asks while
others are short gets its share of what is ready, by slots, and leaves the rest to them. What is left lies idle until
they ask, so a share binds only where pages take much longer than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

SHORT_SECONDS = 2.0
"""A worker that has not asked for so long after it was to ask is short no more. So long after a share was cut, short
workers are told to ask again soon."""
SHORT_WORKERS = 32
"""Short workers that are remembered at a time. Of more, these stand for all: each grant looks at every one of them."""
SHARED_POLL_SECONDS = 0.05
"""A short worker asks again this soon, while something is left for others to take."""
IDLE_PART = 0.25
"""What is left for a worker lies idle for this part of the time that a page is held, at most."""
MAX_HELD_SECONDS = 1.0
"""A page that was held longer counts as this: a few that time out must not hide that the others are fast."""
OUTCOMES_AVERAGED = 16
LEAST_QUALITY = 0.05
GOLDEN_RATIO = 0.618033988749895


class ShortWorker(msgspec.Struct, array_like=True):
    """A worker that was granted fewer requests than it asked for."""

    slots: int
    missing: int
    """How many of its slots are free."""
    asks_at: float
    """When it will ask again, as it was told."""
    quality: float = 1.0
    """Moving average of its outcomes: 1 if all pages came, 0 if all failed."""

    @property
    def weight(self) -> float:
        return self.slots * self.quality


def held_after(average: float, held_seconds: Sequence[float]) -> float:
    """Return the moving average of how long pages are held, after some more; 0: it is not known."""
    if not held_seconds:
        return average
    total = 0.0
    # Not sum(), which rounds differently from a loop in Lua.
    for seconds in held_seconds:
        total += min(seconds, MAX_HELD_SECONDS)
    averaged = OUTCOMES_AVERAGED if average else 0
    return (average * averaged + total) / (averaged + len(held_seconds))


def claimants(short: Iterable[ShortWorker], held_seconds: float, now: float) -> list[ShortWorker]:
    """Return the workers that something may be left for: those that will take it before long, as pages go.

    A worker that holds something asks when that ends, an idle one when it was told to. ``held_seconds``: how long pages
    are held on average.
    """
    idle_seconds = IDLE_PART * held_seconds
    if idle_seconds < SHARED_POLL_SECONDS:
        return []
    return [
        worker
        for worker in short
        if worker.asks_at > now - SHORT_SECONDS
        and (worker.missing < worker.slots or worker.asks_at <= now + idle_seconds)
    ]


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
