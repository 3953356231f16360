"""The long poll: workers without work wait at the master, which wakes as many of them as there is work.

A master does not know what is ready in the store; it hears the answers that pass through it. When something may be
ready it wakes one worker, which leases as any other. If that worker got all that it asked for, there may be more, and
two more are woken. If not, the grant says when to look next. So the cost of waiting does not grow with the number of
workers: one of them asks about once a second, on behalf of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from skitter.frontier.contract import POLL_SECONDS
from skitter.model.job import Report, State
from skitter.model.lease import Grant
from skitter.model.outcome import Committed

WAKE_SECONDS = 0.05
"""Between two workers that are woken because something may be ready. Workers that are busy take most of it."""
MAX_WAITERS = 20_000
_MAKES_WORK = frozenset("add begin change_settings command reap release release_worker relieve_worker revive".split())


class WorkWaiters:
    """The workers that wait, by job."""

    def __init__(self) -> None:
        self._jobs: dict[str, _JobWaiters] = {}
        self._closed = False

    @property
    def count(self) -> int:
        """How many wait now."""
        return sum(len(job.waiting) for job in self._jobs.values())

    def seen(self, job: str, answer: Any) -> Any:
        """A list of workers, or a report, in which those that wait here are heard from just now."""
        waiters = self._jobs.get(job)
        if waiters is None:
            return answer
        if isinstance(answer, Report):
            return msgspec.structs.replace(answer, workers=self.seen(job, answer.workers))
        here = {worker for worker, _ in waiters.waiting.values()}
        return [msgspec.structs.replace(row, silent_seconds=0.0) if row.id in here else row for row in answer]

    async def wait(self, job: str, worker: str, timeout_seconds: float, is_gone: Callable[[], bool]) -> bool:
        """Wait until the worker should ask for work; False: nothing has happened. ``is_gone``: the client is."""
        if self._closed:
            return True
        waiters = self._jobs.get(job)
        if waiters is None:
            waiters = self._jobs[job] = _JobWaiters()
        try:
            return await waiters.wait(worker, timeout_seconds, is_gone)
        finally:
            if not waiters.waiting and self._jobs.get(job) is waiters:
                waiters.stop()
                del self._jobs[job]

    def heard(self, job: str, method: str, arguments: Any, answer: Any) -> None:
        """Look at a call that has passed through: there may be work, or it is known when there will be."""
        waiters = self._jobs.get(job)
        if waiters is None:
            return
        if isinstance(answer, Grant):
            waiters.granted(arguments.worker, arguments.limit, answer)
        elif isinstance(answer, Committed):
            if answer.grant is not None:
                waiters.granted(arguments.worker, arguments.want, answer.grant)
            elif answer.new_links:
                waiters.look_in(0.0)
        elif method in _MAKES_WORK:
            waiters.look_in(0.0)

    def wake_all(self, job: str) -> None:
        """Wake everybody who waits for a job that is gone."""
        if (waiters := self._jobs.get(job)) is not None:
            waiters.wake(len(waiters.waiting))

    def close(self) -> None:
        """Wake everybody: this master ends."""
        self._closed = True
        for waiters in self._jobs.values():
            waiters.wake(len(waiters.waiting))


class _JobWaiters:
    """The workers of one job that wait."""

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[bool], tuple[str, Callable[[], bool]]] = {}
        self._woken: set[str] = set()
        """Workers that were woken and have not asked yet."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, worker: str, timeout_seconds: float, is_gone: Callable[[], bool]) -> bool:
        future: asyncio.Future[bool] = self._loop.create_future()
        self.waiting[future] = worker, is_gone
        self.look_in(POLL_SECONDS)
        timer = self._loop.call_later(timeout_seconds, _set, future, False)
        try:
            return await future
        finally:
            timer.cancel()
            self.waiting.pop(future, None)

    def granted(self, worker: str, want: int, grant: Grant) -> None:
        was_woken = worker in self._woken
        self._woken.discard(worker)
        if grant.state in (State.FINISHED, State.STOPPED, State.DRAINING):
            self.wake(len(self.waiting))
        elif len(grant.leases) < want:
            self.look_in(grant.ask_again_seconds)
        elif was_woken:
            self.wake(2)
        else:
            self.look_in(0.0)

    def look_in(self, seconds: float) -> None:
        """Wake one worker after this time, if none is woken sooner."""
        at = self._loop.time() + max(seconds, WAKE_SECONDS)
        if self._timer is None or self._timer.when() > at:
            self.stop()
            self._timer = self._loop.call_at(at, self._look)

    def wake(self, number: int) -> None:
        for future in list(self.waiting):
            if number <= 0:
                break
            worker, is_gone = self.waiting.pop(future)
            self._woken.add(worker)
            _set(future, True)
            number -= not is_gone()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if len(self._woken) > MAX_WAITERS:
            self._woken.clear()
        self.wake(1)
        # The one that was woken may die before it asks.
        if self.waiting:
            self.look_in(POLL_SECONDS)


def _set(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
