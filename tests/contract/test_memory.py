"""The memory frontier keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

import pytest
import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore, EveryCall, FrontierContract


class MemoryContractStore(ContractStore):
    """One store in this process."""

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


class BloomMemoryStore(MemoryContractStore):
    """Jobs whose pages that are done are in a Bloom filter."""

    # With the usual rate one in twenty thousand new pages would be missing now and then.
    settings: ClassVar = {"dedup": "bloom", "dedup_capacity": 1000, "dedup_error_rate": 1e-9}
    keeps_history = False
    ended_state = "maybe-seen"


@pytest.mark.repeats(core=EveryCall)
class TestMemoryWithBloomFilter(FrontierContract):
    """All of it."""

    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[ContractStore]:
        store = BloomMemoryStore()
        yield store
        await store.close()


class ExpiringMemoryStore(MemoryContractStore):
    """Jobs whose pages are forgotten some time after they are done."""

    settings: ClassVar = {"dedup_seconds": 1_000_000}
    keeps_history = False


@pytest.mark.repeats(core=EveryCall)
class TestMemoryThatForgets(FrontierContract):
    """All of it."""

    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[ContractStore]:
        store = ExpiringMemoryStore()
        yield store
        await store.close()
