"""Renewing leases beside the loop: a callback that blocks the loop costs no lease.

A thread with a small loop and a WorkSource of its own. It also tells the frontier, every few seconds, what
the worker is at, and the supervisor, every second, that the process lives. (Code that holds the interpreter lock, such
as a runaway regular expression, stops this thread too: then the supervisor finds out which page it is, and renews its
lease: ``loop_status``.)
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Protocol, Self

from skitter.concurrency import open_in_thread
from skitter.errors import FrontierError
from skitter.frontier.contract import WorkSource
from skitter.model.lease import Lease
from skitter.model.worker import WorkerHeartbeat
from skitter.observe.node_counters import NodeCounters
from skitter.policy.polling import silence_seconds
from skitter.worker.distinct_urls import DistinctUrls

BEAT_SECONDS = 1.0
TELL_SECONDS = 5.0
"""At most this long is what people are told of a worker out of date. It costs the store a small write."""
log = logging.getLogger("skitter.worker")


class OwnSource(WorkSource, Protocol):
    """A WorkSource that whoever opened it closes."""

    async def close(self) -> None: ...


class LeaseHolder(Protocol):
    """What holds leases and has them renewed: a worker, or the scheduler of another program."""

    id: str
    held: dict[int, Lease]
    """Its leases by their epochs. Another thread changes it."""
    distinct_urls: DistinctUrls

    @property
    def counters(self) -> NodeCounters | None:
        """Where its node has metrics."""
        ...

    @property
    def waiting(self) -> int:
        """How many workers the job has while this one waits at a master for work; 0: it does not."""
        ...

    def heartbeat(self) -> WorkerHeartbeat:
        """Who it is and what it is at; asked from another thread."""
        ...

    def lost(self, leases: list[Lease]) -> None:
        """These belong to others now."""
        ...

    def fail(self, error: Exception) -> None:
        """Leases are not renewed any more."""
        ...


async def renew_while_running(
    worker: LeaseHolder, source: WorkSource, lease_seconds: float, lost: Callable[[list[Lease]], None]
) -> None:
    """Push the deadlines of everything held, at a third of a lease's length, and tell what is being done, for ever."""
    pause, rounds = _rhythm(lease_seconds)
    told: WorkerHeartbeat | None = None
    silent_until = 0.0
    for turn in itertools.count():
        leases = list(worker.held.copy().values()) if turn % rounds == 0 else []
        try:
            if leases:
                began = time.monotonic()
                kept = await source.renew(worker.id, leases)
                if worker.counters is not None:
                    worker.counters.called("renew", time.monotonic() - began)
                # What was committed while we asked is no loss: the worker looks again before it acts.
                lost([lease for lease, is_kept in zip(leases, kept, strict=True) if not is_kept])
            heartbeat = worker.heartbeat()
            # Of an idle worker there is nothing new to tell, but that it lives.
            if heartbeat != told or turn * pause >= silent_until:
                await source.tell(worker.id, heartbeat)
                told, silent_until = heartbeat, turn * pause + silence_seconds(lease_seconds, worker.waiting)
            await worker.distinct_urls.tell(source)
        except FrontierError as error:
            log.warning("could not renew leases, will try again: %s", error)
        await asyncio.sleep(pause)


def _rhythm(lease_seconds: float) -> tuple[float, int]:
    """The pause between two words to the frontier, and after how many of them leases are renewed."""
    rounds = math.ceil(lease_seconds / 3 / TELL_SECONDS)
    return lease_seconds / 3 / rounds, rounds


class RenewalThread:
    """Runs beside a worker; a context manager, to be entered in the worker's loop."""

    def __init__(
        self,
        worker: LeaseHolder,
        open_source: Callable[[], OwnSource],
        lease_seconds: float,
        beat: Callable[[], None] | None = None,
    ) -> None:
        """``open_source`` gives a WorkSource of the thread's own. ``beat`` is called in the thread, every second."""
        self._worker = worker
        self._open_source = open_source
        self._lease_seconds = lease_seconds
        self._beat = beat

    def __enter__(self) -> Self:
        self._workers_loop = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="skitter-renewal", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # RuntimeError: it has failed, and its loop is closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        renewing = asyncio.create_task(self._renew())
        while not self._over.is_set():
            if self._beat is not None:
                self._beat()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._over.wait()
        renewing.cancel()
        await asyncio.wait([renewing])

    async def _renew(self) -> None:
        try:
            # Most crawls of a few pages are over before the first word, and need no second way to the store.
            await asyncio.sleep(_rhythm(self._lease_seconds)[0])
            source = await self._opened()
            try:
                await renew_while_running(self._worker, source, self._lease_seconds, self._lost)
            finally:
                await source.close()
        except Exception as error:  # noqa: BLE001  without renewals the worker must not go on as if nothing were
            self._workers_loop.call_soon_threadsafe(self._worker.fail, error)

    async def _opened(self) -> OwnSource:
        while True:
            # In yet another thread: a locked store must not stop the beat.
            try:
                return await open_in_thread(self._open_source)
            except FrontierError as error:
                log.warning("could not open the frontier to renew leases, will try again: %s", error)
            await asyncio.sleep(self._lease_seconds / 10)

    def _lost(self, leases: list[Lease]) -> None:
        self._workers_loop.call_soon_threadsafe(self._worker.lost, leases)
