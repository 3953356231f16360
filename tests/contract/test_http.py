"""The frontier behind a master keeps the contract, with an SQLite file or a Redis behind the master."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.http import http_frontier
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.sqlite import sqlite_frontier
from skitter.redis_driver.address import parse_address
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore, EveryCall, FrontierContract
from skitter.web.server import MasterServer, ServerConfig
from skitter.web.stores import Store


class HttpContractStore(ContractStore):
    """Each client has connections of its own, and all go through one master."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        super().__init__()
        self._url = url
        self._clock = clock

    def connect(self, job: str) -> Frontier:
        return http_frontier(self._url, job)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


class OverSqlite:
    """A master before an SQLite file."""

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ContractStore]:
        clock, path = FakeClock(), tmp_path / "frontier.db"
        served = Store("main", f"sqlite:{path}", lambda job: sqlite_frontier(path, job, clock=clock.of_store()))
        async with MasterServer(ServerConfig(port=0), [served]).listening() as master:
            store = HttpContractStore(master.url, clock)
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
        server = RedisServer(parse_address(url))
        await server.command("FLUSHALL")
        await server.close()
        clock = FakeClock()
        served = Store("main", url, lambda job: redis_frontier(url, job, clock=clock))
        async with MasterServer(ServerConfig(port=0), [served]).listening() as master:
            store = HttpContractStore(master.url, clock)
            store.keeps_history = False
            store.history_reason = "a request that is done leaves nothing but its identity in memory"
            yield store
            await store.close()
