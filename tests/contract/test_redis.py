"""The Redis frontier keeps the contract, on real servers."""

from __future__ import annotations

import string
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.lazy_frontier import SHARDS_PER_MASTER
from skitter.frontier.redis.shards.shard_set import shard_number
from skitter.model.url import host_key
from skitter.redis_driver.address import Address, parse_address
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore, EveryCall, FrontierContract
from skitter.testing.contract.client import url_of


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


async def emptied(url: str) -> None:
    """Every node of it."""
    address = parse_address(url)
    places = address.hosts if address.cluster else [None]
    for place in places:
        server = RedisServer(Address(hosts=(place,)) if place else address)
        await server.command("FLUSHALL")
        await server.close()


class ShardsContractStore(RedisContractStore):
    """A job in shards."""

    order_across_hosts = False
    order_reason = "shards take turns: which of two equal hosts is served first is known inside a shard only"
    shares_work = False
    hands_out_sessions = False
    sessions_reason = "a shard does not know what other shards use a session for"
    sharing_reason = "a shard does not know what a worker that is short there has got from the others"

    def together(self, count: int) -> list[str]:
        shards = 3 if "shards=3" in self._url else SHARDS_PER_MASTER * 3
        places: list[list[str]] = [[] for _ in range(shards)]
        for name in string.digits + string.ascii_lowercase:
            places[shard_number(host_key(url_of(name)), shards)].append(name)
        return max(places, key=len)[:count]


async def stored_in(url: str, kind: type[RedisContractStore] = RedisContractStore) -> AsyncIterator[ContractStore]:
    await emptied(url)
    store = kind(url)
    yield store
    await store.close()


class TestRedisFrontier(FrontierContract):
    """All of it."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis")["url"]):
            yield store


class OnOldestRedis:
    """The oldest Redis that is spoken to."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis-6.2")["url"]):
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
        server = RedisServer(parse_address(url))
        await server.command(*[">secret" if word == ">PASSWORD" else word for word in rules])
        await server.close()
        await emptied(url)
        store = RedisContractStore(url.replace("://", f"://{rules[2]}:secret@"))
        yield store
        await store.close()


@pytest.mark.repeats(core=EveryCall)
class TestRedisShards(FrontierContract):
    """All of it, with a job in three shards on one server."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis")["url"] + "?shards=3", ShardsContractStore):
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
        async for store in stored_in(services.need("redis")["url"], BloomRedisStore):
            yield store


@pytest.mark.soak  # test_dedup_modes.py has what differs in shards
class TestRedisShardsWithBloomFilters(FrontierContract):
    """All of it, with a filter in each of three shards."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis")["url"] + "?shards=3", BloomShardsStore):
            yield store


@pytest.mark.soak  # tests/contract/test_memory.py has the rules, the state machine compares both
class TestRedisThatForgets(FrontierContract):
    """All of it."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis")["url"], ExpiringRedisStore):
            yield store


@pytest.mark.soak  # test_dedup_modes.py has what differs in shards
class TestRedisShardsThatForget(FrontierContract):
    """All of it, with generations in each of three shards."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis")["url"] + "?shards=3", ExpiringShardsStore):
            yield store


class OnRedisCluster:
    """A job in the default number of shards on three masters."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis-cluster")["url"], ShardsContractStore):
            yield store


class TestCallsToRedisCluster(OnRedisCluster, EveryCall):
    """Every call, and so every script."""


@pytest.mark.soak  # TestRedisShards has the rules of shards
class TestRedisClusterFrontier(OnRedisCluster, FrontierContract):
    """All of it."""


@pytest.mark.soak  # the same scripts; tests/fault has what Sentinel does
class TestRedisSentinelFrontier(FrontierContract):
    """All of it, on the master that sentinels name."""

    @pytest_asyncio.fixture
    async def store(self, services: Any) -> AsyncIterator[ContractStore]:
        async for store in stored_in(services.need("redis-sentinel")["url"]):
            yield store
