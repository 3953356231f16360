"""The Redis frontier keeps the contract, on real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from rig.contract_stores import RedisContractStore, ShardsContractStore, stored_in_redis
from skitter.testing.contract import ContractStore, EveryCall, FrontierContract
from skitter.testing.redis_jobs import RawRedis, empty_redis


class TestRedisFrontier(FrontierContract):
    """All of it."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis")["url"]):
            yield store


class OnOldestRedis:
    """The oldest Redis that is spoken to."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis-6.2")["url"]):
            yield store


class TestCallsToOldestRedis(OnOldestRedis, EveryCall):
    """Every call, and so every script."""


@pytest.mark.soak  # the same scripts
class TestOldestRedisFrontier(OnOldestRedis, FrontierContract):
    """All of it."""


def documented_rules() -> list[str]:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "redis-setup.md"
    (rules,) = [line.split() for line in page.read_text().splitlines() if line.startswith("ACL SETUSER")]
    return rules


@pytest.mark.soak  # the same scripts, by a user who may not do more than they need
class TestOrdinaryUserFrontier(FrontierContract):
    """All of it, for a user that may do no more than docs/how-to/redis-setup.md says."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        url = services.need("redis")["url"]
        rules = documented_rules()
        server = RawRedis(url)
        await server.command(*[">secret" if word == ">PASSWORD" else word for word in rules])
        await server.close()
        await empty_redis(url)
        store = RedisContractStore(url.replace("://", f"://{rules[2]}:secret@"))
        yield store
        await store.close()


@pytest.mark.soak  # TestCallsToShardsOnRedisCluster has every call to shards
class TestRedisShards(FrontierContract):
    """All of it, with a job in three shards on one server."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis")["url"] + "?shards=3", ShardsContractStore):
            yield store


class BloomRedisStore(RedisContractStore):
    """Jobs whose pages that are done are in a Bloom filter."""

    # With the usual rate one in twenty thousand new pages would be missing now and then.
    settings: ClassVar = {"dedup": "bloom", "dedup_capacity": 1000, "dedup_error_rate": 1e-9}
    ended_state = "maybe-seen"


class BloomShardsStore(ShardsContractStore):
    """The same, in shards."""

    settings: ClassVar = BloomRedisStore.settings
    ended_state = "maybe-seen"


class ExpiringRedisStore(RedisContractStore):
    """Jobs whose pages are forgotten some time after they are done."""

    settings: ClassVar = {"dedup_seconds": 1_000_000}


class ExpiringShardsStore(ShardsContractStore):
    """The same, in shards."""

    settings: ClassVar = ExpiringRedisStore.settings


@pytest.mark.soak  # tests/contract/test_memory.py has the rules, test_dedup_modes.py what differs in Redis
class TestRedisWithBloomFilter(FrontierContract):
    """All of it."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis")["url"], BloomRedisStore):
            yield store


@pytest.mark.soak  # test_dedup_modes.py has what differs in shards
class TestRedisShardsWithBloomFilters(FrontierContract):
    """All of it, with a filter in each of three shards."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis")["url"] + "?shards=3", BloomShardsStore):
            yield store


@pytest.mark.soak  # tests/contract/test_memory.py has the rules, the state machine compares both
class TestRedisThatForgets(FrontierContract):
    """All of it."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis")["url"], ExpiringRedisStore):
            yield store


@pytest.mark.soak  # test_dedup_modes.py has what differs in shards
class TestRedisShardsThatForget(FrontierContract):
    """All of it, with generations in each of three shards."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis")["url"] + "?shards=3", ExpiringShardsStore):
            yield store


class OnRedisCluster:
    """A job on one of three masters, under one hash tag: it has every feature of a single server."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis-cluster")["url"]):
            yield store


class OnShardsOfRedisCluster:
    """A job in three shards, one on each of three masters."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis-cluster")["url"] + "?shards=3", ShardsContractStore):
            yield store


class TestCallsToRedisCluster(OnRedisCluster, EveryCall):
    """Every call, and so every script."""


class TestCallsToShardsOnRedisCluster(OnShardsOfRedisCluster, EveryCall):
    """Every call, and so every script."""


@pytest.mark.soak  # the same scripts
class TestRedisClusterFrontier(OnRedisCluster, FrontierContract):
    """All of it."""


@pytest.mark.soak  # the same scripts
class TestShardsOnRedisClusterFrontier(OnShardsOfRedisCluster, FrontierContract):
    """All of it."""


@pytest.mark.soak  # the same scripts; tests/fault has what Sentinel does
class TestRedisSentinelFrontier(FrontierContract):
    """All of it, on the master that sentinels name."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in_redis(services.need("redis-sentinel")["url"]):
            yield store
