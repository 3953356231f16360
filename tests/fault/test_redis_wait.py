"""?wait_replicas=N: an answer is given when so many replicas have what it tells of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from own_redis import IN_MEMORY, OwnRedis
from skitter.errors import FrontierError
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.frontier import RedisFrontier
from skitter.model.url import canonical
from skitter.testing.contract import Client
from skitter.testing.web import WebSpec, served


class Pair:
    """A master and its replica."""

    def __init__(self, own_redis: Callable[..., OwnRedis]) -> None:
        self.master = own_redis(*IN_MEMORY, "--repl-diskless-sync-delay", "0")
        self.replica = own_redis(*IN_MEMORY, "--replicaof", "127.0.0.1", str(self.master.port))
        self.url = f"{self.master.url}?wait_replicas=1"
        deadline = time.monotonic() + 20
        while "master_link_status:up" not in self.replica.say("INFO", "replication"):
            assert time.monotonic() < deadline


@pytest.fixture
def pair(own_redis: Callable[..., OwnRedis]) -> Pair:
    return Pair(own_redis)


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[RedisFrontier]:
    frontier = redis_frontier(url, "job")
    try:
        yield frontier
    finally:
        await frontier.close()


async def said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(20):
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
    messages = [record.message for record in caplog.records]
    assert ["0 of 1" in messages[0], "back after" in messages[1], len(messages)] == [True, True, 2], messages


async def test_without_replicas_it_is_an_error_at_the_start(own_redis: Callable[..., OwnRedis]) -> None:
    async with connected(f"{own_redis(*IN_MEMORY).url}?wait_replicas=1") as frontier:
        with pytest.raises(FrontierError, match="too few replicas that are up to date: 0 of 1") as caught:
            await frontier.begin(Client(frontier, "job", set()).spec())
    assert caught.value.exit_code == 3
    assert "wait_replicas" in caught.value.hint


async def test_a_script_that_the_server_forgot_is_loaded_again(pair: Pair) -> None:
    """The answer to WAIT that belonged to the refused call is nobody's."""
    async with connected(pair.url) as frontier:
        client = Client(frontier, "job", set())
        await client.seeded("a/1", "a/2")
        pair.master.say("SCRIPT", "FLUSH")
        assert await client.names() == ["a/1", "a/2"]


@pytest.mark.timeout(110)
@pytest.mark.parametrize(
    "dedup",
    [
        ["dedup=exact"],
        pytest.param(["dedup=bloom", "dedup_error_rate=1e-9"], marks=pytest.mark.soak),
        pytest.param(["dedup_seconds=3600"], marks=pytest.mark.soak),
    ],
    ids=lambda words: words[0],
)
def test_a_failover_under_load_loses_and_doubles_nothing(skitter, own_services, tmp_path, dedup) -> None:
    """The master is killed in the middle of a crawl, and comes back later as a replica of its successor."""
    told = own_services.need("redis-sentinel")
    place = ("--frontier", f"{told['url']}?wait_replicas=1", "--job", "failed-over")
    quick = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")
    quick += tuple(word for setting in dedup for word in ("--set", setting))
    with served(WebSpec(hosts=3, pages_per_host=250, latency_seconds=0.01)) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--json", *place, *quick)
        results = skitter.folder / "out.jsonl"
        while not results.exists() or results.read_text().count("\n") < 50:
            assert crawl.poll() is None, crawl.communicate()
        os.kill(told["pid"], signal.SIGKILL)
        while not is_master(told["replica"]):
            assert crawl.poll() is None, crawl.communicate()
        back = OwnRedis(tmp_path / "back", *IN_MEMORY, "--replicaof", "127.0.0.1", str(told["replica"]))
        try:
            out, error = crawl.communicate(timeout=80)
        finally:
            back.kill()
        expected = web.expected()
    assert crawl.returncode == 0, out + error
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)


def is_master(port: int) -> bool:
    # A server that changes its role cuts its connections.
    with contextlib.suppress(ConnectionResetError), socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"ROLE\r\n")
        return b"master" in connection.recv(100)
    return False
