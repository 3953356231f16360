"""Fake clock that moves only when it is told to."""

from __future__ import annotations

from skitter.frontier.clock import StoreClock


class FakeClock:
    """Fake clock. Calling it returns the wall time; ``steady`` returns the monotonic time."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._wall = start
        self._steady = 0.0

    def __call__(self) -> float:
        return self._wall

    def steady(self) -> float:
        """Return the monotonic time in seconds."""
        return self._steady

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._wall += seconds
        self._steady += seconds

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back. The monotonic clock does not change."""
        self._wall -= seconds

    def of_store(self) -> StoreClock:
        """Return a new store clock that reads this clock. Each client needs its own, like each process."""
        return StoreClock(self, self.steady)
