"""The distance between a worker's own requests to a host whose delay the frontier leaves to it (``pace_seconds``)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from skitter.errors import LateError
from skitter.model.lease import Lease

MARGIN_SECONDS: Final = 0.001
"""Added to each distance: between the note of a start and the wire lies a little time, and not always the same."""
_MAX_HOSTS: Final = 1_000
_FORGET_SECONDS: Final = 10.0
"""Longer than any delay that a worker keeps by itself."""


class _Host:
    __slots__ = ("last", "queue", "waiting")

    def __init__(self) -> None:
        self.last = 0.0
        """When its last request was started, by the monotonic clock."""
        self.queue = asyncio.Lock()
        """It lets waiting requests through in the order in which they came."""
        self.waiting: set[asyncio.Task[object]] = set()

    def started(self) -> None:
        self.last = time.monotonic()


class HostPace:
    """Lets requests to a host start one by one, a delay apart. The frontier sees to it that nobody else starts any."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    async def wait(self, lease: Lease, start_by: float | None) -> Callable[[], None]:
        """Wait for the lease's turn; return what is to be called when it is at the socket.

        LateError if the turn comes after ``start_by``.
        """
        host = self._hosts.get(lease.host_key)
        if host is None:
            self._forget_idle()
            host = self._hosts[lease.host_key] = _Host()
        task = asyncio.current_task()
        assert task is not None
        host.waiting.add(task)
        try:
            async with host.queue:
                while (turn := host.last + lease.pace_seconds + MARGIN_SECONDS) > (now := time.monotonic()):
                    if start_by is not None and turn > start_by:
                        raise LateError("the requests before it took too long")
                    await asyncio.sleep(turn - now)
                host.last = now
        finally:
            host.waiting.discard(task)
        return host.started

    def stop(self, host_key: str) -> None:
        """Cancel what waits for its turn: the host has asked for a pause, or cannot be reached."""
        host = self._hosts.get(host_key)
        for task in host.waiting if host is not None else ():
            task.cancel()

    def _forget_idle(self) -> None:
        if len(self._hosts) >= _MAX_HOSTS:
            long_ago = time.monotonic() - _FORGET_SECONDS
            self._hosts = {key: host for key, host in self._hosts.items() if host.waiting or host.last > long_ago}
