"""Locks that all processes share: taken by tasks, renewed while held, with a fencing token and a signal of loss."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Hashable
from contextlib import suppress
from types import EllipsisType, TracebackType
from typing import Any

from skitter.cluster.clock import now_seconds
from skitter.cluster.contract import Hold
from skitter.cluster.loss import Loss
from skitter.cluster.process_identity import worker_id
from skitter.cluster.session import ANSWER_SECONDS, MARGIN, Session
from skitter.errors import ClusterError, ClusterUnavailableError, LockLostError, UsageError

LIFETIME_SECONDS = 10.0
"""Default lifetime of a hold without renewal: how long a killed holder still blocks others."""
RETRY_SECONDS = 0.1
_RENEWALS = 3
"""Renewals in one lifetime."""


class Held:
    """A held lock, as ``async with cluster.lock(name) as held`` returns it."""

    def __init__(self, session: Session, name: str, owner: str, *, lifetime_seconds: float, hold: Hold) -> None:
        self.name = name
        self.token = hold.token
        """Fencing token, greater than that of every earlier holder. The guarded resource must refuse smaller ones."""
        self.lost = Loss()
        """Set before another process can take the lock. Has ``is_set()`` and ``await wait()`` of asyncio.Event."""
        self._session = session
        self._locks = session.coordinator.locks
        self.owner = owner
        self._lifetime_seconds = lifetime_seconds
        self.depth = 0
        """How often its holder has entered it: more than once only if the lock is re-entrant."""
        self._released = False
        self._on_end: list[Callable[[], None]] = []
        self._renewal: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raise LockLostError if the lock is lost or released. Call it right before a step that must not happen twice.

        Time passes between this call and that step: only the token is safe.
        """
        if self._released or self.lost.is_set():
            raise lost_error(self.name)

    async def extend(self, lifetime_seconds: float | None = None) -> None:
        """Restart the lifetime, with this length from now on. Raises LockLostError if the lock is lost."""
        self.check()
        if lifetime_seconds is not None:
            self._lifetime_seconds = _positive(lifetime_seconds, "lifetime_seconds")
        if not await self._renew():
            raise lost_error(self.name)

    async def release(self) -> None:
        """Release the lock, however often it was entered. A second call does nothing.

        Raises LockLostError if the lock was lost. If the server is unavailable, the release is retried until the
        lifetime ends; that is no error.
        """
        if self._released:
            return
        was_lost = self.lost.is_set()
        seconds = min(ANSWER_SECONDS, self.lost.remaining_seconds() + 1.0)
        self.abandon()
        if was_lost:
            # It may still be there: the clock is ahead of the server's.
            self._session.release_later(self.name, self.owner, self._lifetime_seconds)
            raise lost_error(self.name)
        try:
            was_ours = await self._session.call(self._locks.release(self.name, self.owner), seconds)
        except ClusterUnavailableError:
            self._session.release_later(self.name, self.owner, self._lifetime_seconds)
            return
        except asyncio.CancelledError:
            self._session.release_later(self.name, self.owner, self._lifetime_seconds)
            raise
        if not was_ours:
            raise lost_error(self.name)

    async def leave(self) -> None:
        """Release the lock if this was the outermost entry. Raises LockLostError if it is lost."""
        self.depth -= 1
        if self.depth > 0:
            self.check()
        else:
            await self.release()

    def keep(self, sent_at: float, hold: Hold) -> None:
        """Start renewing the lock."""
        self._count_from(sent_at, hold)
        self._renewal = asyncio.create_task(self._keep(), name=f"skitter-lock-{self.name}")

    def on_end(self, callback: Callable[[], None]) -> None:
        """Register a callback, called when the lock is released or lost."""
        self._on_end.append(callback)
        self.lost.on_set(callback)

    def abandon(self) -> None:
        """Stop renewing the lock, without notifying the server."""
        self._released = True
        self.lost.end()
        if self._renewal is not None:
            self._renewal.cancel()
        for callback in self._on_end:
            callback()

    async def _keep(self) -> None:
        pause = self._lifetime_seconds / _RENEWALS
        while not self.lost.is_set():
            await self._session.pause(min(pause, max(0.01, self.lost.remaining_seconds() / 2)))
            try:
                await self._renew()
            except ClusterUnavailableError:
                # As long as it is not lost there is time to ask again.
                pause = min(0.5, self._lifetime_seconds / 20)
            except ClusterError:
                self.lost.set()
            else:
                pause = self._lifetime_seconds / _RENEWALS

    async def _renew(self) -> bool:
        remaining = self.lost.remaining_seconds()
        sent_at = now_seconds()
        renewal = self._locks.renew(self.name, self.owner, lifetime_seconds=self._lifetime_seconds)
        # Time for another attempt, if the server is silent.
        seconds = min(ANSWER_SECONDS, self._lifetime_seconds / _RENEWALS, remaining)
        hold = await self._session.call(renewal, max(0.05, seconds))
        if hold is None:
            if not self._released:
                self.lost.set()
            return False
        self._count_from(sent_at, hold)
        return not self.lost.is_set()

    def _count_from(self, sent_at: float, hold: Hold) -> None:
        if not self._released:
            self.lost.postpone(sent_at + hold.lifetime_seconds * (1 - MARGIN))


