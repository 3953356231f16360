"""Renewing leases beside the loop: a callback that blocks the loop costs no lease.

A thread with a small loop and a WorkSource of its own. It also tells the supervisor, every second,
that the process lives and what holds its loop. (Code that holds the interpreter lock for a whole
lease, such as a runaway regular expression, stops this thread too: those leases expire, and the
supervisor ends the silent process.)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Self

from skitter.errors import FrontierError
from skitter.frontier.contract import WorkSource
from skitter.model.lease import Lease
from skitter.worker.loop import Worker

BEAT_SECONDS = 1.0
log = logging.getLogger("skitter.worker")


async def renew_while_running(
    worker: Worker, source: WorkSource, lease_seconds: float, lost: Callable[[list[Lease]], None]
) -> None:
    """Push the deadlines of everything held, at a third of a lease's length, for ever."""
    while True:
        await asyncio.sleep(lease_seconds / 3)
        leases = list(worker.held.values())
        if not leases:
            continue
        try:
            kept = await source.renew(worker.id, leases)
        except FrontierError as error:
            log.warning("could not renew leases, will try again: %s", error)
            continue
        gone = [lease for lease, is_kept in zip(leases, kept, strict=True) if not is_kept]
        # What was committed while we asked is no loss: the worker looks again before it acts.
        if gone:
            lost(gone)


class RenewalThread:
    """Runs beside a Worker; a context manager."""

    def __init__(
        self,
        worker: Worker,
        open_source: Callable[[], tuple[WorkSource, Callable[[], object]]],
        lease_seconds: float,
        beat: Callable[[], None] | None = None,
    ) -> None:
        """``open_source`` gives a WorkSource of the thread's own and how to close it."""
        self._worker = worker
        self._open_source = open_source
        self._lease_seconds = lease_seconds
        self._beat = beat
        self._loop = asyncio.get_running_loop()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skitter-renewal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        source, close = self._open_source()
        renewing = asyncio.create_task(renew_while_running(self._worker, source, self._lease_seconds, self._lost))
        next_beat = 0.0
        try:
            while not self._end.is_set():
                if self._beat is not None and time.monotonic() >= next_beat:
                    self._beat()
                    next_beat = time.monotonic() + BEAT_SECONDS
                await asyncio.sleep(0.1)
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
            result = close()
            if asyncio.iscoroutine(result):
                await result

    def _lost(self, leases: list[Lease]) -> None:
        self._loop.call_soon_threadsafe(self._worker.lost, leases)
