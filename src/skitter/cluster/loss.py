"""The loss of a hold as an event: set by the local clock before the server can give the lock to another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from skitter.cluster.clock import now_seconds


class LossEvent(Protocol):
    """As an ``asyncio.Event`` that only skitter sets."""

    def is_set(self) -> bool: ...

    async def wait(self) -> None: ...


class Loss:
    """The loss of one hold. The clock decides, also if the process was stopped and no timer has run since."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._deadline = float("inf")
        self._timer: asyncio.TimerHandle | None = None
        self._callbacks: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        """Whether the lock may be another's by now."""
        if not self._event.is_set() and now_seconds() >= self._deadline:
            self.set()
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until it is lost; a lock that is released is never lost."""
        await self._event.wait()

    def on_set(self, callback: Callable[[], None]) -> None:
        """Have this called when it is lost."""
        self._callbacks.append(callback)

    def remaining_seconds(self) -> float:
        """How long the hold lasts without renewal; 0 if it is lost."""
        return 0.0 if self.is_set() else max(0.0, self._deadline - now_seconds())

    def postpone(self, deadline: float) -> None:
        """Begin a lifetime that ends at this moment of ``now_seconds``."""
        if self.is_set():
            return
        self._deadline = deadline
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, deadline - now_seconds())
        self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def set(self) -> None:
        """The server says so, or the time is over."""
        self.end()
        if not self._event.is_set():
            self._event.set()
            for callback in self._callbacks:
                callback()

    def end(self) -> None:
        """Stop the clock: the lock is released."""
        self._deadline = float("inf")
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if not self.is_set():
            # Timers of a loop may run a moment early, by another clock.
            self.postpone(self._deadline)


class AnyLoss:
    """The loss of one of several holds."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self._losses = losses
        self._event = asyncio.Event()
        for loss in losses:
            loss.on_set(self._event.set)

    def is_set(self) -> bool:
        """Whether one of the locks may be another's by now."""
        return any(loss.is_set() for loss in self._losses)

    async def wait(self) -> None:
        """Wait until one is lost."""
        await self._event.wait()
