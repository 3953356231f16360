"""What the loop is doing, readable from another thread: so that a page that blocks it can be named."""

from __future__ import annotations

import asyncio
from typing import Any

from skitter.model.lease import Lease

TICK_SECONDS = 0.4
"""Well below the time between two looks, so that a loop that turns has always ticked."""


class Watch:
    """Written by the loop, read by the renewal thread. Each field is replaced whole, so no lock is needed."""

    def __init__(self) -> None:
        self.tasks: dict[asyncio.Task[Any], Lease] = {}
        """What is under way, and on whose behalf."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticks = 0
        # Of the last look.
        self._seen = -1
        self._task: asyncio.Task[Any] | None = None
        self._blocked_seconds = 0.0

    async def tick(self) -> None:
        """Runs in the loop, for ever."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._ticks += 1
            await asyncio.sleep(TICK_SECONDS)

    def look(self, seconds: float) -> tuple[float, Lease | None]:
        """How long one step has held the loop, and the page it belongs to. To be called every ``seconds``.

        Time is counted in looks: when the whole process was stopped (Ctrl-Z), no page is to blame. A loop that
        has not ticked but works on another page than before is busy, not blocked.
        """
        ticks, task = self._ticks, asyncio.current_task(self._loop) if self._loop is not None else None
        if ticks != self._seen or task is not self._task:
            self._seen, self._task, self._blocked_seconds = ticks, task, 0.0
        else:
            self._blocked_seconds += seconds
        lease = self.tasks.get(task) if task is not None and self._blocked_seconds else None
        return self._blocked_seconds, lease
