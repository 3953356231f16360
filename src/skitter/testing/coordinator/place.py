"""Base class for the test module of a coordinator: creates coordinators of an empty place and simulates outages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from skitter.cluster.cluster import Cluster
from skitter.cluster.contract import Coordinator

WAIT_SECONDS = 60.0
"""Time limit of waits for events that must happen."""
SESSION_SECONDS = 6.0
"""Long enough that no session expires just because the machine is busy."""


class CoordinatorPlace:
    """Empty server, file or folder for each test. Subclass it and return an instance from the fixture ``place``."""

    has_tokens = True
    """Whether locks have fencing tokens. If False, ``Hold.token`` is None."""
    can_be_cut_off = False
    """Whether ``cut`` and ``mend`` are implemented."""

    def coordinator(self, session_seconds: float) -> Coordinator:
        """Return a new coordinator of the place that is not open yet."""
        raise NotImplementedError

    def cut(self) -> None:
        """Make the server unreachable for all coordinators until ``mend`` is called. Its data is kept."""
        raise NotImplementedError

    def mend(self) -> None:
        """Make the server reachable again."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self, session_seconds: float = SESSION_SECONDS) -> AsyncIterator[Coordinator]:
        """Open a coordinator without ``Cluster``, so that nothing is renewed."""
        coordinator = self.coordinator(session_seconds)
        await coordinator.open()
        try:
            yield coordinator
        finally:
            await coordinator.close()

    @asynccontextmanager
    async def cluster(self, session_seconds: float = SESSION_SECONDS) -> AsyncIterator[Cluster]:
        """Open a coordinator with ``Cluster``."""
        async with Cluster(self.coordinator(session_seconds)) as cluster:
            yield cluster

    def needs_cutting(self) -> None:
        """Skip a test that needs ``cut`` if the place does not implement it."""
        if not self.can_be_cut_off:
            pytest.skip("this coordinator cannot be cut off")


async def until(look: Callable[[], Awaitable[object]]) -> None:
    """Wait until the function returns a true value."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not await look():  # noqa: ASYNC110  a server has no event
            await asyncio.sleep(0.02)
