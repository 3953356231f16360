"""A node: one machine's work for one job, as an object that can be run, stopped and killed.

It does not touch the signals of its process, and several may run in one event loop: a scheduler, a server or a script
runs them beside its own work. ``app.make_crawl_node`` and ``app.make_worker_node`` make one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from skitter.stop_request import StopRequest

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Work = Callable[[StopRequest], Coroutine[Any, Any, T]]
"""All that a node does. It sets handlers of the request, or holds it, as soon as it can be stopped in order; until
then, stopping cancels it."""


class Node(Generic[T_co]):
    """Runs once. ``stop`` and ``kill`` are called from the thread of the event loop, at any time."""

    def __init__(self, work: Work[T_co]) -> None:
        self._work = work
        self._request = StopRequest()

    async def run(self) -> T_co | None:
        """Work until the job ends or the node is stopped; None: it was stopped before it had begun.

        Being cancelled ends its workers at once.
        """
        work = asyncio.create_task(self._work(self._request))
        self._request.set_handlers(work.cancel, work.cancel)
        try:
            # Not awaited: being cancelled itself and the work's being cancelled are told apart.
            await asyncio.wait([work])
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait([work])
        if work.cancelled() and self._request.requested:
            return None
        return work.result()

    def stop(self) -> None:
        """Finish what is in flight, write what sinks lack, and end; workers that do not stop in time are killed."""
        self._request.stop()

    def kill(self) -> None:
        """End at once: what is in flight is fetched again by others, and nothing is lost."""
        self._request.kill()
