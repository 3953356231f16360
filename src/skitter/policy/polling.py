"""How often workers ask for work that is not there yet.

Who did not get enough asks again when something becomes ready. Of a thousand workers all wait for that moment, one gets
what there is, and all wait for the next: a store with two thousand hosts due each second would be asked two million
times. So they take turns, and whatever becomes ready is still found within a few milliseconds, by one of them.
"""

from __future__ import annotations

ASKS_PER_SECOND = 500
"""Of all idle workers together."""


def pause_seconds(ready_in_seconds: float, workers: int, chance: float) -> float:
    """How long to wait, if something may be ready so soon. ``chance``, from 0 to 1: those that asked together part."""
    turn = (workers - 1) / ASKS_PER_SECOND * (0.5 + chance)
    return max(ready_in_seconds, turn)
