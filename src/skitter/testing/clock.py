"""A fake clock that moves only by calls."""

from __future__ import annotations

from skitter.frontier.clock import StoreClock


class FakeClock:
    """A fake clock: calling it returns the wall time, and ``steady`` is the monotonic clock."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._wall = start
        self._steady = 0.0

    def __call__(self) -> float:
        return self._wall

    def steady(self) -> float:
        """Seconds since some moment in the past."""
        return self._steady

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._wall += seconds
        self._steady += seconds

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back; no time passes."""
        self._wall -= seconds

    def of_store(self) -> StoreClock:
        """Return a new store clock that reads this one; each client needs its own, as each process has."""
        return StoreClock(self, self.steady)
