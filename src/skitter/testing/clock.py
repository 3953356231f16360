"""A clock that moves only when it is told to."""

from __future__ import annotations

from skitter.frontier.clock import StoreClock


class FakeClock:
    """Called, it tells the wall time. ``steady`` is the other clock of a machine, which nobody can set."""

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
        """Somebody sets the wall clock; no time passes."""
        self._wall -= seconds

    def of_store(self) -> StoreClock:
        """A store's clock that reads this one: each client has one of its own, as each process would."""
        return StoreClock(self, self.steady)
