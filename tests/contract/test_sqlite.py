"""The SQLite frontier keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore, FrontierContract


class SqliteContractStore(ContractStore):
    """Each client is a connection with a thread of its own: as separate as two processes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._clock = FakeClock()

    def connect(self, job: str) -> Frontier:
        return sqlite_frontier(self._path, job, clock=self._clock.of_store())

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[ContractStore]:
    store = SqliteContractStore(tmp_path / "frontier.db")
    yield store
    await store.close()


class TestSqliteFrontier(FrontierContract):
    """All of it."""
