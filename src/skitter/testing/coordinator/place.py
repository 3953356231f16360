"""What a coordinator's test module gives: coordinators of one empty place, and ways to harm it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from skitter.cluster.cluster import Cluster
from skitter.cluster.contract import Coordinator

WAIT_SECONDS = 30.0
"""The time limit of waits for what must happen."""
SESSION_SECONDS = 6.0
"""Long enough that a busy machine does not lose a session by itself."""


class CoordinatorPlace:
    """An empty server, file or folder for each test. Subclass it, and return it from the fixture ``place``."""

    has_tokens = True
    """False: ``Hold.token`` is None here."""
    can_be_cut_off = False
    """Whether ``cut`` and ``mend`` do something."""

    def coordinator(self, session_seconds: float) -> Coordinator:
        """Return a new coordinator of the place, not opened yet."""
        raise NotImplementedError

    def cut(self) -> None:
        """Let the server be out of reach for all coordinators, until ``mend``; what it stores stays."""
        raise NotImplementedError

    def mend(self) -> None:
        """Let the server be in reach again."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self, session_seconds: float = SESSION_SECONDS) -> AsyncIterator[Coordinator]:
        """Open a coordinator without its facade: nothing is renewed."""
        coordinator = self.coordinator(session_seconds)
        await coordinator.open()
        try:
            yield coordinator
        finally:
            await coordinator.close()

    @asynccontextmanager
    async def cluster(self, session_seconds: float = SESSION_SECONDS) -> AsyncIterator[Cluster]:
        """Open a coordinator with its facade."""
        async with Cluster(self.coordinator(session_seconds)) as cluster:
            yield cluster

    def needs_cutting(self) -> None:
        """Skip a test that cannot be done here."""
        if not self.can_be_cut_off:
            pytest.skip("this coordinator cannot be cut off")


async def until(look: Callable[[], Awaitable[object]]) -> None:
    """Wait until a look finds something."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not await look():  # noqa: ASYNC110  a server has no event
            await asyncio.sleep(0.02)
