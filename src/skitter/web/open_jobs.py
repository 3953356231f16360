"""The frontiers that a master has open, one for each job that is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from skitter.concurrency import open_in_thread
from skitter.errors import VanishedError
from skitter.frontier.contract import Frontier

MAX_IDLE = 64
"""Frontiers that stay open though nobody calls them: each has a connection, or an SQLite file with a thread."""


class _Opened:
    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self.calls = 0


class OpenJobs:
    """Opens the frontier of a job at its first call, and closes the one that was used least recently."""

    def __init__(self, open_job: Callable[[str], Frontier]) -> None:
        self._open_job = open_job
        self._opened: dict[str, _Opened] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def use(self, job: str, *, alone: bool = False) -> AsyncIterator[Frontier]:
        """The frontier of a job, which stays open while it is used.

        ``alone``: one of its own, for a call of minutes that others must not wait for.
        """
        if alone:
            frontier = await open_in_thread(self._open_job, job)
            try:
                yield frontier
            finally:
                await frontier.close()
            return
        opened = self._opened.pop(job, None)
        if opened is None:
            async with self._opening:
                await self._close_idle()
                # Another call may have opened it meanwhile. In a thread: a file may be locked by another process.
                opened = self._opened.pop(job, None) or _Opened(await open_in_thread(self._open_job, job))
                self._opened[job] = opened
        # At the end of the row: it was used last.
        self._opened[job] = opened
        opened.calls += 1
        try:
            yield opened.frontier
        except VanishedError:
            # This object remembers that the job was there; whoever asks next shall be told what there is.
            if self._opened.get(job) is opened:
                del self._opened[job]
            raise
        finally:
            opened.calls -= 1
            if not opened.calls and self._opened.get(job) is not opened:
                await opened.frontier.close()

    async def forget(self, job: str) -> None:
        """Close the frontier of a job that is dropped, after the calls that are under way."""
        opened = self._opened.pop(job, None)
        if opened is not None and not opened.calls:
            await opened.frontier.close()

    async def close(self) -> None:
        while self._opened:
            await self._opened.popitem()[1].frontier.close()

    async def _close_idle(self) -> None:
        idle = [job for job, opened in self._opened.items() if not opened.calls]
        for job in idle[: max(0, len(idle) - MAX_IDLE + 1)]:
            await self.forget(job)
