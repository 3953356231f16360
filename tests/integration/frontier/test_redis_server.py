"""What only a server can do wrong: its scripts, its memory, its absence, its other users."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.web_connection import Server, says
from skitter.errors import FormatError, FrontierError
from skitter.frontier.redis import drop_job, list_jobs, redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import prefix_of
from skitter.model.job import Begun
from skitter.redis_driver.address import parse_address
from skitter.testing.contract import Client


@pytest_asyncio.fixture
async def server(services: Any) -> AsyncIterator[RedisServer]:
    server = RedisServer(parse_address(services.need("redis")["url"]))
    await server.command("FLUSHALL")
    yield server
    await server.command("CONFIG", "SET", "maxmemory", "0")
    await server.command("CONFIG", "SET", "set-max-intset-entries", "512")
    await server.close()


@contextlib.asynccontextmanager
async def opened(server: RedisServer, job: str = "job") -> AsyncIterator[Client]:
    frontier = redis_frontier(str(server.address), job)
    try:
        yield Client(frontier, job, set())
    finally:
        await frontier.close()


class TestScripts:
    async def test_scripts_that_the_server_forgot_are_loaded_again(self, server: RedisServer) -> None:
        async with opened(server) as client:
            await client.seeded("a/1", "a/2")
            await server.command("SCRIPT", "FLUSH")
            assert await client.names() == ["a/1", "a/2"]

    @pytest.mark.parametrize(("number", "age"), [(0, "an older"), (99, "a newer")])
    async def test_a_job_in_another_format_is_refused_by_name_and_left_alone(
        self, server: RedisServer, number: int, age: str
    ) -> None:
        async with opened(server) as client:
            await client.seeded("a/1")
            key = prefix_of("job") + "job"
            record = msgspec.msgpack.decode(await server.command("GET", key), strict=False)
            before = msgspec.msgpack.encode({**record, "format": number})
            await server.command("SET", key, before)
            for call in (client.frontier.job(), client.begin(fresh=True)):
                with pytest.raises(FormatError, match=rf"written by {age} skitter .format {number}, .*: job job"):
                    await call
            for call in (client.frontier.lease("w", 1), client.frontier.report(), client.frontier.add([])):
                with pytest.raises(FormatError, match="another format"):
                    await call
            assert await server.command("GET", key) == before

    async def test_the_servers_own_clock_decides(self, server: RedisServer) -> None:
        async with opened(server) as client:
            await client.seeded("a/1", lease_seconds=2.0)
            await client.one("w1")
            assert await client.names("w2") == []
            while not (leased := await client.names("w2")):  # noqa: ASYNC110  a server has no event
                await asyncio.sleep(0.05)
            assert leased == ["a/1"]


class TestPolling:
    @pytest.mark.parametrize("shards", [1, 3])
    async def test_what_is_polled_does_not_grow_with_the_seeds(self, server: RedisServer, shards: int) -> None:
        """One answer of each call for a job of 20,000 seeds, whose specification has more than 600 KB."""

        async def sent() -> int:
            stats = dict(line.split(":") for line in (await server.command("INFO", "stats")).decode().split()[2:])
            return int(stats["total_net_output_bytes"])

        frontier = redis_frontier(f"{server.address}?shards={shards}", "job")
        client = Client(frontier, "job", set())
        try:
            await client.begin(client.spec([f"http://host-{number}.example/" for number in range(20_000)]))
            await frontier.open_sink("out", "me")
            assert len((await frontier.report()).job.spec.seeds) == 20_000
            for call in (frontier.state, frontier.sinks, frontier.workers, frontier.counts, frontier.report):
                before = await sent()
                await call()
                # INFO itself is sent as well, about 10 KB.
                assert await sent() - before < 50_000, call
        finally:
            await frontier.close()


class TestMemory:
    async def test_what_was_seen_stays_packed_while_it_grows(self, server: RedisServer) -> None:
        async with opened(server) as client:
            await client.seeded()
            await client.add(*(f"h{number % 9}/{number}" for number in range(3000)))
            keys = await server.command("KEYS", prefix_of("job") + "1:seen:*")
            assert len(keys) == 3000 // 200
            assert {await server.command("OBJECT", "ENCODING", key) for key in keys} == {b"intset"}
            assert await client.add(*(f"h{number % 9}/{number}" for number in range(3000))) == 0

    async def test_buckets_are_smaller_where_the_server_packs_less(self, server: RedisServer) -> None:
        await server.command("CONFIG", "SET", "set-max-intset-entries", "64")
        async with opened(server) as client:
            await client.seeded()
            await client.add(*(f"h{number % 9}/{number}" for number in range(2000)))
            keys = await server.command("KEYS", prefix_of("job") + "1:seen:*")
            assert {await server.command("OBJECT", "ENCODING", key) for key in keys} == {b"intset"}

    async def test_a_job_that_is_done_leaves_little(self, server: RedisServer) -> None:
        async with opened(server) as client:
            await client.seeded(*(f"h{number % 9}/{number}" for number in range(50)), per_host=64)
            await client.end_all(await client.lease())
            keys = await server.command("KEYS", prefix_of("job") + "1:*")
            kinds = {key.decode().removeprefix(prefix_of("job") + "1:").partition(":")[0] for key in keys}
            assert kinds <= {"seen", "tops", "tally", "notable", "deadlines", "answers"}

    async def test_a_new_run_removes_what_the_old_one_left(self, server: RedisServer) -> None:
        async with opened(server) as client:
            await client.seeded("a/1", "b/1")
            assert await client.begin(fresh=True) is Begun.RERUN
            assert await server.command("KEYS", prefix_of("job") + "1:*") == []


class TestPriorities:
    async def test_a_host_may_have_thousands_of_them(self, server: RedisServer) -> None:
        """They stand in its record, which once was cut off at 64 KB."""
        async with opened(server) as client:
            await client.seeded()
            entries = [entry for n in range(7000) for entry in await client.entries([f"a/{n}"], priority=2**52 + n)]
            for first in range(0, len(entries), 1000):
                await client.add_entries(entries[first : first + 1000])
            assert await client.names(limit=2) == ["a/6999", "a/6998"]


class TestJobs:
    async def test_jobs_in_one_redis_do_not_touch_each_other(self, server: RedisServer) -> None:
        async with opened(server, "one") as one, opened(server, "{two}:*") as two:
            await one.seeded("a/1", "a/2", per_host=1)
            await two.seeded("a/1", "a/9")
            await one.one("w")
            assert await two.names("w") == ["a/1", "a/9"]
            assert await list_jobs(str(server.address)) == ["one", "{two}:*"]
            assert await drop_job(str(server.address), "{two}:*")
            assert not await drop_job(str(server.address), "{two}:*")
            assert (await one.counts()).seen == 2
            assert await list_jobs(str(server.address)) == ["one"]
            assert await drop_job(str(server.address), "one")
            assert await server.command("DBSIZE") == 0

    @pytest.mark.parametrize("shards", [1, 3])
    async def test_what_a_drop_that_was_killed_has_left_is_not_taken_for_a_new_job(
        self, server: RedisServer, monkeypatch: pytest.MonkeyPatch, shards: int
    ) -> None:
        async def killed(*_: object) -> None:
            raise KeyboardInterrupt

        url = f"{server.address}?shards={shards}"
        for _ in range(2):
            frontier = redis_frontier(url, "job")
            client = Client(frontier, "job", set())
            await client.begin(recrawl="due")
            await client.seeded("a/1", "b/1", "c/1", recrawl="due")
            assert (await client.counts()).queued == 3, "nothing of them was seen before"
            assert len(await frontier.known_pages(0.0, math.inf, 10)) == 3, "nor known"
            await frontier.close()
            with monkeypatch.context() as patched:
                patched.setattr("skitter.frontier.redis.jobs._unlink", killed)
                with pytest.raises(KeyboardInterrupt):
                    await drop_job(url, "job")
        assert await drop_job(url, "job"), "half of it is still there"
        assert not await drop_job(url, "job")
        assert await server.command("DBSIZE") == 0


class TestAway:
    async def test_a_server_that_cannot_be_reached_is_an_error_at_the_start(self) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            frontier = redis_frontier(f"redis://:secret@127.0.0.1:{closed.getsockname()[1]}", "job")
            with pytest.raises(FrontierError, match="cannot be reached") as caught:
                await frontier.counts()
        assert caught.value.exit_code == 3
        assert caught.value.hint
        assert "secret" not in str(caught.value)

    async def test_a_server_that_is_no_redis_is_named(self) -> None:
        with Server(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), scheme="redis") as other:
            frontier = redis_frontier(other.url(""), "job")
            with pytest.raises(FrontierError, match="not a Redis"):
                await frontier.counts()
            await frontier.close()

    async def test_a_wrong_password_is_named_and_not_repeated(self, server: RedisServer) -> None:
        address = str(server.address).replace("redis://", "redis://nobody:secret@")
        with pytest.raises(FrontierError, match="refuses the user or the password") as caught:
            await redis_frontier(address, "job").counts()
        assert "secret" not in str(caught.value) + caught.value.hint

    async def test_connections_that_were_cut_are_made_again(
        self, server: RedisServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(server) as client:
            await client.seeded("a/1", "a/2")
            for _ in range(3):
                await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                assert (await client.counts()).queued == 2
            assert await client.names() == ["a/1", "a/2"]

    async def test_a_server_without_memory_is_waited_for_and_said_once(
        self, server: RedisServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(server) as client:
            await client.seeded("a/1")
            entries = await client.entries(["a/2", "a/3"])
            await server.command("CONFIG", "SET", "maxmemory", "1")
            with caplog.at_level(logging.WARNING, "skitter.frontier"):
                adding = asyncio.create_task(client.frontier.add(entries))
                while not caplog.records:  # noqa: ASYNC110  a log has no event
                    await asyncio.sleep(0.01)
                assert not adding.done()
                await server.command("CONFIG", "SET", "maxmemory", "0")
                assert await adding == 2
            said = [record.message for record in caplog.records]
            assert ["out of memory" in said[0], "back after" in said[1], len(said)] == [True, True, 2]
            client.remember(entries)
            await client.check()

    async def test_a_call_that_is_cancelled_ends_at_whichever_step_it_is(self, server: RedisServer) -> None:
        """What stops cancels its calls and waits for their end: it would wait for ever for one that goes on."""

        async def go_on() -> None:
            while True:
                await server.command("PING")

        for steps in range(1, 60):
            calls = asyncio.create_task(go_on())
            for _ in range(steps):
                await asyncio.sleep(0)
            calls.cancel()
            done, _ = await asyncio.wait([calls], timeout=60)
            calls.cancel()
            assert done, f"cancelled after {steps} steps of the loop"

    async def test_a_call_that_is_cancelled_leaves_no_answer_to_the_next(self, server: RedisServer) -> None:
        async with opened(server) as client:
            await client.seeded("a/1")
            await server.command("CLIENT", "PAUSE", "2000")
            call = asyncio.create_task(client.frontier.reap())
            await asyncio.sleep(0.05)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await client.counts()).queued == 1

    async def test_a_call_can_be_cancelled_at_every_step(self, own_redis: Callable[..., OwnRedis]) -> None:
        """asyncio.wait_for, which the driver uses, forgets a cancellation that comes at the wrong one (Python 3.11)."""
        silent = own_redis(*IN_MEMORY)
        redis = RedisServer(parse_address(silent.url), patient=True)
        for steps in range(40):
            assert await redis.command("PING")
            silent.freeze()
            call = asyncio.create_task(redis.command("PING"))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call], timeout=60)
            silent.thaw()
            assert call.cancelled(), f"after {steps} steps"
        await redis.close()


class TestAddresses:
    async def test_a_socket_file_is_an_address(self, server: RedisServer, services: Any) -> None:
        frontier = redis_frontier(services.need("redis")["unix"], "job")
        assert await frontier.begin(Client(frontier, "job", set()).spec()) is Begun.NEW
        await frontier.close()


def test_a_missing_driver_is_named_with_the_line_that_installs_it() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from skitter.app import open_frontier\n"
        "from skitter.errors import ExtraMissingError\n"
        "try: open_frontier('redis://localhost', 'job', create=False)\n"
        "except ExtraMissingError as error: print(error.hint)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "pip install 'skitter[redis]'"
