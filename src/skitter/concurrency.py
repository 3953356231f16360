"""Concurrent calls: cancelled together, bounded in time, or made from a program without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_or_cancel(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of concurrent calls; when one fails, cancel and await the others.

    ``asyncio.gather`` alone leaves the others running. A TaskGroup would raise an ExceptionGroup.
    """
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def wait_within(call: Awaitable[T], seconds: float, name: str) -> T:
    """Return what the call returns; TimeoutError with its name if it takes longer. One of its own is passed on."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await call
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"{name} took more than {seconds:g} s") from error


async def wait_shielded(future: asyncio.Future[T]) -> T:
    """Return the result of a future that goes on when its waiter is cancelled.

    ``asyncio.shield`` alone stops listening then, and a later error is logged with a traceback as never retrieved.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(_retrieve_error)
        raise


def _retrieve_error(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


class LoopThread:
    """An event loop in a thread of its own, for blocking calls: a notebook has a loop running already."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._loop.is_closed()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; Ctrl-C cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def stop(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
