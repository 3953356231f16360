"""Limits on wrong passwords: after some of one user or one address, the next is tried only after a while."""

from __future__ import annotations

import ipaddress
import time

FREE_FAILURES = 5
"""Wrong passwords in a row that cost nothing."""
FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 60.0
"""Doubled with each failure up to this: whoever knows the password is not locked out for long by somebody else."""
FORGET_SECONDS = 900.0
MAX_KNOWN = 10_000
"""Names and addresses that are remembered: the oldest are forgotten first."""


Key = tuple[str, str]


class LoginLimits:
    """Counts failures by user and by address.

    At an address from which a user has logged in, only failures of that address count, so nobody can lock the user out.
    """

    def __init__(self) -> None:
        self._failures: dict[Key, tuple[int, float]] = {}
        self._known: dict[tuple[str, Key], None] = {}
        """Users, and addresses that they have logged in from."""

    def wait_seconds(self, user: str, address: str) -> float:
        """How long the next attempt has to wait; 0: it may be made."""
        now = time.monotonic()
        return max(self._left(key, now) for key in self._keys(user, address))

    def failed(self, user: str, address: str) -> None:
        now = time.monotonic()
        for key in self._keys(user, address):
            count, last = self._failures.pop(key, (0, now))
            self._failures[key] = (1 if now - last > FORGET_SECONDS else count + 1, now)
        while len(self._failures) > MAX_KNOWN:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, user: str, address: str) -> None:
        for key in self._keys(user, address):
            self._failures.pop(key, None)
        place = user, _place(address)
        self._known.pop(place, None)
        self._known[place] = None
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def _keys(self, user: str, address: str) -> list[Key]:
        place = _place(address)
        return [place] if (user, place) in self._known else [("user", user), place]

    def _left(self, key: Key, now: float) -> float:
        count, last = self._failures.get(key, (0, now))
        if count < FREE_FAILURES or now - last > FORGET_SECONDS:
            return 0.0
        wait = min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(count - FREE_FAILURES, 10))
        return max(0.0, last + wait - now)


def _place(address: str) -> Key:
    """The address that is counted: of IPv6 the network of 64 bits, all of which one client may use."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "address", address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return "address", str(ipaddress.ip_network((parsed.packed[:8] + bytes(8), 64)))
        parsed = parsed.ipv4_mapped
    return "address", str(parsed)
