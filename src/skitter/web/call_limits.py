"""Limits on the calls under way at a master: how many, of one credential and in all, and the size of their bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from skitter.errors import FrontierError

MAX_CALLS = 2_000
MAX_CALLS_OF_ONE = 1_000
"""Of one credential, so that others get through beside it."""
MAX_WAITERS_OF_ONE = 10_000
"""Workers of one credential that wait."""
MAX_BYTES = 256 * 1024 * 1024
"""Of all bodies that are being read or worked at."""


class BusyError(FrontierError):
    """Too much is under way: the same call may be made again."""


class CallLimits:
    """Counts what is under way."""

    def __init__(self) -> None:
        self.calls = 0
        self._bytes = 0
        self._of_one: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def admitted(self, name: str, body_bytes: int) -> Iterator[None]:
        """Count a call of a credential while the body of this lasts; BusyError if there are too many."""
        if (
            self.calls >= MAX_CALLS
            or self._of_one[name] >= MAX_CALLS_OF_ONE
            or (self._bytes and self._bytes + body_bytes > MAX_BYTES)
        ):
            raise BusyError("the master is busy: too many calls are running", hint="the client will try again")
        self.calls += 1
        self._of_one[name] += 1
        self._bytes += body_bytes
        try:
            yield
        finally:
            self.calls -= 1
            self._bytes -= body_bytes
            self._of_one[name] -= 1
            if not self._of_one[name]:
                del self._of_one[name]

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Count a worker of a credential that waits while the body of this lasts; BusyError if there are too many."""
        if self._waiting[name] >= MAX_WAITERS_OF_ONE:
            raise BusyError("the master is busy: too many workers wait", hint="the client will try again")
        self._waiting[name] += 1
        try:
            yield
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]
