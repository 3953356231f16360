"""The memory frontier keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

import pytest
import pytest_asyncio

from rig.contract_stores import MemoryContractStore
from skitter.testing.contract import ContractStore, EveryCall, FrontierContract


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


class WithBloomFilter:
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[ContractStore]:
        store = BloomMemoryStore()
        yield store
        await store.close()


class TestCallsWithBloomFilter(WithBloomFilter, EveryCall):
    """Every call."""


@pytest.mark.soak  # the same rules
class TestMemoryWithBloomFilter(WithBloomFilter, FrontierContract):
    """All of it."""


class ExpiringMemoryStore(MemoryContractStore):
    """Jobs whose pages are forgotten some time after they are done."""

    settings: ClassVar = {"dedup_seconds": 1_000_000}
    keeps_history = False


class ThatForgets:
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[ContractStore]:
        store = ExpiringMemoryStore()
        yield store
        await store.close()


class TestCallsThatForget(ThatForgets, EveryCall):
    """Every call."""


@pytest.mark.soak  # the same rules
class TestMemoryThatForgets(ThatForgets, FrontierContract):
    """All of it."""
