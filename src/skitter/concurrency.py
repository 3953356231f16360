"""Concurrent calls: cancelled together, bounded in time, or made from a program without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar


class Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T")
C = TypeVar("C", bound=Closable)


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

    With ``asyncio.shield``, a later error is logged with a traceback: as never retrieved, and from Python 3.14 on even
    where it is retrieved.
    """
    if not future.done():
        waiter = future.get_loop().create_future()

        def wake(_: asyncio.Future[T]) -> None:
            if not future.cancelled():
                future.exception()  # It counts as retrieved now, also if the waiter is cancelled before it goes on.
            if not waiter.done():
                waiter.set_result(None)

        future.add_done_callback(wake)
        await waiter
    return future.result()


async def open_in_thread(open_it: Callable[..., C], *arguments: Any, **options: Any) -> C:
    """Return what the call opens in a thread: a file may be locked. A caller that is cancelled meanwhile closes it."""
    opening = asyncio.create_task(asyncio.to_thread(open_it, *arguments, **options))
    try:
        return await wait_shielded(opening)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await (await opening).close()
        raise


class LoopThread:
    """An event loop in a thread of its own, for blocking calls: a notebook has a loop running already."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
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
        """Stop the loop, cancel what still runs in it, and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
