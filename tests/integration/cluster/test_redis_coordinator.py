"""A Redis keeps the coordinator contract: one server, the master of sentinels, a Redis Cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from own_redis import OwnRedis
from skitter.cluster.contract import Coordinator
from skitter.cluster.redis_coordinator import RedisCoordinator
from skitter.testing import CoordinatorContract, CoordinatorPlace


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
