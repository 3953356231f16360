"""Polling interval of idle workers.

An idle worker polls when something becomes ready. A thousand workers would all poll at that moment, and one would get
the work: with two thousand hosts due each second, that is two million polls a second. So the workers take turns, and
ready work is still found within a few milliseconds.
"""

from __future__ import annotations

ASKS_PER_SECOND = 500
"""Polls per second of all idle workers together."""


TELLS_PER_SECOND = 20
"""Words per second of all workers together that wait at a master and have nothing new to say."""


def silence_seconds(lease_seconds: float, waiting: int) -> float:
    """Return for how long a worker with nothing new to say is silent; ``waiting``: with so many it waits at a master.

    Within the length of a lease everybody who reads the store sees that it lives. Of very many that wait, those who ask
    their master see it.
    """
    return max(lease_seconds * 2 / 3, waiting / TELLS_PER_SECOND)


def pause_seconds(ready_in_seconds: float, workers: int, chance: float) -> float:
    """Return the time until the next poll; ``chance``, from 0 to 1, is jitter."""
    turn = (workers - 1) / ASKS_PER_SECOND * (0.5 + chance)
    return max(ready_in_seconds, turn)
