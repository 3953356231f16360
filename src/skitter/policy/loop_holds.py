"""How long a page may hold the event loop of its worker before the worker's other pages are taken elsewhere. Pure."""

from __future__ import annotations

HOLD_SECONDS = 1.0
"""A page that holds the loop for longer no longer holds up the others of its worker."""
HOLD_FACTOR = 4.0
"""Where callbacks are slow by themselves, so many times the longest that has come to its end."""
SLOW_HOSTS = 3
"""Of so many hosts callbacks must have been slow before that is taken for the spider's way, and not for a host's."""
_MAX_HOSTS = 1_000


class HoldLimits:
    """Learns, from pages that held a loop and let it go, what is usual for their host and for the spider."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._usual = 0.0

    def let_go(self, host_key: str, seconds: float) -> None:
        """A page of this host has held a loop for so long, and come to its end."""
        if seconds <= self._longest.get(host_key, 0.0):
            return
        if len(self._longest) >= _MAX_HOSTS and host_key not in self._longest:
            del self._longest[min(self._longest, key=lambda key: self._longest[key])]
        self._longest[host_key] = seconds
        if len(self._longest) >= SLOW_HOSTS:
            self._usual = sorted(self._longest.values())[-SLOW_HOSTS]

    def limit_seconds(self, host_key: str) -> float:
        """How long a page of this host may hold the loop."""
        return max(HOLD_SECONDS, HOLD_FACTOR * max(self._usual, self._longest.get(host_key, 0.0)))