class HoldTable:
    """The holds of a process by holder (a task, or a thread of the blocking form) and name."""

    def __init__(self) -> None:
        self._held: dict[tuple[Hashable, str], Held] = {}

    def find(self, holder: Hashable, name: str) -> Held | None:
        return self._held.get((holder, name))

    def enter(self, holder: Hashable, held: Held) -> None:
        """Note a hold, or that it was entered once more."""
        key = (holder, held.name)
        held.depth += 1
        if self._held.get(key) is not held:
            self._held[key] = held
            held.on_end(lambda: self._forget(key, held))

    def all(self) -> list[Held]:
        return list(self._held.values())

    def _forget(self, key: tuple[Hashable, str], held: Held) -> None:
        if self._held.get(key) is held:
            del self._held[key]


class Lock:
    """A named lock, made by ``Cluster.lock`` and ``Cluster.lead``.

    Many tasks may use one object: each is a separate owner, and they exclude each other.
    """

    def __init__(
        self,
        session: Session,
        table: HoldTable,
        name: str,
        *,
        lifetime_seconds: float,
        timeout_seconds: float | None,
        retry_seconds: float,
        reentrant: bool,
        stop_on_loss: bool,
    ) -> None:
        self.name = name
        self._session = session
        self._table = table
        self._lifetime_seconds = _positive(lifetime_seconds, "lifetime_seconds")
        self._timeout_seconds = timeout_seconds
        self._retry_seconds = _positive(retry_seconds, "retry_seconds")
        self._reentrant = reentrant
        self._stop_on_loss = stop_on_loss
        self._stops: dict[asyncio.Task[Any], list[_StopOnLoss]] = {}

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        task = _this_task()
        stop = _StopOnLoss(task, held) if self._stop_on_loss else _StopOnLoss(None, held)
        self._stops.setdefault(task, []).append(stop)
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task = _this_task()
        stops = self._stops[task]
        stop = stops.pop()
        if not stops:
            del self._stops[task]
        was_stopped = await stop.end(kind)
        try:
            await stop.held.leave()
            if stop.held.lost.is_set():
                raise lost_error(self.name)
        except LockLostError:
            # The error of the body says more than that it has lost the lock by then.
            if error is None or was_stopped:
                raise

    async def acquire(
        self, *, timeout_seconds: float | EllipsisType | None = ..., holder: Hashable | None = None
    ) -> Held:
        """Wait for the lock and take it.

        ``timeout_seconds`` overrides that of the lock; 0 tries once, None waits forever. ``holder`` replaces the task.
        Raises TimeoutError if another holder keeps the lock, and ClusterUnavailableError if the server does not answer.
        """
        timeout = self._timeout_seconds if isinstance(timeout_seconds, EllipsisType) else timeout_seconds
        holder = _this_task() if holder is None else holder
        held = self._table.find(holder, self.name)
        if held is not None and held.lost.is_set():
            held = None
        if held is not None and not self._reentrant:
            if timeout is None:
                raise UsageError(f"this task already holds the lock: {self.name}", hint="give reentrant=True")
            # Another task may release it.
            held = None
        if held is None:
            held = await self._take(timeout)
        self._table.enter(holder, held)
        return held

    async def release(self, *, holder: Hashable | None = None) -> None:
        """Release the lock of the calling task. Raises LockLostError if the task has lost it or never held it."""
        holder = _this_task() if holder is None else holder
        held = self._table.find(holder, self.name)
        if held is None:
            raise LockLostError(
                f"this task does not hold the lock: {self.name}",
                hint="use held.release() to release it from another task",
            )
        await held.leave()

    async def _take(self, timeout_seconds: float | None) -> Held:
        owner = f"{worker_id()}/{secrets.token_hex(8)}"
        try:
            return await self._wait_for_turn(owner, timeout_seconds)
        except BaseException:
            # A call whose answer was lost may have taken it, and a cancelled one may stand in a queue.
            self._session.release_later(self.name, owner, self._lifetime_seconds)
            raise

    async def _wait_for_turn(self, owner: str, timeout_seconds: float | None) -> Held:
        until = None if timeout_seconds is None else now_seconds() + timeout_seconds
        while True:
            unavailable: ClusterUnavailableError | None = None
            try:
                held = await self._try_once(owner, until)
            except ClusterUnavailableError as error:
                unavailable, held = error, None
            if held is not None:
                return held
            if until is not None and now_seconds() >= until:
                raise unavailable or TimeoutError(f"another holder has the lock: {self.name}")
            pause = self._retry_seconds * random.uniform(0.75, 1.25)
            await asyncio.sleep(pause if until is None else min(pause, max(0.0, until - now_seconds())))

    async def _try_once(self, owner: str, until: float | None) -> Held | None:
        locks, lifetime = self._session.coordinator.locks, self._lifetime_seconds
        sent_at = now_seconds()
        wait = None if until is None else max(0.0, until - sent_at)
        taken = locks.acquire(self.name, owner, lifetime_seconds=lifetime, wait_seconds=wait)
        hold = await (taken if wait is None else self._session.call(taken, wait + ANSWER_SECONDS))
        if hold is not None and now_seconds() - sent_at > hold.lifetime_seconds / _RENEWALS:
            # It has waited for its turn, and the lifetime has begun some time ago, or the answer was slow.
            sent_at = now_seconds()
            hold = await self._session.call(locks.renew(self.name, owner, lifetime_seconds=lifetime), lifetime)
        if hold is None:
            return None
        held = Held(self._session, self.name, owner, lifetime_seconds=lifetime, hold=hold)
        held.keep(sent_at, hold)
        return held


