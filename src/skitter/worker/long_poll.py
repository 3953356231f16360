"""Waiting for work at a distant source: a call of its own, in place of asking again and again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from skitter.frontier.contract import DistantSource
from skitter.model.lease import Grant

WAIT_SECONDS: Final = 50.0
PAUSE_SECONDS: Final = 0.25
"""A worker that would ask again sooner does so by itself: what it waits for is known, and being woken takes longer."""
FEW_WORKERS: Final = 8
"""More than these do not ask by themselves, whatever is known: only one of them would be given it."""


class LongPoll:
    """The waiting of one worker. Without a distant source it never begins."""

    def __init__(
        self,
        worker_id: str,
        source: DistantSource | None,
        on_work: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._worker_id = worker_id
        self._source = source
        self._on_work = on_work
        self._on_error = on_error
        self._task: asyncio.Task[None] | None = None
        self._workers = 0

    def begin(self, pause_seconds: float, grant: Grant) -> bool:
        """Wait in place of a pause after a grant of less than was wanted; False: the worker is to pause by itself.

        It goes on beside the worker's other calls, and is not begun twice.
        """
        if self._source is None or not (pause_seconds >= PAUSE_SECONDS or grant.workers > FEW_WORKERS):
            return False
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._wait(self._source))
        self._workers = grant.workers
        return True

    @property
    def waiting(self) -> int:
        """How many workers the job has while this one waits; 0: it does not. May be asked from another thread."""
        return self._workers if self._task is not None and not self._task.done() else 0

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _wait(self, source: DistantSource) -> None:
        try:
            # Not all at the same time: workers that began together would wait together for ever.
            while not await source.wait_for_work(self._worker_id, WAIT_SECONDS * random.uniform(0.8, 1.0)):
                pass
        except Exception as error:  # noqa: BLE001  whatever it is, a worker that nobody wakes must not wait for ever
            self._on_error(error)
        else:
            self._on_work()
