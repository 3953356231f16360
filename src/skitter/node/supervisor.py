"""The supervisor: the parent that starts workers, replaces dead ones and hands their leases back.

It ends a worker that is stopped, silent, or held by one page for too long. A child whose pipe to it breaks
stops by itself: so no worker outlives its supervisor for long.

A page that holds the loop of its worker costs itself. After a second (or what is usual here, by ``policy.loop_holds``)
its worker is relieved: everything else that it holds goes back without a loss, and another worker takes its place. The
held one keeps its page. After ``callback_seconds`` it is ended, the page has failed, and its host has a strike, as one
that cannot be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence

from skitter.errors import BackendError, FrontierError, JobError
from skitter.frontier.contract import WorkerRecovery
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.node.node_metrics import NodeMetrics
from skitter.node.worker_process import WorkerProcess
from skitter.observe import events
from skitter.policy.loop_holds import HOLD_SECONDS, HoldLimits
from skitter.worker.commit_events import host_event

STOPPED_SECONDS = 5.0
"""A process that is stopped (SIGSTOP) may hold the store's lock: it is ended soon."""
SILENT_MARGIN_SECONDS = 10.0
"""A process that runs but is silent may be in a callback that holds the interpreter: it has that long, and this."""
STOP_MARGIN_SECONDS = 5.0
"""A process that was asked to stop has its shutdown time, and this."""
MAX_RELIEVED = 8
"""Held workers of a node that may be waited for beside those that work."""
LOCKED_SECONDS = 2.0
"""A thread of a held process may be in the middle of a transaction, which locks a SQLite file for everybody. If the
store does not answer for so long, held processes are ended at once, as stopped ones are, and their pages are lost."""
JOB_IS_OVER = "the job is over"
"""Why a worker is killed that has not joined its job when another one sees the end of it."""
FALSE_STARTS = 3
FAILURES = 20
"""Workers that may fail one after the other, by errors that nobody expected, while no worker of this node commits
anything. Three pages that make their workers fail until they have failed, class ``lost``, take fewer (six losses
each)."""
_CHECK_SECONDS = 0.25
_MAX_PAUSE_SECONDS = 1.0