class _StopOnLoss:
    """Cancels the body of an ``async with`` when its lock is lost, as ``asyncio.timeout`` does when time is over."""

    def __init__(self, task: asyncio.Task[Any] | None, held: Held) -> None:
        self.held = held
        self._task = task
        self._has_cancelled = False
        self._cancelling = task.cancelling() if task is not None else 0
        if task is not None:
            held.lost.on_set(self._cancel)

    async def end(self, kind: type[BaseException] | None) -> bool:
        """End of the body; return whether it ended because of this."""
        task, self._task = self._task, None
        if task is None or not self._has_cancelled:
            return False
        if kind is not asyncio.CancelledError:
            # The body ended first, and the cancellation is still to come: until Python 3.13 uncancel() leaves it there.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return task.uncancel() <= self._cancelling and kind is asyncio.CancelledError

    def _cancel(self) -> None:
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel()


def lost_error(name: str) -> LockLostError:
    return LockLostError(
        f"the lock is lost, and another process may hold it: {name}",
        hint="was the coordinator unavailable, or this process stopped, for longer than lifetime_seconds?",
    )


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None, "locks are taken in tasks"
    return task


def _positive(seconds: float, name: str) -> float:
    if not seconds > 0:
        raise UsageError(f"invalid duration: {name}={seconds}", hint="give a number of seconds above 0")
    return seconds
