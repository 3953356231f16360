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
        """When its last request was sent, by the monotonic clock."""
        self.queue = asyncio.Lock()
        """Held by the request that is on its way to the server; the others get it in the order in which they came."""
        self.waiting: set[asyncio.Task[object]] = set()


class _Turn:
    """The turn of one request. It ends when that is sent: until then nobody knows from when the next delay counts.

    A handshake is a part of it: over a connection that is kept open, the next one would be there sooner.
    """

    __slots__ = ("_host", "_is_over")

    def __init__(self, host: _Host) -> None:
        self._host, self._is_over = host, False

    def sent(self) -> None:
        # It is written before the loop goes on. Counted from now, a process that has to wait for a CPU between this
        # and the writing would send the next one too soon.
        asyncio.get_running_loop().call_soon(self._written)

    def _written(self) -> None:
        self._host.last = time.monotonic()
        self.end()

    def task_ended(self, _task: asyncio.Task[object]) -> None:
        """The request was never sent, or is answered; the server may have noticed a connection."""
        if not self._is_over:
            self._written()

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._host.queue.release()


class HostPace:
    """Lets requests to a host start one by one, a delay apart. The frontier sees to it that nobody else starts any."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    async def wait(self, lease: Lease, start_by: float | None) -> Callable[[], None]:
        """Wait for the lease's turn; return what is to be called when it is sent.

        The next one waits for that call, or for the end of this task. LateError if the turn comes after ``start_by``.
        """
        host = self._hosts.get(lease.host_key)
        if host is None:
            self._forget_idle()
            host = self._hosts[lease.host_key] = _Host()
        task = asyncio.current_task()
        assert task is not None
        host.waiting.add(task)
        try:
            await _acquire(host.queue, start_by)
            turn = _Turn(host)
            try:
                await _sleep_until_due(host, lease.pace_seconds, start_by)
            except BaseException:
                turn.end()
                raise
        finally:
            host.waiting.discard(task)
        task.add_done_callback(turn.task_ended)
        return turn.sent

    def stop(self, host_key: str) -> None:
        """Cancel what waits for its turn: the host has asked for a pause, or cannot be reached."""
        host = self._hosts.get(host_key)
        for task in host.waiting if host is not None else ():
            task.cancel()

    def _forget_idle(self) -> None:
        if len(self._hosts) >= _MAX_HOSTS:
            long_ago = time.monotonic() - _FORGET_SECONDS
            self._hosts = {
                key: host for key, host in self._hosts.items() if host.queue.locked() or host.last > long_ago
            }


async def _acquire(queue: asyncio.Lock, start_by: float | None) -> None:
    try:
        async with asyncio.timeout(None if start_by is None else max(0.0, start_by - time.monotonic())):
            await queue.acquire()
    except TimeoutError:
        raise _late() from None


async def _sleep_until_due(host: _Host, delay_seconds: float, start_by: float | None) -> None:
    while (due := host.last + delay_seconds + MARGIN_SECONDS) > (now := time.monotonic()):
        if start_by is not None and due > start_by:
            raise _late()
        await asyncio.sleep(due - now)


def _late() -> LateError:
    return LateError("earlier requests took too long")
