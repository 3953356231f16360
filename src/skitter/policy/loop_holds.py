"""Time limit for a page that blocks the event loop, after which the worker's other pages move to another worker."""

from __future__ import annotations

HOLD_SECONDS = 1.0
"""Minimum limit."""
HOLD_FACTOR = 4.0
"""Limit for slow callbacks, as a multiple of the longest that has ended."""
SLOW_HOSTS = 3
"""Number of hosts with slow callbacks from which on the spider, and not a host, is considered slow."""
_MAX_HOSTS = 1_000


class HoldLimits:
    """Limits learnt from the pages that blocked an event loop and ended, by host and for the spider."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._usual = 0.0

    def let_go(self, host_key: str, seconds: float) -> None:
        """Record that a page of this host blocked an event loop for this long, and ended."""
        if seconds <= self._longest.get(host_key, 0.0):
            return
        if len(self._longest) >= _MAX_HOSTS and host_key not in self._longest:
            del self._longest[min(self._longest, key=lambda key: self._longest[key])]
        self._longest[host_key] = seconds
        if len(self._longest) >= SLOW_HOSTS:
            self._usual = sorted(self._longest.values())[-SLOW_HOSTS]

    def limit_seconds(self, host_key: str) -> float:
        """Return how long a page of this host may block the event loop."""
        return max(HOLD_SECONDS, HOLD_FACTOR * max(self._usual, self._longest.get(host_key, 0.0)))