class Supervisor:
    """Keeps ``count`` workers running until each of them ends by itself."""

    def __init__(
        self,
        command: Callable[[int, int], Sequence[str]],
        count: int,
        *,
        frontier: WorkerRecovery,
        callback_seconds: float,
        lease_seconds: float,
        shutdown_seconds: float,
        on_event: Callable[[events.Event], None],
        config: bytes = b"",
        inherits: Sequence[int] = (),
        print_fd: int = 2,
        locks: bool = False,
        metrics: NodeMetrics | None = None,
    ) -> None:
        """``command`` gives the command line of a child, and ``config`` is what it reads: see ``WorkerProcess.start``.

        ``inherits`` are file descriptors that all of them share; they print to ``print_fd``. ``locks``: a transaction
        of one process makes the others wait, as in a SQLite file. ``metrics``: where the node has some.
        """
        self._command = command
        self._config = config
        self._inherits = inherits
        self._print_fd = print_fd
        self._count = count
        self._frontier = frontier
        self._callback_seconds = callback_seconds
        self._lease_seconds = lease_seconds
        self._shutdown_seconds = shutdown_seconds
        self._on_event = on_event
        self._children: set[WorkerProcess] = set()
        self._relieved: set[asyncio.Task[bool]] = set()
        self._hold_limits = HoldLimits()
        self._locks = locks
        self._metrics = metrics
        self._errors: list[BaseException] = []
        self._stopping = False
        self._job_is_over = False
        self._stopping_seconds = 0.0
        self._false_starts = 0
        self._failures = 0
        self._committed = 0
        """By workers that have ended."""
        self._committed_at_failure = 0

    async def run(self) -> None:
        """Run until all workers have ended; raise what keeps them from working, after the others have stopped."""
        slots = [asyncio.create_task(self._keep_one()) for _ in range(self._count)]
        watching = asyncio.create_task(self._watch())
        try:
            await self._all_ended(slots)
        except asyncio.CancelledError:
            self.kill()
            await self._all_ended(slots)
            raise
        finally:
            watching.cancel()
            self._errors += [error for slot in slots if slot.done() and (error := slot.exception())]
        if self._errors:
            raise self._errors[0]

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

    async def _all_ended(self, slots: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.wait(slots)
        while self._relieved:
            await asyncio.wait(list(self._relieved))

    async def _keep_one(self) -> None:
        """Start one worker after the other, until one ends by itself."""
        crashes = 0
        try:
            while not self._stopping and not self._job_is_over:
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
        """Run one worker to its end, or until it is relieved. False: another one is to take its place."""
        child = await WorkerProcess.start(self._command, self._on_event, self._config, self._inherits, self._print_fd)
        self._children.add(child)
        if self._metrics is not None:
            self._metrics.joined(child.counters, child.pid)
        if self._stopping:
            child.terminate()
        elif self._job_is_over:
            child.kill(JOB_IS_OVER)
        ending = asyncio.create_task(self._wait_for_end(child))
        relieved = asyncio.create_task(child.relieved.wait())
        await asyncio.wait([ending, relieved], return_when=asyncio.FIRST_COMPLETED)
        relieved.cancel()
        if ending.done():
            return await ending
        self._relieved.add(ending)
        ending.add_done_callback(self._relieved_ended)
        await self._relieve(child)
        return False

    async def _relieve(self, child: WorkerProcess) -> None:
        """Hand back, without a loss, all that a held worker leased but the page that holds it."""
        page = child.held_page
        child.retire()
        if page is not None and child in self._children:
            back = await self._release_all_but(child, page)
            self._on_event(events.WORKER_HELD(worker=child.worker, seconds=round(child.still_seconds, 1), leases=back))

    async def _release_all_but(self, child: WorkerProcess, page: Lease) -> int:
        handing_back = asyncio.create_task(self._frontier.relieve_worker(child.worker, page, self._callback_seconds))
        if self._locks and not (await asyncio.wait([handing_back], timeout=LOCKED_SECONDS))[0]:
            for held in self._children:
                if held.relieved.is_set():
                    held.kill("held, and the store is locked")
        return await handing_back

    def _relieved_ended(self, ending: asyncio.Task[bool]) -> None:
        self._relieved.discard(ending)
        if not ending.cancelled() and (error := ending.exception()) is not None:
            self._errors.append(error)
            self.stop()

    async def _wait_for_end(self, child: WorkerProcess) -> bool:
        """Wait for its end, and return its leases. False: another one is to take its place."""
        renewing = asyncio.create_task(self._renew(child))
        try:
            code = await child.ended()
        finally:
            renewing.cancel()
            self._children.discard(child)
            self._update(child, 0.0)
            if self._metrics is not None:
                self._metrics.left(child.counters)
            child.close()
            self._committed += child.said.committed
        if child.said.error is not None:
            with contextlib.suppress(FrontierError):
                await self._return_leases(child)
            raise child.said.error
        if child.said.saw_end_of_job:
            self._end_those_that_have_not_joined()
        back = await self._return_leases(child)
        if child.kill_reason == JOB_IS_OVER:
            return True
        if not child.said.has_finished and not child.said.starts_over:
            if self._metrics is not None:
                self._metrics.died(back)
            if child.worker:
                kind = events.WORKER_DIED if self._stopping or child.relieved.is_set() else events.WORKER_REPLACED
                self._on_event(kind(worker=child.worker, how=child.how_it_ended(), leases=back))
            if not self._stopping:
                self._check_start(child, code)
                self._check_failure(child, code, back)
        return child.said.has_finished

    def _end_those_that_have_not_joined(self) -> None:
        """End the workers that still start: they have leased nothing, and there is nothing left to lease."""
        self._job_is_over = True
        for child in self._children:
            if not child.worker:
                child.kill(JOB_IS_OVER)

    def _check_start(self, child: WorkerProcess, code: int) -> None:
        if child.worker:
            self._false_starts = 0
        elif code != -signal.SIGKILL:
            # SIGKILL is somebody else's doing, and tells nothing about how a worker starts.
            self._false_starts += 1
        if self._false_starts >= FALSE_STARTS:
            raise BackendError(
                f"workers die while they start: {child.how_it_ended()}",
                hint="run with -v; see the messages above",
            )

    def _check_failure(self, child: WorkerProcess, code: int, back: int) -> None:
        """A worker that dies of an error of its own is replaced, but not for ever.

        Not counted: workers that somebody killed; those that a page took down with it, whose leases (``back``) are lost
        until that page has failed; and errors of the store, which end the node at once.
        """
        ended_itself = child.worker and not child.kill_reason and code not in (-signal.SIGKILL, -signal.SIGTERM)
        if not child.said.failure and (back or not ended_itself):
            return
        committed = self._committed + sum(other.said.committed for other in self._children)
        self._failures = self._failures + 1 if committed == self._committed_at_failure else 1
        self._committed_at_failure = committed
        if self._failures >= FAILURES:
            raise BackendError(
                f"{self._failures} workers have failed without committing anything:"
                f" {child.said.failure or child.how_it_ended()}",
                hint="nothing is lost; run with -v for the traceback, and report it",
            )

    async def _return_leases(self, child: WorkerProcess) -> int:
        """Return what an ended worker still held; the page for which it was killed has failed."""
        if not child.worker:
            return 0
        back, blamed_page = 0, child.blamed_page
        if blamed_page is not None:
            back = await self._frontier.relieve_worker(child.worker, blamed_page, self._callback_seconds)
            error = f"the callback blocked its worker: {child.kill_reason}"
            # A host that does this again and again is given up, as one that cannot be reached.
            news = HostNews(unreachable=True)
            outcome = Outcome(lease=blamed_page, ending=Ending.FAILED, error_class="callback", error=error, news=news)
            committed = await self._frontier.commit(child.worker, [outcome])
            back += sum(committed.accepted)
            for trouble in committed.troubles:
                self._on_event(host_event(child.worker, trouble))
        return back + await self._frontier.release_worker(child.worker)

    async def _renew(self, child: WorkerProcess) -> None:
        """Keep the page of a relieved worker leased: a held interpreter does not renew."""
        await child.relieved.wait()
        assert child.held_page is not None, "it was blocked by a page"
        while True:
            # A store that is unavailable, or a job that was dropped, is for others to tell.
            with contextlib.suppress(FrontierError, JobError):
                await self._frontier.renew(child.worker, [child.held_page])
            await asyncio.sleep(self._lease_seconds / 3)

    async def _watch(self) -> None:
        """Check the workers periodically. Time is counted in checks: see ``WorkerProcess.silent_seconds``."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            self._stopping_seconds += _CHECK_SECONDS if self._stopping else 0.0
            for child in self._children:
                self._update(child, _CHECK_SECONDS)
                self._check(child)

    def _update(self, child: WorkerProcess, seconds: float) -> None:
        if (let_go := child.update(seconds)) is not None:
            page, held_seconds = let_go
            self._hold_limits.let_go(page.host_key, held_seconds)

    def _check(self, child: WorkerProcess) -> None:
        """End it if it is stopped, silent, held by one page for too long, or does not stop."""
        reason, blamed_page = "", None
        if child.silent_seconds > STOPPED_SECONDS and child.is_stopped():
            reason = f"stopped for {child.silent_seconds:.0f} s"
        elif child.still_seconds > self._callback_seconds and not child.is_stopped():
            # The only case where a page is known to be at fault.
            reason, blamed_page = (
                f"blocked by a callback for more than {self._callback_seconds:g} s",
                child.holding_page(),
            )
        elif child.silent_seconds > self._callback_seconds + SILENT_MARGIN_SECONDS:
            reason = f"silent for {child.silent_seconds:.0f} s"
        elif self._stopping_seconds > self._shutdown_seconds + STOP_MARGIN_SECONDS:
            reason = "did not stop when asked"
        elif child.still_seconds > HOLD_SECONDS and not child.relieved.is_set() and not self._stopping:
            self._check_hold(child)
        if reason:
            child.kill(reason, blamed_page)

    def _check_hold(self, child: WorkerProcess) -> None:
        """Relieve it if its page holds it for longer than is usual."""
        page = None if child.is_stopped() else child.holding_page()
        relieved = sum(other.relieved.is_set() for other in self._children)
        if page and child.still_seconds > self._hold_limits.limit_seconds(page.host_key) and relieved < MAX_RELIEVED:
            child.held_page = page
            child.relieved.set()
