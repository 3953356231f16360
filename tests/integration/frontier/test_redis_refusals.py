"""Every way in which a real Redis refuses: an error with exit code 3 at the start, and a pause while a job runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rig.servers.redis import DURABLE, IN_MEMORY, OwnRedis
from rig.servers.redis_troubles import (
    Trouble,
    busy,
    full_of_clients,
    loading,
    out_of_memory,
    read_only,
    silent,
    unable_to_save,
    with_another_password,
    without_its_master,
    without_replicas,
)
from rig.web_connection import Server, says
from skitter.errors import FrontierError
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.frontier import RedisFrontier
from skitter.model.outcome import Ending, Outcome
from skitter.redis_driver import connections
from skitter.redis_driver.address import parse_address
from skitter.testing.contract import Client

TROUBLES = [
    (out_of_memory, "out of memory"),
    (read_only, "is a read-only replica"),
    (without_its_master, "replica"),
    (unable_to_save, "cannot save to its disk"),
    (without_replicas, "too few replicas"),
    (busy, "busy with a script"),
    (full_of_clients, "too many clients"),
    (with_another_password, "asks for a password"),
    (silent, "no answer in time"),
    (loading, "still loading"),
]
each_trouble = pytest.mark.parametrize(("trouble", "text"), TROUBLES, ids=[one.__name__ for one, _ in TROUBLES])


@pytest.fixture
def server(own_redis: Callable[..., OwnRedis], monkeypatch: pytest.MonkeyPatch) -> OwnRedis:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 1.0)
    return own_redis(*DURABLE)


@contextlib.asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[RedisFrontier]:
    frontier = redis_frontier(url, "job", **options)
    try:
        yield frontier
    finally:
        await frontier.close()


async def said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(60):
        while not any(text in record.message for record in caplog.records):  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)


@each_trouble
async def test_a_job_that_runs_waits_says_so_once_and_goes_on(
    server: OwnRedis, trouble: Trouble, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    if trouble is without_replicas and "redis_version:6." in server.say("INFO", "server"):
        pytest.skip("before Redis 7.0, min-replicas-to-write did not hold for scripts")
    caplog.set_level(logging.WARNING, "skitter.frontier")
    async with connected(server.url) as frontier:
        client = Client(frontier, "job", set())
        await client.seeded("a/1", "a/2", *(f"b/{number}" for number in range(200)), per_host=500, lease_seconds=100.0)
        lease = await client.one()
        entries = await client.entries(["c/1", "c/2"])
        with trouble(server):
            # Side by side: one of them says it, for all.
            adding = asyncio.create_task(frontier.add(entries))
            ending = asyncio.create_task(frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE)]))
            await said(caplog, text)
            assert not adding.done()
        assert await adding in (2, 0), "sent again where the answer was lost"
        client.remember(entries)
        await ending
        counts = await client.counts()
        assert (counts.seen, counts.done, counts.leased) == (204, 1, 0)
        await client.end_all(await client.lease(limit=500))
        assert (await client.counts()).done == 204
    messages = [record.message for record in caplog.records]
    assert sum(text in message for message in messages) == 1, messages
    assert sum("back after" in message for message in messages) == 1, messages
    # A server that became unavailable before it refused was unavailable too.
    assert len(messages) == len(set(messages)) <= 3, messages


@each_trouble
async def test_at_the_start_it_is_an_error(server: OwnRedis, trouble: Trouble, text: str) -> None:
    async with connected(server.url) as frontier:
        client = Client(frontier, "job", set())
        await client.seeded(*(f"a/{number}" for number in range(200)))
        spec = client.spec()
    with trouble(server):
        async with connected(server.url) as frontier:
            with pytest.raises(FrontierError, match=text) as caught:
                await frontier.begin(spec)
    assert caught.value.exit_code == 3
    assert caught.value.hint


class TestUsers:
    async def refused(self, server: OwnRedis, *rules: str) -> FrontierError:
        assert server.say("ACL", "SETUSER", "crawler", "reset", "on", ">secret", *rules) == "OK"
        async with connected(f"redis://crawler:secret@127.0.0.1:{server.port}") as frontier:
            with pytest.raises(FrontierError, match="does not allow this user") as caught:
                await frontier.begin(Client(frontier, "job", set()).spec())
        assert "secret" not in str(caught.value)
        return caught.value

    async def test_a_user_without_a_command_is_told_which(self, server: OwnRedis) -> None:
        assert "evalsha" in str(await self.refused(server, "~*", "+@all", "-evalsha"))
        await self.refused(server, "~*", "+@all", "-hsetnx", "-set")
        await self.refused(server, "~other:*", "+@all")

    async def test_a_user_that_does_not_exist_is_told_so(self, server: OwnRedis) -> None:
        async with connected(f"redis://nobody:secret@127.0.0.1:{server.port}") as frontier:
            with pytest.raises(FrontierError, match="refuses the user or the password"):
                await frontier.counts()


class TestEviction:
    @pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "allkeys-lfu"])
    async def test_a_server_that_evicts_any_key_is_refused(self, server: OwnRedis, policy: str) -> None:
        server.say("CONFIG", "SET", "maxmemory", "100mb")
        server.say("CONFIG", "SET", "maxmemory-policy", policy)
        async with connected(server.url) as frontier:
            with pytest.raises(FrontierError, match=f"evicts keys.*{policy}") as caught:
                await frontier.begin(Client(frontier, "job", set()).spec())
        assert caught.value.exit_code == 3
        assert server.say("DBSIZE") == 0

    @pytest.mark.parametrize(("limit", "policy"), [("0", "allkeys-lru"), ("100mb", "noeviction")])
    async def test_one_that_does_not_is_taken(self, server: OwnRedis, limit: str, policy: str) -> None:
        server.say("CONFIG", "SET", "maxmemory", limit)
        server.say("CONFIG", "SET", "maxmemory-policy", policy)
        async with connected(server.url) as frontier:
            await frontier.begin(Client(frontier, "job", set()).spec())

    async def test_under_a_volatile_policy_nothing_of_a_job_can_be_evicted(self, server: OwnRedis) -> None:
        server.say("CONFIG", "SET", "maxmemory", "100mb")
        server.say("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        async with connected(server.url) as frontier:
            client = Client(frontier, "job", set())
            await client.seeded("a/1", "a/2")
            await client.end(await client.one())
        assert [server.say("TTL", key) for key in server.say("KEYS", "*")] == [-1] * server.say("DBSIZE")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a Redis"),
        (b"ERROR\r\n" * 10, "not a Redis"),
        (b"\x00\xff\x17" * 50, "not a Redis"),
        (b"", "closed the connection"),
        (b"-ERR unknown command 'CLIENT'\r\n" * 10, "lacks a feature that skitter needs"),
        (b"+OK\r\n$42\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n", "too old: 5.0.14"),
    ],
    ids=["http", "memcached", "noise", "closed", "another", "old"],
)
async def test_what_is_no_fitting_redis_is_named(answer: bytes, text: str) -> None:
    with Server(says(answer), scheme="redis") as other:
        async with connected(other.url("")) as frontier:
            with pytest.raises(FrontierError, match=text) as caught:
                await frontier.counts()
    assert (caught.value.exit_code, bool(caught.value.hint)) == (3, True)


async def test_a_sentinel_is_not_taken_for_its_master(services: Any) -> None:
    place = parse_address(services.need("redis-sentinel")["url"]).hosts[0]
    async with connected(f"redis://{place[0]}:{place[1]}") as frontier:
        with pytest.raises(FrontierError, match="is a sentinel") as caught:
            await frontier.counts()
    assert "redis+sentinel://" in caught.value.hint


async def test_a_connection_that_was_refused_its_first_question_is_asked_again(server: OwnRedis) -> None:
    """Or the life of the server would be unknown, and with it that it may have lost something."""
    redis = RedisServer(parse_address(server.url))
    with busy(server), pytest.raises(FrontierError, match="busy"):
        await redis.command("GET", "x")
    assert await redis.command("GET", "x") is None
    assert redis.life
    await redis.close()


@pytest.mark.parametrize(("host", "warned"), [("8.8.8.8", True), ("127.0.0.1", False), ("10.0.0.1", False)])
async def test_a_server_that_is_open_to_the_world_is_warned_about(
    host: str, warned: bool, own_redis: Callable[..., OwnRedis], caplog: pytest.LogCaptureFixture
) -> None:
    server = own_redis(*IN_MEMORY)
    redis = RedisServer(parse_address(f"redis://{host}:{server.port}"))
    # The address says the world; the wire leads to a server of this test.
    redis._open_link = RedisServer(parse_address(server.url))._open_link
    await redis.check()
    await redis.close()
    assert any("public address" in record.message for record in caplog.records) == warned
