"""A master that hangs, or that has been replaced without knowing it, is left as soon as another one is named.

Time-outs of answers are longer here than a test may last: a call that ends has not waited for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from rig.processes import HANG_SECONDS, wait_until
from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import AT_ONCE, RedisCluster, WatchedRedis
from skitter.frontier.contract import Frontier
from skitter.frontier.outage import Outage
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.redis_driver import client as redis_client
from skitter.redis_driver import connections
from skitter.redis_driver.address import parse_address
from skitter.testing.contract import Client

NEVER_SECONDS = 10 * HANG_SECONDS
ADVICE = "set min-replicas-to-write"


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Frontier]:
    frontier = redis_frontier(url, "job")
    try:
        yield frontier
    finally:
        await frontier.close()


async def said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        while not any(text in record.message for record in caplog.records):  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)


class TestHungMasters:
    @pytest.fixture(autouse=True)
    def endless(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "ANSWER_SECONDS", NEVER_SECONDS)

    async def test_a_hung_master_is_left_when_the_sentinels_name_another(
        self, own_redis: Callable[..., OwnRedis]
    ) -> None:
        watched = WatchedRedis(own_redis)
        async with connected(watched.url) as frontier:
            client = Client(frontier, "job", set())
            await client.seeded("a/1", "a/2")
            await asyncio.to_thread(watched.wait_for_replica)
            watched.master.freeze()
            counts = await asyncio.wait_for(frontier.counts(), HANG_SECONDS)
            assert counts.queued == 2
        assert watched.is_promoted()
        watched.master.thaw()

    @pytest.mark.parametrize("shards", [1, 6])
    async def test_a_hung_master_is_left_when_the_cluster_names_another(
        self, own_redis: Callable[..., OwnRedis], shards: int
    ) -> None:
        cluster = RedisCluster(own_redis, *IN_MEMORY, *AT_ONCE, replicas=1)
        async with connected(f"{cluster.url}?shards={shards}") as frontier:
            client = Client(frontier, "job", set())
            await client.seeded(*(f"h{number}/1" for number in range(12)))
            lead = cluster.owner_of("skitter:{job:0}:job")
            replica = await asyncio.to_thread(cluster.wait_for_replica, lead)
            lead.freeze()
            counts = await asyncio.wait_for(frontier.counts(), HANG_SECONDS)
            assert counts.queued == 12
            assert replica.say("ROLE")[0] == "master"
        lead.thaw()

    async def test_clients_of_one_frontier_do_not_find_out_one_after_the_other_that_a_host_hangs(
        self, own_redis: Callable[..., OwnRedis], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster = RedisCluster(own_redis, *IN_MEMORY, *AT_ONCE, replicas=1)
        outage, key = Outage(), "skitter:{job:0}:job"
        first, second = (RedisServer(parse_address(cluster.url), patient=True, outage=outage) for _ in range(2))
        for server in (first, second):
            assert await server.command("GET", key) is None
        cluster.owner_of(key).freeze()
        assert await asyncio.wait_for(first.command("GET", key), HANG_SECONDS) is None
        # From now on a silence is not noticed at all: the other client must not use its idle connection.
        monkeypatch.setattr(redis_client, "SILENT_SECONDS", NEVER_SECONDS)
        assert await asyncio.wait_for(second.command("GET", key), HANG_SECONDS) is None
        cluster.owner_of(key).thaw()
        for server in (first, second):
            await server.close()

    async def test_a_slow_answer_of_the_only_master_is_waited_for(
        self, own_redis: Callable[..., OwnRedis], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection is asked again and again whether it has an answer, and keeps it."""
        monkeypatch.setattr(redis_client, "SILENT_SECONDS", 0.01)
        server = own_redis(*IN_MEMORY)
        redis = RedisServer(parse_address(server.url))
        await redis.command("PING")
        connected_before = server.say("INFO", "stats").partition("total_connections_received:")[2].split()[0]
        server.say("CLIENT", "PAUSE", 500, "WRITE")
        assert await redis.command("SET", "a", "1") == b"OK"
        assert await redis.command("GET", "a") == b"1", "no answer was left over"
        connected_after = server.say("INFO", "stats").partition("total_connections_received:")[2].split()[0]
        assert int(connected_after) - int(connected_before) == 2, "those of this test: it was sent once"
        await redis.close()


class TestReplicas:
    async def test_a_master_that_is_replaced_is_left_while_replicas_are_waited_for(
        self, own_redis: Callable[..., OwnRedis], caplog: pytest.LogCaptureFixture
    ) -> None:
        """As after a pause: it has lost its replicas and does not know that there is another master."""
        caplog.set_level(logging.WARNING, "skitter.events")
        watched = WatchedRedis(own_redis)
        async with connected(f"{watched.url}?wait_replicas=1") as frontier:
            client = Client(frontier, "job", set())
            await client.seeded("a/1")
            for sentinel in watched.sentinels:
                sentinel.say("SENTINEL", "REMOVE", "main")
            watched.replica.say("REPLICAOF", "NO", "ONE")
            own_redis(*IN_MEMORY, "--replicaof", "127.0.0.1", str(watched.replica.port))
            adding = asyncio.create_task(frontier.add(await client.entries(["a/2", "a/3"])))
            await said(caplog, "only 0 of 1 replicas are up to date")
            for sentinel in watched.sentinels:
                sentinel.say("SENTINEL", "MONITOR", "main", "127.0.0.1", watched.replica.port, 2)
            assert await asyncio.wait_for(adding, HANG_SECONDS) == 2
        async with connected(watched.replica.url) as frontier:
            assert (await frontier.counts()).queued == 3

    @pytest.mark.parametrize(("minimum", "shards", "lines"), [("0", 1, 1), ("0", 3, 1), ("1", 1, 0)])
    async def test_a_master_that_would_go_on_without_its_replicas_is_advised_about_once(
        self,
        own_redis: Callable[..., OwnRedis],
        caplog: pytest.LogCaptureFixture,
        minimum: str,
        shards: int,
        lines: int,
    ) -> None:
        watched = WatchedRedis(own_redis)
        watched.master.say("CONFIG", "SET", "min-replicas-to-write", minimum)
        # The master hears of its replica once a second.
        wait_until(lambda: watched.master.say("SET", "a", 1) == "OK", what="a replica that counts")
        async with connected(f"{watched.url}?wait_replicas=1&shards={shards}") as frontier:
            await frontier.begin(Client(frontier, "job", set()).spec())
        assert sum(ADVICE in record.message for record in caplog.records) == lines

    async def test_a_server_that_forbids_config_is_not_advised_about(
        self, own_redis: Callable[..., OwnRedis], caplog: pytest.LogCaptureFixture
    ) -> None:
        watched = WatchedRedis(own_redis)
        watched.master.say("ACL", "SETUSER", "crawler", "on", ">secret", "~*", "+@all", "-config")
        url = watched.url.replace("://", "://crawler:secret@")
        async with connected(f"{url}?wait_replicas=1") as frontier:
            await frontier.begin(Client(frontier, "job", set()).spec())
        assert not any(ADVICE in record.message for record in caplog.records)
