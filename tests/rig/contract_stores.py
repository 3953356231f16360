"""The stores that the suite of the frontier contract runs on: each backend by its URL, with a clock that is moved."""

from __future__ import annotations

import string
from collections.abc import AsyncIterator

from skitter.frontier.contract import Frontier
from skitter.model.url import host_key
from skitter.testing.clock import FakeClock
from skitter.testing.contract import ContractStore
from skitter.testing.contract.client import url_of
from skitter.testing.frontiers import MemoryPlace, open_frontier
from skitter.testing.redis_jobs import empty_redis, shard_number


class MemoryContractStore(ContractStore):
    """One store in this process."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = FakeClock()
        self._place = MemoryPlace(self._clock)

    def connect(self, job: str) -> Frontier:
        return self._place.open(job)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


class UrlContractStore(ContractStore):
    """A store with a URL. Each client has connections of its own: as separate as two processes."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._clock = FakeClock()

    def connect(self, job: str) -> Frontier:
        return open_frontier(self._url, job, self._clock)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


class MasterContractStore(ContractStore):
    """Each client has connections of its own, and all go through one master, whose store has the clock."""

    def __init__(self, master_url: str, clock: FakeClock) -> None:
        super().__init__()
        self._url = master_url
        self._clock = clock

    def connect(self, job: str) -> Frontier:
        return open_frontier(self._url, job)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)


class RedisContractStore(UrlContractStore):
    """A job in a Redis."""

    keeps_history = False
    history_reason = "a request that is done leaves nothing but its identity in memory"


class ShardsContractStore(RedisContractStore):
    """A job in shards."""

    order_across_hosts = False
    order_reason = "shards take turns: which of two equal hosts is served first is known inside a shard only"
    shares_work = False
    hands_out_sessions = False
    sessions_reason = "a shard does not know what other shards use a session for"
    sharing_reason = "a shard does not know what a worker that is short there has got from the others"

    def together(self, count: int) -> list[str]:
        shards = int(self._url.rpartition("?shards=")[2])
        places: list[list[str]] = [[] for _ in range(shards)]
        for name in string.digits + string.ascii_lowercase:
            places[shard_number(host_key(url_of(name)), shards)].append(name)
        return max(places, key=len)[:count]


async def stored_in_redis(
    url: str, kind: type[RedisContractStore] = RedisContractStore
) -> AsyncIterator[ContractStore]:
    """An empty store of this kind, closed after its test."""
    await empty_redis(url)
    store = kind(url)
    yield store
    await store.close()
