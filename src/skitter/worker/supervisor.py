"""The supervisor: the parent that starts workers, replaces dead ones and hands their leases back.

It ends a worker that is stopped, silent, or held by one page for too long. A child whose pipe to it breaks
stops by itself: so no worker outlives its supervisor for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence

from skitter.errors import BackendError, FrontierError
from skitter.frontier.contract import Frontier
from skitter.model.lease import Work
from skitter.model.outcome import Ending, Outcome
from skitter.observe import events
from skitter.worker.process import Child

STOPPED_SECONDS = 5.0
"""A process that is stopped (SIGSTOP) may hold the store's lock: it is ended soon."""
SILENT_MARGIN_SECONDS = 10.0
"""A process that runs but is silent may be in a callback that holds the interpreter: it has that long, and this."""
STOP_MARGIN_SECONDS = 5.0
"""A process that was asked to stop has its shutdown time, and this."""
FALSE_STARTS = 3
FAILURES = 20
"""Workers that may fail one after the other, by errors that nobody expected, while no worker of this node commits
anything. Three pages that make their workers fail until they are dead, class ``lost``, take fewer (six losses each)."""
_CHECK_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 1.0


class Supervisor:
    """Keeps ``count`` workers running until each of them ends by itself."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        count: int,
        *,
        frontier: Frontier,
        callback_seconds: float,
        shutdown_seconds: float,
        on_event: Callable[[events.Event], None],
        told: bytes = b"",
        inherits: Sequence[int] = (),
    ) -> None:
        """``command`` gives the command line of a child that speaks to the file descriptor given; it reads ``told``.

        ``inherits`` are file descriptors that all of them share.
        """
        self._command = command
        self._told = told
        self._inherits = inherits
        self._count = count
        self._frontier = frontier
        self._callback_seconds = callback_seconds
        self._shutdown_seconds = shutdown_seconds
        self._on_event = on_event
        self._children: set[Child] = set()
        self._stopping = False
        self._stopping_seconds = 0.0
        self._false_starts = 0
        self._failures = 0
        self._committed = 0
        """By workers that have ended."""
        self._committed_at_failure = 0

    async def run(self) -> None:
        """Until all workers have ended. Raises what keeps them from working, after the others have stopped."""
        slots = [asyncio.create_task(self._keep_one()) for _ in range(self._count)]
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait(slots)
        except asyncio.CancelledError:
            self.kill()
            await asyncio.wait(slots)
            raise
        finally:
            watching.cancel()
            failures = [error for slot in slots if slot.done() and (error := slot.exception())]
        if failures:
            raise failures[0]

    def stop(self) -> None:
        """Ask every worker to finish what it has in flight."""
        self._stopping = True
        for child in self._children:
            child.terminate()

    def kill(self) -> None:
        """End every worker at once; nothing is lost."""
        self._stopping = True
        for child in self._children:
            child.kill("")

    async def _keep_one(self) -> None:
        """One worker after the other, until one ends by itself."""
        crashes = 0
        try:
            while not self._stopping:
                began = time.monotonic()
                if await self._run_one():
                    return
                # A worker that lived for a while is replaced at once; one that keeps dying, more and more slowly.
                crashes = 0 if time.monotonic() - began > 5 * _MAX_PAUSE_SECONDS else crashes + 1
                await asyncio.sleep(min(0.05 * 2**crashes, _MAX_PAUSE_SECONDS) if crashes > 1 else 0)
        except Exception:
            self.stop()
            raise

    async def _run_one(self) -> bool:
        """One worker from its start to its end. False: another one is to take its place."""
        child = await Child.start(self._command, self._on_event, self._told, self._inherits)
        self._children.add(child)
        if self._stopping:
            child.terminate()
        try:
            code = await child.ended()
        finally:
            self._children.discard(child)
            self._committed += child.committed
        if child.error is not None:
            with contextlib.suppress(FrontierError):
                await self._hand_back(child)
            raise child.error
        back = await self._hand_back(child)
        if not child.has_finished and not child.starts_over:
            if child.worker:
                kind = events.WORKER_DIED if self._stopping else events.WORKER_REPLACED
                self._on_event(kind(worker=child.worker, how=child.how_it_ended(), leases=back))
            if not self._stopping:
                self._judge_start(child, code)
                self._judge_failure(child)
        return child.has_finished

    def _judge_start(self, child: Child, code: int) -> None:
        if child.worker:
            self._false_starts = 0
        elif code != -signal.SIGKILL:
            # SIGKILL is somebody else's doing, and tells nothing about how a worker starts.
            self._false_starts += 1
        if self._false_starts >= FALSE_STARTS:
            raise BackendError(
                f"workers die before they have started: {child.how_it_ended()}",
                hint="run with -v; the messages above may tell",
            )

    def _judge_failure(self, child: Child) -> None:
        """A worker that dies of an error of its own is replaced, but not for ever.

        Not counted: workers that were killed or that a page took down with it, whose leases are lost until that page is
        dead; and errors of the store, which end the node at once.
        """
        if not child.failure:
            return
        committed = self._committed + sum(other.committed for other in self._children)
        self._failures = self._failures + 1 if committed == self._committed_at_failure else 1
        self._committed_at_failure = committed
        if self._failures >= FAILURES:
            raise BackendError(
                f"{self._failures} workers have failed without committing anything: {child.failure}",
                hint="nothing is lost; run with -v for the traceback, and report it",
            )

    async def _hand_back(self, child: Child) -> int:
        """A worker has ended: what it still held goes back at once, and a page that had to be ended is dead."""
        if not child.worker:
            return 0
        culprit = child.culprit
        if child.verdict and culprit is not None and culprit.work is Work.PAGE:
            error = f"the callback blocked its worker: {child.verdict}"
            outcome = Outcome(lease=culprit, ending=Ending.DEAD, error_class="callback", error=error)
            await self._frontier.commit(child.worker, [outcome])
        return await self._frontier.release_worker(child.worker)

    async def _watch(self) -> None:
        """Look after the workers now and then. Time is counted in looks: see ``Child.silent_seconds``."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self._stopping_seconds += _CHECK_SECONDS if self._stopping else 0.0
            for child in self._children:
                child.silent_seconds += _CHECK_SECONDS
                self._check(child)

    def _check(self, child: Child) -> None:
        """End it if it is stopped, silent, held by one page for too long, or does not stop."""
        if child.blocked_seconds > self._callback_seconds:
            # The only case where a page is known to be at fault: its own beats name it.
            child.kill(f"held by a callback for more than {self._callback_seconds:g} s")
            return
        reason = ""
        if child.silent_seconds > STOPPED_SECONDS and child.is_stopped():
            reason = f"stopped for {child.silent_seconds:.0f} s"
        elif child.silent_seconds > self._callback_seconds + SILENT_MARGIN_SECONDS:
            reason = f"silent for {child.silent_seconds:.0f} s"
        elif self._stopping_seconds > self._shutdown_seconds + STOP_MARGIN_SECONDS:
            reason = "did not stop when asked"
        if reason:
            child.culprit = None
            child.kill(reason)
