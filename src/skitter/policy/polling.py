"""Polling interval of idle workers.

An idle worker polls when something becomes ready. A thousand workers would all poll at that moment, and one would get
the work: with two thousand hosts due each second, that is two million polls a second. So the workers take turns, and
ready work is still found within a few milliseconds.
"""

from __future__ import annotations

ASKS_PER_SECOND = 500
"""Polls per second of all idle workers together."""


def pause_seconds(ready_in_seconds: float, workers: int, chance: float) -> float:
    """Return the time until the next poll; ``chance``, from 0 to 1, is jitter."""
    turn = (workers - 1) / ASKS_PER_SECOND * (0.5 + chance)
    return max(ready_in_seconds, turn)
