"""Locks inside one process keep the contract of locks."""

from __future__ import annotations

import pytest

from skitter.cluster.contract import Coordinator
from skitter.cluster.memory_coordinator import MemoryCoordinator, MemoryLocks
from skitter.testing import CoordinatorPlace, LockContract


class MemoryPlace(CoordinatorPlace):
    """Coordinators that share their locks."""

    def __init__(self) -> None:
        self.locks = MemoryLocks()

    def coordinator(self, session_seconds: float) -> Coordinator:
        return MemoryCoordinator(self.locks, session_seconds=session_seconds)


@pytest.fixture
def place() -> MemoryPlace:
    return MemoryPlace()


class TestMemory(LockContract): ...
