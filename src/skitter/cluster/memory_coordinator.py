"""Locks inside one process: for a crawl in memory, which no other process can join."""

from __future__ import annotations

import time
from collections.abc import Callable

from skitter.cluster.clock import now_seconds
from skitter.cluster.contract import Hold, Keys, Locks, Members, Rates


class MemoryCoordinator:
    """A coordinator that has locks only, for the objects that share its ``locks``."""

    def __init__(self, locks: MemoryLocks | None = None, *, session_seconds: float = 10.0) -> None:
        self.address = "memory:"
        self.session_seconds = session_seconds
        self.locks: Locks = locks or MemoryLocks()
        self.members: Members | None = None
        self.keys: Keys | None = None
        self.rates: Rates | None = None

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """The facade has released what was held."""

    async def ping(self) -> None:
        """It is there."""

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        """It never breaks."""


class MemoryLocks:
    """Owner, token and end of each lock that is held."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, int, float]] = {}
        self._token = 0

    async def acquire(
        self, name: str, owner: str, *, lifetime_seconds: float, wait_seconds: float | None
    ) -> Hold | None:
        del wait_seconds  # there is no queue
        holder, token, ends_at = self._held.get(name, ("", 0, 0.0))
        if ends_at > now_seconds() and holder != owner:
            return None
        if ends_at <= now_seconds():
            # As other coordinators do: a resource may remember the tokens of another process.
            self._token = token = max(self._token + 1, int(time.time() * 1_000_000))
        return self._keep(name, owner, token, lifetime_seconds)

    async def renew(self, name: str, owner: str, *, lifetime_seconds: float) -> Hold | None:
        holder, token, ends_at = self._held.get(name, ("", 0, 0.0))
        if holder != owner or ends_at <= now_seconds():
            return None
        return self._keep(name, owner, token, lifetime_seconds)

    async def release(self, name: str, owner: str) -> bool:
        holder, _, ends_at = self._held.get(name, ("", 0, 0.0))
        if holder != owner:
            return False
        del self._held[name]
        return ends_at > now_seconds()

    def _keep(self, name: str, owner: str, token: int, lifetime_seconds: float) -> Hold:
        self._held[name] = owner, token, now_seconds() + lifetime_seconds
        return Hold(token, lifetime_seconds)
