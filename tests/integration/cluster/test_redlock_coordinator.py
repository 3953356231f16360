"""Three independent Redis servers keep the contract of locks, also while one of them is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rig.servers.redis import DURABLE, OwnRedis
from skitter.cluster import Held, connect
from skitter.cluster.contract import Coordinator
from skitter.cluster.redis_scripts import RedisScripts
from skitter.cluster.redlock_coordinator import RedlockCoordinator, RedlockLocks
from skitter.errors import ClusterUnavailableError, UsageError
from skitter.testing import CoordinatorPlace, LockContract

LOCK = "skitter:cluster:{default}:lock:lock"


class RedlockPlace(CoordinatorPlace):
    """Servers of their own."""

    can_be_cut_off = True

    def __init__(self, servers: list[OwnRedis]) -> None:
        self.servers = servers
        self.url = "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)

    def coordinator(self, session_seconds: float) -> Coordinator:
        return RedlockCoordinator(self.url, session_seconds=session_seconds)

    def cut(self) -> None:
        for server in self.servers[:2]:
            server.freeze()

    def mend(self) -> None:
        for server in self.servers[:2]:
            server.thaw()


@pytest.fixture
def place(own_redis: Callable[..., OwnRedis]) -> RedlockPlace:
    return RedlockPlace([own_redis(*DURABLE) for _ in range(3)])


class TestRedlock(LockContract): ...


@pytest.fixture
def forgetful(own_redis: Callable[..., OwnRedis]) -> RedlockPlace:
    return RedlockPlace([own_redis(), own_redis(*DURABLE), own_redis()])


async def test_there_are_no_tokens_where_servers_forget(forgetful: RedlockPlace) -> None:
    async with forgetful.cluster() as cluster, cluster.lock("lock") as held:
        assert held.token is None
        held.check()
        with pytest.raises(TimeoutError):
            await cluster.lock("lock").acquire(timeout_seconds=0.1)


async def held_by_all(place: RedlockPlace, held: Held) -> None:
    """Wait until every server holds the lock for this holder: one that was unavailable may have it for an earlier
    one."""
    async with asyncio.timeout(60):
        while {server.say("HGET", LOCK, "owner") for server in place.servers} != {held.owner}:
            await asyncio.sleep(0.05)
            await held.extend()


async def test_a_minority_that_is_killed_and_comes_back_changes_nothing(place: RedlockPlace) -> None:
    tokens: list[int] = []
    async with place.cluster() as one, place.cluster() as other:
        for number in range(4):
            server = place.servers[number % 3]
            async with (one if number % 2 else other).lock("lock", lifetime_seconds=4.0, timeout_seconds=60.0) as held:
                assert held.token is not None
                tokens.append(held.token)
                await held_by_all(place, held)
                server.kill()
                with pytest.raises(TimeoutError):
                    await (other if number % 2 else one).lock("lock").acquire(timeout_seconds=0.2)
                held.check()
                await held.extend()
            await asyncio.to_thread(server.start)
    assert tokens == sorted(set(tokens))


async def test_without_a_majority_there_is_no_lock(place: RedlockPlace) -> None:
    async with place.cluster() as cluster:
        for server in place.servers[:2]:
            server.kill()
        with pytest.raises(ClusterUnavailableError, match="too few servers answer: 1 of 3"):
            await cluster.lock("lock").acquire(timeout_seconds=0.5)
    with pytest.raises(ClusterUnavailableError):
        async with connect(place.url):
            pass


async def test_a_lock_that_a_minority_still_holds_for_another_can_be_had(place: RedlockPlace) -> None:
    async with place.opened() as gone, place.cluster() as cluster:
        assert await gone.locks.acquire("lock", "gone", lifetime_seconds=60.0, wait_seconds=0)
        place.servers[0].freeze()
        assert await gone.locks.release("lock", "gone")
        place.servers[0].thaw()
        async with cluster.lock("lock", timeout_seconds=60.0) as held:
            held.check()


async def test_what_redlock_does_not_have_is_refused_with_what_has_it(place: RedlockPlace) -> None:
    async with place.cluster() as cluster:
        for call in (
            lambda: cluster.read("a"),
            lambda: cluster.put("a", b""),
            lambda: cluster.join("group"),
            lambda: cluster.members("group"),
        ):
            with pytest.raises(UsageError, match="has no") as caught:
                await call()
            assert "redis://" in caught.value.hint
        with pytest.raises(UsageError, match="has no rate limits"):
            cluster.rate("a", per_second=1)


@pytest.mark.parametrize(
    "url", ["redlock://a", "redlock://a,b", "redlock://a,a,b", "redlock://", "redlock://a,b,c/x", "redlock://a,b,c?x=1"]
)
def test_addresses_that_are_no_majority_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        connect(url)


async def test_while_it_is_not_known_whether_a_majority_keeps_its_writes_there_is_no_lock_without_a_token(
    place: RedlockPlace,
) -> None:
    """The servers grant the lock, and do not answer what their settings are."""
    for server in place.servers[1:]:
        assert server.say("ACL", "SETUSER", "default", "-config") == "OK"
    async with place.opened() as quiet:
        # Forbidden is an answer, which is taken for no.
        hold = await quiet.locks.acquire("lock", "A", lifetime_seconds=60.0, wait_seconds=0)
        assert hold is not None
        assert hold.token is None
    async with place.opened() as slow:
        locks = slow.locks
        assert isinstance(locks, RedlockLocks)
        asked = locks._is_durable

        async def silent(server: RedisScripts) -> bool:
            if server is not locks._servers[0]:
                raise ClusterUnavailableError("no answer")
            return await asked(server)

        locks._is_durable = silent  # type: ignore[method-assign]
        assert await locks.acquire("other", "A", lifetime_seconds=60.0, wait_seconds=0) is None
        assert {server.say("EXISTS", "skitter:cluster:{default}:lock:other") for server in place.servers} == {0}
