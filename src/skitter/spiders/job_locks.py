"""Locks that all workers of a job share: ``async with self.lock(name) as held`` in a spider."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from skitter.errors import ClusterUnavailableError

if TYPE_CHECKING:
    # Loaded with the first lock: most spiders want none.
    from skitter.cluster.cluster import Cluster
    from skitter.cluster.lock import Held

AWAY_PAUSE_SECONDS = 0.5


class JobLocks:
    """The locks of one job, for one worker. It connects when the first lock is wanted."""

    def __init__(self, job: str = "", connect: Callable[[], Cluster] | None = None) -> None:
        """``connect`` makes the connection, in the worker's loop; without it the locks are those of this object."""
        self._job = job
        self._connect = connect or in_process
        self._cluster: Cluster | None = None
        self._opening = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def lock(
        self, name: str, *, lifetime_seconds: float, timeout_seconds: float | None, stop_on_loss: bool
    ) -> AsyncIterator[Held]:
        """Hold a lock of the job; ``Cluster.lock`` has the parameters."""
        # A server that is unavailable is waited for, as one who has the lock: it is not the fault of the page.
        async with asyncio.timeout(timeout_seconds):
            cluster = await self._opened()
        lock = cluster.lock(
            f"job {self._job}: {name}",
            lifetime_seconds=lifetime_seconds,
            timeout_seconds=timeout_seconds,
            stop_on_loss=stop_on_loss,
        )
        async with lock as held:
            yield held

    async def close(self) -> None:
        """Release what is held, and disconnect."""
        if self._cluster is not None:
            await self._cluster.close()

    async def _opened(self) -> Cluster:
        async with self._opening:
            while self._cluster is None:
                cluster = self._connect()
                try:
                    await cluster.open()
                except ClusterUnavailableError:
                    await asyncio.sleep(AWAY_PAUSE_SECONDS)
                else:
                    self._cluster = cluster
            return self._cluster


def in_process() -> Cluster:
    """Locks for the tasks of one event loop."""
    from skitter.cluster.cluster import Cluster
    from skitter.cluster.memory_coordinator import MemoryCoordinator

    return Cluster(MemoryCoordinator())
