"""A Redis keeps the coordinator contract: one server, the master of sentinels, a Redis Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from rig.relay import Relay
from rig.servers.redis import DURABLE, OwnRedis
from rig.servers.redis_cluster import WatchedRedis
from skitter.cluster import SessionState, connect
from skitter.cluster.contract import Coordinator
from skitter.cluster.redis_coordinator import RedisCoordinator
from skitter.errors import ClusterError, ClusterUnavailableError, LockLostError
from skitter.testing import CoordinatorContract, CoordinatorPlace
from skitter.testing.coordinator.place import until


class RedisPlace(CoordinatorPlace):
    """A namespace of its own on servers that tests share."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}?namespace={uuid4().hex}"

    def coordinator(self, session_seconds: float) -> Coordinator:
        return RedisCoordinator(self.url, session_seconds=session_seconds)


class OwnRedisPlace(RedisPlace):
    """A server of its own, which is stopped as a network that loses everything."""

    can_be_cut_off = True

    def __init__(self, server: OwnRedis) -> None:
        super().__init__(server.url)
        self.server = server

    def cut(self) -> None:
        self.server.freeze()

    def mend(self) -> None:
        self.server.thaw()


class TestRedis(CoordinatorContract):
    @pytest.fixture
    def place(self, own_redis: Callable[..., OwnRedis]) -> OwnRedisPlace:
        return OwnRedisPlace(own_redis())


@pytest.mark.soak
class TestRedisCluster(CoordinatorContract):
    @pytest.fixture
    def place(self, services: Any) -> RedisPlace:
        return RedisPlace(services.need("redis-cluster")["url"])


@pytest.mark.soak
class TestRedisSentinel(CoordinatorContract):
    @pytest.fixture
    def place(self, services: Any) -> RedisPlace:
        return RedisPlace(services.need("redis-sentinel")["url"])


@pytest.fixture
def server(own_redis: Callable[..., OwnRedis]) -> OwnRedis:
    return own_redis()


async def test_tokens_grow_also_when_the_keys_are_deleted(server: OwnRedis) -> None:
    tokens = []
    for _ in range(3):
        async with connect(server.url) as cluster, cluster.lock("lock", timeout_seconds=60.0) as held:
            tokens.append(held.token)
        server.say("FLUSHALL")
    assert tokens == sorted(set(tokens))


async def test_a_lock_that_somebody_deletes_is_lost_to_its_holder(server: OwnRedis) -> None:
    async with connect(server.url) as cluster:
        lock = cluster.lock("lock", lifetime_seconds=2.0)
        held = await lock.acquire()
        server.say("DEL", "skitter:cluster:{default}:lock:lock")
        async with asyncio.timeout(60):
            await held.lost.wait()
        with pytest.raises(LockLostError):
            await lock.release()


async def test_namespaces_have_nothing_in_common(server: OwnRedis) -> None:
    async with connect(server.url) as one, connect(f"{server.url}?namespace=other") as other, one.lock("lock"):
        await other.lock("lock").acquire(timeout_seconds=0)
        await one.put("key", b"1")
        await one.join("group", "name")
        assert await other.read("key") is None
        assert await other.members("group") == {}


async def test_a_server_that_evicts_keys_is_refused(own_redis: Callable[..., OwnRedis]) -> None:
    server = own_redis("--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru")
    with pytest.raises(ClusterError, match="evicts keys"):
        async with connect(server.url):
            pass


async def test_a_server_that_is_not_there_is_an_error_with_a_hint(server: OwnRedis) -> None:
    server.kill()
    with pytest.raises(ClusterUnavailableError, match="cannot be reached") as caught:
        async with connect(server.url):
            pass
    assert "is it running" in caught.value.hint
    server.start("--requirepass", "secret")
    with pytest.raises(ClusterUnavailableError, match="password"):
        async with connect(server.url):
            pass
    async with connect(f"redis://:secret@127.0.0.1:{server.port}") as cluster:
        assert cluster.state == SessionState.CONNECTED


async def test_a_server_that_is_restarted_keeps_what_is_held(own_redis: Callable[..., OwnRedis]) -> None:
    server = own_redis(*DURABLE)
    async with connect(server.url) as one, connect(server.url) as other:
        await one.join("group", "name", b"data")
        async with one.lock("lock", lifetime_seconds=20.0) as held:
            server.kill()
            await asyncio.to_thread(server.start)
            await held.extend()
            with pytest.raises(TimeoutError):
                await other.lock("lock").acquire(timeout_seconds=0.2)
        assert await other.members("group") == {"name": b"data"}


async def test_a_lock_whose_answer_is_lost_is_released(server: OwnRedis) -> None:
    async with (
        Relay("127.0.0.1", server.port) as proxy,
        connect(f"redis://{proxy.address}") as cluster,
        connect(server.url) as other,
    ):
        # All of them: after the first, a connection that was idle is taken for cut, and the call is sent again.
        proxy.loses = lambda request, _: b"EVAL" in request
        with pytest.raises(ClusterUnavailableError):
            await cluster.lock("lock", lifetime_seconds=600).acquire(timeout_seconds=0)
        proxy.loses = lambda *_: False
        async with other.lock("lock", timeout_seconds=60.0) as held:
            held.check()


async def test_a_change_whose_answer_is_lost_is_not_made_twice(server: OwnRedis) -> None:
    async with Relay("127.0.0.1", server.port) as proxy, connect(f"redis://{proxy.address}") as cluster:
        version = await cluster.put("key", b"1")
        proxy.lose(b"EVALSHA")
        with pytest.raises(ClusterUnavailableError):
            await cluster.put("key", b"2", version=version)
        entry = await cluster.read("key")
        assert entry is not None
        assert entry.value == b"2"
        assert await cluster.put("key", b"3", version=entry.version) > entry.version


async def test_nothing_is_left_of_locks_groups_and_limits_that_are_over(server: OwnRedis) -> None:
    async with connect(server.url) as cluster:
        async with cluster.lock("lock"), await cluster.join("group", "name"):
            await cluster.rate("key", per_second=100.0).wait()
            await cluster.put("a/b", b"")
        await cluster.delete("a", recursive=True)

        async def is_empty() -> bool:
            return set(server.say("KEYS", "*")) == {"skitter:cluster:{default}:counter"}

        await until(is_empty)


async def test_a_failover_of_sentinels_is_survived(own_redis: Callable[..., OwnRedis]) -> None:
    watched = WatchedRedis(own_redis)
    async with connect(watched.url, session_seconds=60.0) as cluster:
        first = await cluster.put("key", b"1")
        tokens = []
        async with cluster.lock("lock") as held:
            tokens.append(held.token)
        watched.master.kill()

        async def is_written() -> bool:
            try:
                return await cluster.put("key", b"2") > first
            except ClusterError:
                return False

        await until(is_written)
        async with cluster.lock("lock", timeout_seconds=60.0) as held:
            tokens.append(held.token)
        assert tokens == sorted(set(tokens))
