"""The store's clock: it never goes back and never stands still, whatever is done to the machine's."""

from __future__ import annotations

import time
from collections.abc import Callable


class StoreClock:
    """One process's view of a store's clock.

    The newest time in the store and the wall clock are not enough: after the wall clock was set back by
    an hour, their maximum would stand still for an hour, and with it every delay, retry and expiry. So the time
    that passed in this process (``steady``) counts too.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._time = 0.0
        self._read_at = steady()

    def now(self, stored: float = 0.0) -> float:
        """The time, given the newest one that the store has seen."""
        read_at = self._steady()
        self._time = max(stored, self._wall(), self._time + (read_at - self._read_at))
        self._read_at = read_at
        return self._time
