"""The Redis frontier keeps the contract, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.address import parse_address
from skitter.frontier.redis.server import RedisServer
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore, FrontierContract


class RedisContractStore(ContractStore):
    """Each client has connections of its own: as separate as two machines."""

    keeps_history = False
    history_reason = "a request that is done leaves nothing but its identity in memory"

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._clock = FakeClock()

    def connect(self, job: str) -> Frontier:
        return redis_frontier(self._url, job, clock=self._clock)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


@pytest_asyncio.fixture
async def store(services: Any) -> AsyncIterator[ContractStore]:
    url = services.need("redis")["url"]
    await emptied(url)
    store = RedisContractStore(url)
    yield store
    await store.close()


async def emptied(url: str) -> None:
    server = RedisServer(parse_address(url))
    await server.command("FLUSHALL")
    await server.close()


class TestRedisFrontier(FrontierContract):
    """All of it."""
