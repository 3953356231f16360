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

from own_redis import IN_MEMORY, OwnRedis
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.address import parse_address
from skitter.frontier.redis.jobs import prefix_of
from skitter.frontier.redis.server import RedisServer
from skitter.model.url import canonical
from skitter.testing.contract import Client
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")
SLOTS = 16384


class Cluster:
    """Three masters without replicas, which can be killed and started again."""

    def __init__(self, own_redis: Callable[..., OwnRedis]) -> None:
        settings = (*IN_MEMORY, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
        self.nodes = [own_redis(*settings) for _ in range(3)]
        for place, node in enumerate(self.nodes):
            node.say("CLUSTER", "ADDSLOTS", *range(SLOTS * place // 3, SLOTS * (place + 1) // 3))
            node.say("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        self.wait_until_up()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + 30
        while not all("cluster_state:ok" in node.say("CLUSTER", "INFO") for node in self.nodes):
            assert time.monotonic() < deadline

    def owner_of(self, job: str) -> OwnRedis:
        """The node that has the keys of a job."""
        slot = self.nodes[0].say("CLUSTER", "KEYSLOT", prefix_of(job) + "job")
        return next(node for place, node in enumerate(self.nodes) if slot < SLOTS * (place + 1) // 3)

    def move(self, job: str, each: Callable[[int], object]) -> OwnRedis:
        """Move a job's slot to another node, a few keys at a time; ``each`` is called between them."""
        source = self.owner_of(job)
        target = next(node for node in self.nodes if node is not source)
        slot = source.say("CLUSTER", "KEYSLOT", prefix_of(job) + "job")
        source_id, target_id = source.say("CLUSTER", "MYID"), target.say("CLUSTER", "MYID")
        assert target.say("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id) == "OK"
        assert source.say("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id) == "OK"
        each(0)
        moved = 0
        while keys := source.say("CLUSTER", "GETKEYSINSLOT", slot, 3):
            assert source.say("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys) in ("OK", "NOKEY")
            moved += len(keys)
            each(moved)
        for node in (target, source, *self.nodes):
            assert node.say("CLUSTER", "SETSLOT", slot, "NODE", target_id) == "OK"
        return target


@pytest.fixture
def cluster(own_redis: Callable[..., OwnRedis]) -> Cluster:
    return Cluster(own_redis)


@pytest.mark.timeout(110)
def test_a_job_whose_keys_move_to_another_node_pauses_and_is_complete(skitter, cluster: Cluster) -> None:
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


async def test_while_keys_move_a_call_happens_as_a_whole_or_not_at_all(cluster: Cluster) -> None:
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


async def test_a_cluster_that_is_down_is_waited_for(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "skitter.frontier")
    frontier = redis_frontier(cluster.url, "job")
    client = Client(frontier, "job", set())
    await client.seeded("a/1")
    other = next(node for node in cluster.nodes if node is not cluster.owner_of("job"))
    other.kill()
    async with asyncio.timeout(30):
        # Its neighbours notice after a while; until then the job goes on.
        number = 0
        while not any("cluster that is down" in record.message for record in caplog.records):
            number += 1
            adding = asyncio.create_task(client.frontier.add(await_entries := await client.entries([f"b/{number}"])))
            client.remember(await_entries)
            await asyncio.wait([adding], timeout=0.2)
    assert not adding.done()
    other.start()
    async with asyncio.timeout(30):
        assert await adding == 1
    await client.check()
    await frontier.close()


@pytest.mark.timeout(110)
def test_a_replica_of_a_dead_master_goes_on_where_it_was(skitter, own_services) -> None:
    told = own_services.need("redis-cluster-replicas")
    # One node is named; all the others are learnt of.
    address = parse_address(told["url"])
    place = ("--frontier", f"redis+cluster://127.0.0.1:{address.places[0][1]}", "--job", "failed-over")
    results = skitter.folder / "out.jsonl"
    with served(WebSpec(hosts=3, pages_per_host=250, latency_seconds=0.01)) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--json", *place, *QUICK)
        while not results.exists() or results.read_text().count("\n") < 50:
            assert crawl.poll() is None, crawl.communicate()
        os.kill(told["pids"][str(asyncio.run(port_of(told["url"], "failed-over")))], signal.SIGKILL)
        out, error = crawl.communicate(timeout=80)
        expected = web.expected()
    assert crawl.returncode == 0, out + error
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)


async def port_of(url: str, job: str) -> int:
    """Of the node that has a job."""
    server = RedisServer(parse_address(url))
    await server.command("EXISTS", prefix_of(job) + "job")
    port = (await server._route.place())[1]
    await server.close()
    return port
