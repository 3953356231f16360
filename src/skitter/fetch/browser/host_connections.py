"""Connections to a host that the pages of one worker have open together, at most ``per_host``.

Without HTTP/2 a connection carries one request at a time, so this bounds the requests in flight. One that is idle
while another waits is closed: a browser keeps connections open that it may never use again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from skitter.policy.politeness import PER_HOST, PUBLIC_PER_HOST, is_public

IDLE_SECONDS = 0.5
"""A connection on which nothing was sent for so long may be closed for another."""


class HostConnection:
    """One open connection."""

    __slots__ = ("close", "used_at")

    def __init__(self, close: Callable[[], object]) -> None:
        self.close = close
        self.used_at = time.monotonic()


class HostConnections:
    """Open connections of all pages, by host and port. ``per_host``: None is the default of public and private ones."""

    def __init__(self, per_host: int | None) -> None:
        self._per_host = per_host
        self._open: dict[tuple[str, int], set[HostConnection]] = {}
        self._waiting: dict[tuple[str, int], deque[asyncio.Future[None]]] = {}

    async def enter(self, host: tuple[str, int], close: Callable[[], object]) -> HostConnection:
        """Wait until there is room for one more; ``close``: how it can be closed if it is idle."""
        limit = self._per_host or (PUBLIC_PER_HOST if is_public(f"//[{host[0]}]") else PER_HOST)
        while len(self._open.get(host, ())) >= limit:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(host, deque())
            waiting.append(future)
            self._close_idle(host)
            try:
                await asyncio.wait([future], timeout=IDLE_SECONDS)
            finally:
                if not future.done():
                    waiting.remove(future)
                if not waiting:
                    self._waiting.pop(host, None)
        connection = HostConnection(close)
        self._open.setdefault(host, set()).add(connection)
        return connection

    def leave(self, host: tuple[str, int], connection: HostConnection) -> None:
        """It is closed."""
        connections = self._open.get(host, set())
        connections.discard(connection)
        if not connections:
            self._open.pop(host, None)
        waiting = self._waiting.get(host)
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(None)
                break

    def count(self, host: tuple[str, int]) -> int:
        """Return how many are open."""
        return len(self._open.get(host, ()))

    def _close_idle(self, host: tuple[str, int]) -> None:
        oldest = min(self._open[host], key=lambda connection: connection.used_at)
        if time.monotonic() - oldest.used_at >= IDLE_SECONDS:
            oldest.close()
