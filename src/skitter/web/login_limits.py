"""Limits on wrong passwords: after some of one user or one address, the next is tried only after a while."""

from __future__ import annotations

import time

FREE_FAILURES = 5
"""Wrong passwords in a row that cost nothing."""
FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 60.0
"""Doubled with each failure up to this: whoever knows the password is not locked out for long by somebody else."""
FORGET_SECONDS = 900.0
MAX_KNOWN = 10_000
"""Names and addresses that are remembered: the oldest are forgotten first."""


class LoginLimits:
    """Counts failures by user and by address."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}

    def wait_seconds(self, user: str, address: str) -> float:
        """How long the next attempt has to wait; 0: it may be made."""
        now = time.monotonic()
        return max(self._left(("user", user), now), self._left(("address", address), now))

    def failed(self, user: str, address: str) -> None:
        now = time.monotonic()
        for key in (("user", user), ("address", address)):
            count, last = self._failures.pop(key, (0, now))
            self._failures[key] = (1 if now - last > FORGET_SECONDS else count + 1, now)
        while len(self._failures) > MAX_KNOWN:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, user: str, address: str) -> None:
        self._failures.pop(("user", user), None)
        self._failures.pop(("address", address), None)

    def _left(self, key: tuple[str, str], now: float) -> float:
        count, last = self._failures.get(key, (0, now))
        if count < FREE_FAILURES or now - last > FORGET_SECONDS:
            return 0.0
        wait = min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(count - FREE_FAILURES, 10))
        return max(0.0, last + wait - now)
