"""A Redis Cluster while a job runs on it: a master dies, keys move to another node, the cluster is down."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest
from rig.redis_cluster import RedisCluster

from own_redis import DURABLE, OwnRedis
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import prefix_of
from skitter.model.url import canonical
from skitter.redis_driver.address import parse_address
from skitter.redis_driver.server_checks import parse_info
from skitter.testing.contract import Client
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")


@pytest.fixture
def cluster(own_redis: Callable[..., OwnRedis]) -> RedisCluster:
    return RedisCluster(own_redis, *DURABLE)


@pytest.mark.timeout(110)
@pytest.mark.soak
def test_a_job_whose_keys_move_to_another_node_pauses_and_is_complete(skitter, cluster: RedisCluster) -> None:
    place = ("--frontier", cluster.url, "--job", "moving")
    results = skitter.folder / "out.jsonl"
    with served(WebSpec(hosts=3, pages_per_host=250, latency_seconds=0.01)) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--json", *place, *QUICK)
        while not results.exists() or results.read_text().count("\n") < 50:
            assert crawl.poll() is None, crawl.communicate()
        moved: list[int] = []
        target = cluster.move("moving", lambda keys: (moved.append(keys), time.sleep(0.05)))
        assert crawl.poll() is None, "it was at work meanwhile"
        out, error = crawl.communicate(timeout=80)
        expected = web.expected()
    assert crawl.returncode == 0, out + error
    assert "is moving these keys" in error
    assert moved[-1] > 10
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    assert skitter.json("status", *place)["state"] == "finished"
    assert target.say("EXISTS", prefix_of("moving") + "job") == 1


async def test_while_keys_move_a_call_happens_as_a_whole_or_not_at_all(cluster: RedisCluster) -> None:
    """Every method tries at every stage of the move; what it could not do at once it does in the end."""
    frontier = redis_frontier(cluster.url, "job")
    client = Client(frontier, "job", set())
    await client.seeded(*(f"h{number}/1" for number in range(30)), per_host=100)
    leases = await client.lease(limit=10)
    entries = await client.entries([f"new{number}/1" for number in range(30)])
    calls: list[asyncio.Task[object]] = []

    def work(stage: int) -> None:
        number = len(calls)
        if number < len(entries):
            loop.call_soon_threadsafe(lambda: calls.append(asyncio.ensure_future(frontier.add([entries[number]]))))

    loop = asyncio.get_running_loop()
    await asyncio.to_thread(cluster.move, "job", lambda keys: (work(keys), time.sleep(0.02)))
    async with asyncio.timeout(30):
        await asyncio.gather(*calls)
    client.remember(entries[: len(calls)])
    assert len(calls) > 3
    await client.check()
    await client.end_all(leases)
    await client.end_all(await client.lease(limit=100))
    assert (await client.counts()).done == 30 + len(calls)
    assert await client.state() == "finished"
    await frontier.close()


async def test_a_cluster_that_is_down_is_waited_for(cluster: RedisCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "skitter.frontier")
    frontier = redis_frontier(cluster.url, "job")
    client = Client(frontier, "job", set())
    await client.seeded("a/1")
    other = next(node for node in cluster.nodes if node is not cluster.owner_of("job"))
    other.kill()
    async with asyncio.timeout(30):
        # Its neighbours notice after a while; until then the shards on them go on.
        number, adding = 0, []
        while not any("cluster that is down" in record.message for record in caplog.records):
            number += 1
            entries = await client.entries([f"b/{number}"])
            adding.append(asyncio.create_task(frontier.add(entries)))
            client.remember(entries)
            await asyncio.wait(adding, timeout=0.2)
    assert not adding[-1].done()
    other.start()
    async with asyncio.timeout(30):
        assert await asyncio.gather(*adding) == [1] * number
    await client.check()
    await frontier.close()


@pytest.mark.timeout(110)
def test_a_replica_of_a_dead_master_goes_on_where_it_was(skitter, own_services) -> None:
    told = own_services.need("redis-cluster-replicas")
    # One node is named; all the others are learnt of.
    address = parse_address(told["url"])
    place = ("--frontier", f"redis+cluster://127.0.0.1:{address.hosts[0][1]}", "--job", "failed-over")
    results = skitter.folder / "out.jsonl"
    with served(WebSpec(hosts=3, pages_per_host=250, latency_seconds=0.01)) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--json", *place, *QUICK)
        while not results.exists() or results.read_text().count("\n") < 50:
            assert crawl.poll() is None, crawl.communicate()
        os.kill(told["pids"][str(asyncio.run(replicated(told["url"], "failed-over")))], signal.SIGKILL)
        out, error = crawl.communicate(timeout=80)
        expected = web.expected()
    assert crawl.returncode == 0, out + error
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)


async def replicated(url: str, job: str) -> int:
    """The port of the node that has a job's lead, whose replica has all that it has: it takes no more writes.

    What it had told nobody, a replica may miss; and what a job in shards loses by that, docs/guarantees.md says.
    """
    server = RedisServer(parse_address(url))
    await server.command("EXISTS", prefix_of(job) + "job")
    await server.command("CLIENT", "PAUSE", 20_000, "WRITE")
    behind = True
    while behind:
        told = parse_info(await server.command("INFO", "replication"))
        reached = dict(pair.split("=") for pair in told["slave0"].split(","))["offset"]
        behind = int(reached) < int(told["master_repl_offset"])
    port = (await server._route.host())[1]
    await server.close()
    return port
