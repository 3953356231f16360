"""The memory frontier keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore, FrontierContract


class MemoryContractStore(ContractStore):
    def __init__(self) -> None:
        super().__init__()
        self._clock = FakeClock()
        self._store = MemoryStore(self._clock.of_store())

    def connect(self, job: str) -> Frontier:
        return memory_frontier(job, self._store)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


@pytest_asyncio.fixture
async def store() -> AsyncIterator[ContractStore]:
    store = MemoryContractStore()
    yield store
    await store.close()


class TestMemoryFrontier(FrontierContract):
    """All of it."""
