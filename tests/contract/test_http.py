"""The frontier behind a master keeps the contract, with an SQLite file or a Redis behind the master."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rig.contract_stores import MasterContractStore
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore, EveryCall, FrontierContract
from skitter.testing.frontiers import serve
from skitter.testing.redis_jobs import empty_redis


class OverSqlite:
    """A master before an SQLite file."""

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ContractStore]:
        clock = FakeClock()
        async with serve(f"sqlite:{tmp_path / 'frontier.db'}", clock) as master_url:
            store = MasterContractStore(master_url, clock)
            yield store
            await store.close()


class TestCallsOverHttp(OverSqlite, EveryCall):
    """Every call, over SQLite."""


@pytest.mark.soak  # the rules are those of the file
class TestHttpFrontier(OverSqlite, FrontierContract):
    """All of it, over SQLite."""


@pytest.mark.soak  # the same calls, and the same scripts
class TestHttpFrontierOverRedis(FrontierContract):
    """All of it, over Redis."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        url = services.need("redis")["url"]
        await empty_redis(url)
        clock = FakeClock()
        async with serve(url, clock) as master_url:
            store = MasterContractStore(master_url, clock)
            store.keeps_history = False
            store.history_reason = "a request that is done leaves nothing but its identity in memory"
            yield store
            await store.close()
