"""?wait_replicas=N: an answer is given when so many replicas have what it tells of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from rig.killed_crawl import ended, has_each_page_once, pages_crawl
from rig.processes import HANG_SECONDS, wait_until
from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import WatchedRedis
from rig.watched_web import watched
from skitter.errors import FrontierError
from skitter.frontier.contract import Frontier
from skitter.testing.contract import Client
from skitter.testing.frontiers import open_frontier
from skitter.testing.web import WebSpec


class Pair:
    """A master and its replica."""

    def __init__(self, own_redis: Callable[..., OwnRedis]) -> None:
        self.master = own_redis(*IN_MEMORY, "--repl-diskless-sync-delay", "0")
        self.replica = own_redis(*IN_MEMORY, "--replicaof", "127.0.0.1", str(self.master.port))
        self.url = f"{self.master.url}?wait_replicas=1"
        wait_until(lambda: "master_link_status:up" in self.replica.say("INFO", "replication"), what="a replica")


@pytest.fixture
def pair(own_redis: Callable[..., OwnRedis]) -> Pair:
    return Pair(own_redis)


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Frontier]:
    frontier = open_frontier(url, "job")
    try:
        yield frontier
    finally:
        await frontier.close()


async def said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        while not any(text in record.message for record in caplog.records):  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)


async def test_what_was_answered_is_on_the_replica(pair: Pair) -> None:
    async with connected(pair.url) as frontier:
        client = Client(frontier, "job", set())
        await client.seeded("a/1")
        for number in range(50):
            await frontier.add(await client.entries([f"b/{number}"]))
            queued = pair.replica.say(
                "EVAL", "return cmsgpack.unpack(redis.call('GET', KEYS[1])).queued", 1, "skitter:{job:0}:job"
            )
            assert queued == number + 2


async def test_a_replica_that_does_not_keep_up_is_waited_for(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "skitter.frontier")
    async with connected(pair.url) as frontier:
        client = Client(frontier, "job", set())
        await client.seeded("a/1", "a/2")
        (lease, _) = await client.lease()
        pair.replica.freeze()
        ending = asyncio.create_task(client.end(lease))
        await said(caplog, "only 0 of 1 replicas are up to date")
        assert not ending.done()
        pair.replica.thaw()
        assert await ending, "it was sent once: a commit that is sent again is refused"
        assert (await client.counts()).done == 1
    messages = [record.message for record in caplog.records if "min-replicas-to-write" not in record.message]
    assert ["0 of 1" in messages[0], "back after" in messages[1], len(messages)] == [True, True, 2], messages


async def test_without_replicas_it_is_an_error_at_the_start(own_redis: Callable[..., OwnRedis]) -> None:
    async with connected(f"{own_redis(*IN_MEMORY).url}?wait_replicas=1") as frontier:
        with pytest.raises(FrontierError, match="too few replicas that are up to date: 0 of 1") as caught:
            await frontier.begin(Client(frontier, "job", set()).spec())
    assert caught.value.exit_code == 3
    assert "INFO replication" in caught.value.hint
    assert "wait_replicas" not in caught.value.hint, "to wait for fewer replicas is to lose writes"


async def test_a_script_that_the_server_forgot_is_loaded_again(pair: Pair) -> None:
    """The answer to WAIT that belonged to the refused call is nobody's."""
    async with connected(pair.url) as frontier:
        client = Client(frontier, "job", set())
        await client.seeded("a/1", "a/2")
        pair.master.say("SCRIPT", "FLUSH")
        assert await client.names() == ["a/1", "a/2"]


@pytest.mark.parametrize(
    "dedup",
    [
        ["dedup=exact"],
        pytest.param(["dedup=bloom", "dedup_error_rate=1e-9"], marks=pytest.mark.soak),
        pytest.param(["dedup_seconds=3600"], marks=pytest.mark.soak),
    ],
    ids=lambda words: words[0],
)
def test_a_failover_under_load_loses_and_doubles_nothing(skitter, own_redis, dedup) -> None:
    """The master is killed in the middle of a crawl, and comes back later as a replica of its successor."""
    redis = WatchedRedis(own_redis)
    place = ("--frontier", f"{redis.url}?wait_replicas=1", "--job", "failed-over")
    settings = [word for setting in dedup for word in ("--set", setting)]
    with watched(WebSpec.plain(hosts=6, pages_per_host=10, latency_seconds=0.01)) as web:
        crawl = pages_crawl(skitter, web, *place, *settings)
        with ended(crawl):
            with web.gate.shut_at(20, crawl.keep_running):
                redis.master.kill()
            wait_until(redis.is_promoted, crawl.process, "a promotion")
            own_redis(*IN_MEMORY, "--replicaof", "127.0.0.1", str(redis.replica.port))
            crawl.finish()
        assert has_each_page_once(skitter, web), crawl.log()
