"""The SQLite frontier keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from rig.contract_stores import UrlContractStore
from skitter.testing.contract import ContractStore, FrontierContract


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[ContractStore]:
    store = UrlContractStore(f"sqlite:{tmp_path / 'frontier.db'}")
    yield store
    await store.close()


class TestSqliteFrontier(FrontierContract):
    """All of it."""
