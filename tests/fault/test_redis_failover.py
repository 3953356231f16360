"""A master that dies: sentinels promote its replica, and the frontier goes on by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.redis_driver.address import Address
from skitter.testing.contract import Client


@pytest.mark.timeout(60)
async def test_a_promoted_replica_goes_on_where_the_master_was(
    own_services: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told = own_services.need("redis-sentinel")
    frontier = redis_frontier(told["url"], "job")
    client = Client(frontier, "job", set())
    await client.seeded("a/1", "a/2", "a/3")
    await client.end(await client.one())
    # What the replica has not got is lost with the master: docs/guarantees.md. Here it has everything.
    master = RedisServer(Address(hosts=(("127.0.0.1", told["master"]),)))
    assert await master.command("WAIT", "1", "5000") == 1
    await master.close()
    os.kill(told["pid"], signal.SIGKILL)
    counts = await asyncio.wait_for(frontier.counts(), 40)
    assert (counts.done, counts.queued) == (1, 2)
    leases = await client.lease()
    assert len(leases) == 2
    await client.end_all(leases)
    assert (await client.state()) == "finished"
    await frontier.close()
    told = [record.message for record in caplog.records if "waiting until it is back" in record.message]
    # A connection that is closed, and then nobody who answers there: two reasons, each named once.
    assert 1 <= len(told) == len(set(told)) <= 2
