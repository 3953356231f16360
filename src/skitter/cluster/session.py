"""The session with a coordinator: its state, kept by pings, and time limits for all calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from skitter.cluster.clock import now_seconds
from skitter.cluster.contract import Coordinator, SessionState
from skitter.errors import ClusterError, ClusterUnavailableError, SessionExpiredError

ANSWER_SECONDS = 15.0
"""A server that is silent for so long is unavailable."""
CLOSE_SECONDS = 3.0
"""The most that ``close`` waits for releases: what is not released then ends with its lifetime."""
MARGIN = 0.1
"""Part of a lifetime by which a holder stops earlier than the server forgets it: room to stop, and for clock drift."""
_RELEASE_PAUSE_SECONDS = 0.2
_PINGS = 5
"""Pings in the time of a session."""
_log = logging.getLogger("skitter.cluster")
T = TypeVar("T")


class Session:
    """One connection to a coordinator, with its state and the tasks that keep things alive."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self._state = SessionState.LOST
        self._heard_at = 0.0
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._wake = asyncio.Event()
        self._came_back = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._heartbeat: asyncio.Task[None] | None = None

    @property
    def state(self) -> SessionState:
        """The state by the clock of this moment, also if no timer has run since."""
        if self._state != SessionState.LOST and now_seconds() >= self._lost_at():
            self._change_to(SessionState.LOST)
        return self._state

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        """Have this called with each new state; return what ends that."""
        self._callbacks.append(callback)

        def end() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return end

    async def states(self) -> AsyncIterator[SessionState]:
        """Give out the present state, and every change of it."""
        changes: asyncio.Queue[SessionState] = asyncio.Queue()
        end = self.on_state(changes.put_nowait)
        try:
            yield self.state
            while True:
                yield await changes.get()
        finally:
            end()

    async def open(self) -> None:
        sent_at = now_seconds()
        try:
            await self.call(self.coordinator.open())
            self.coordinator.on_connection_change(self._wake.set)
        except BaseException:
            await self._close_coordinator()
            raise
        self._heard_at = sent_at
        self._change_to(SessionState.CONNECTED)
        self._heartbeat = asyncio.create_task(self._ping_on(), name="skitter-cluster-heartbeat")

    async def close(self) -> None:
        """Wait for releases under way, and disconnect."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in (*self._tasks, *([self._heartbeat] if self._heartbeat else [])):
            task.cancel()
            with suppress(asyncio.CancelledError, ClusterError):
                await task
        self._heartbeat = None
        await self._close_coordinator()
        self._change_to(SessionState.LOST)

    async def call(self, answer: Awaitable[T], seconds: float = ANSWER_SECONDS) -> T:
        """Return the answer of the coordinator. ClusterUnavailableError: there was none in time."""
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as error:
            raise ClusterUnavailableError(
                f"the coordinator does not answer: {self.coordinator.address}", hint="is it running, and reachable?"
            ) from error

    async def pause(self, seconds: float) -> None:
        """Sleep, but only until the session is connected again: what was held may be lost then, or be renewed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._came_back.wait()

    def release_later(self, name: str, owner: str, lifetime_seconds: float) -> None:
        """Have a lock released that nobody waits for: again and again, until its lifetime has ended it anyway."""
        until = now_seconds() + lifetime_seconds

        async def release() -> None:
            while True:
                try:
                    await self.call(self.coordinator.locks.release(name, owner))
                except ClusterUnavailableError:
                    if now_seconds() >= until:
                        return
                    await asyncio.sleep(_RELEASE_PAUSE_SECONDS)
                except ClusterError as error:
                    _log.info("cannot release: %s: %s", name, error)
                    return
                else:
                    return

        task = asyncio.create_task(release())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ping_on(self) -> None:
        pause = self.coordinator.session_seconds / _PINGS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            sent_at = now_seconds()
            try:
                await self.call(self.coordinator.ping(), max(pause, 0.1))
            except SessionExpiredError as error:
                # Sooner than the clock says: by a restart without its data, or because a machine was stopped.
                _log.warning("%s", error)
                self._change_to(SessionState.LOST)
                self._heard_at = sent_at
                self._change_to(SessionState.CONNECTED)
            except ClusterError as error:
                if self.state == SessionState.CONNECTED:
                    _log.warning("the coordinator is unavailable: %s", error)
                    self._change_to(SessionState.SUSPENDED)
                # A backend that says at once that it is unavailable would else be asked in a tight loop.
                await asyncio.sleep(min(0.1, pause))
            else:
                # Before the new time counts: a session that was lost meanwhile has been lost, for everybody to see.
                _ = self.state
                self._heard_at = sent_at
                self._change_to(SessionState.CONNECTED)

    def _lost_at(self) -> float:
        return self._heard_at + self.coordinator.session_seconds * (1 - MARGIN)

    def _change_to(self, state: SessionState) -> None:
        if state == self._state:
            return
        self._state = state
        if state == SessionState.CONNECTED:
            came_back, self._came_back = self._came_back, asyncio.Event()
            came_back.set()
        for callback in list(self._callbacks):
            callback(state)

    async def _close_coordinator(self) -> None:
        with suppress(ClusterError):
            await self.call(self.coordinator.close())
