"""A master that dies: sentinels promote its replica, and the frontier goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rig.processes import HANG_SECONDS
from rig.servers.redis import OwnRedis
from rig.servers.redis_cluster import WatchedRedis
from skitter.testing.contract import Client
from skitter.testing.frontiers import open_frontier


async def test_a_promoted_replica_goes_on_where_the_master_was(
    own_redis: Callable[..., OwnRedis], caplog: pytest.LogCaptureFixture
) -> None:
    watched = WatchedRedis(own_redis)
    frontier = open_frontier(watched.url, "job")
    client = Client(frontier, "job", set())
    await client.seeded("a/1", "a/2", "a/3")
    await client.end(await client.one())
    # What the replica has not got is lost with the master: docs/guarantees.md. Here it has everything.
    await asyncio.to_thread(watched.wait_for_replica)
    watched.master.kill()
    counts = await asyncio.wait_for(frontier.counts(), HANG_SECONDS)
    assert (counts.done, counts.queued) == (1, 2)
    leases = await client.lease()
    assert len(leases) == 2
    await client.end_all(leases)
    assert (await client.state()) == "finished"
    await frontier.close()
    told = [record.message for record in caplog.records if "waiting until it is back" in record.message]
    # A connection that is closed, and then nobody who answers there: two reasons, each named once.
    assert 1 <= len(told) == len(set(told)) <= 2
