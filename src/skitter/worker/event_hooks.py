"""Passes the events of a worker process to the hooks ``on_event``, one after the other, in the worker's loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator

from skitter.observe.events import Event, of_record
from skitter.worker.page_hooks import WorkerHooks

MAX_WAITING = 1000
"""Events that wait for hooks; beyond, the oldest are left out."""
END_SECONDS = 5.0
"""So long a worker that ends waits for its hooks to see what is left."""
log = logging.getLogger("skitter.worker")


class _Handler(logging.Handler):
    """Collects records of any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.waiting: deque[Event] = deque(maxlen=MAX_WAITING)
        self.wake = asyncio.Event()
        self.over = False

    def emit(self, record: logging.LogRecord) -> None:
        self.waiting.append(of_record(record))
        # RuntimeError: the loop has ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.wake.set)


@contextlib.asynccontextmanager
async def events_seen(hooks: WorkerHooks) -> AsyncIterator[None]:
    """While the body runs, ``on_event`` sees what is logged. Without such a hook nothing is done."""
    if not hooks.on_event:
        yield
        return
    handler = _Handler(asyncio.get_running_loop())
    seeing = asyncio.create_task(_see(hooks, handler))
    root = logging.getLogger("skitter")
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.over = True
        handler.wake.set()
        await asyncio.wait([seeing], timeout=END_SECONDS)
        seeing.cancel()
        await asyncio.wait([seeing])


async def _see(hooks: WorkerHooks, handler: _Handler) -> None:
    failed: set[str] = set()
    while handler.waiting or not handler.over:
        if not handler.waiting:
            await handler.wake.wait()
            handler.wake.clear()
            continue
        # Told once: that it failed is an event too, and each would make another one.
        for name, text in await hooks.see_event(handler.waiting.popleft()):
            if name not in failed:
                failed.add(name)
                log.warning("%s", text)
