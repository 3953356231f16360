"""A Redis Cluster while a job runs on it: a master dies, keys move to another node, the cluster is down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

import pytest

from rig.killed_crawl import Kill, ended, has_each_page_once, pages_crawl, under_kills
from rig.processes import HANG_SECONDS, wait_until
from rig.servers.redis import DURABLE, IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import AT_ONCE, RedisCluster, is_master
from rig.watched_web import watched
from skitter.model.url import canonical
from skitter.testing.contract import Client
from skitter.testing.frontiers import open_frontier
from skitter.testing.redis_jobs import prefixes_of
from skitter.testing.web import WebSpec

SHARDS = "?shards=6"
"""Two on each master."""
both_forms = pytest.mark.parametrize("shards", ["", SHARDS])


@pytest.fixture
def cluster(own_redis: Callable[..., OwnRedis]) -> RedisCluster:
    return RedisCluster(own_redis, *DURABLE)


@pytest.mark.parametrize(
    ("shards", "pages"),
    [("", 50), pytest.param("", 250, marks=pytest.mark.soak), pytest.param(SHARDS, 250, marks=pytest.mark.soak)],
)
def test_a_job_whose_keys_move_to_another_node_pauses_and_is_complete(
    skitter, cluster: RedisCluster, shards: str, pages: int
) -> None:
    place = ("--frontier", cluster.url + shards, "--job", "moving")
    with watched(WebSpec.plain(hosts=3, pages_per_host=pages, latency_seconds=0.01)) as web:
        crawl = pages_crawl(skitter, web, *place)
        moved: list[int] = []
        with ended(crawl):
            with web.gate.shut_at(50, crawl.keep_running):
                pass
            target = cluster.move(key_of("moving"), lambda keys: (moved.append(keys), time.sleep(0.05)))
            assert crawl.is_running, "it was at work meanwhile"
            crawl.finish()
        assert has_each_page_once(skitter, web), crawl.log()
    assert "is moving these keys" in crawl.log()
    assert moved[-1] > 10
    assert skitter.json("status", *place)["state"] == "finished"
    assert target.say("EXISTS", key_of("moving")) == 1


@both_forms
async def test_while_keys_move_a_call_happens_as_a_whole_or_not_at_all(cluster: RedisCluster, shards: str) -> None:
    """Every method tries at every stage of the move; what it could not do at once it does in the end."""
    frontier = open_frontier(cluster.url + shards, "job")
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
    await asyncio.to_thread(cluster.move, key_of("job"), lambda keys: (work(keys), time.sleep(0.02)))
    async with asyncio.timeout(HANG_SECONDS):
        await asyncio.gather(*calls)
    client.remember(entries[: len(calls)])
    assert len(calls) > 3
    await client.check()
    await client.end_all(leases)
    await client.end_all(await client.lease(limit=100))
    assert (await client.counts()).done == 30 + len(calls)
    assert await client.state() == "finished"
    await frontier.close()


@both_forms
async def test_a_cluster_that_is_down_is_waited_for(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture, shards: str
) -> None:
    caplog.set_level(logging.WARNING, "skitter.frontier")
    frontier = open_frontier(cluster.url + shards, "job")
    client = Client(frontier, "job", set())
    await client.seeded("a/1")
    other = next(node for node in cluster.nodes if node is not cluster.owner_of(key_of("job")))
    other.kill()
    async with asyncio.timeout(HANG_SECONDS):
        # Its neighbours notice after a while; until then the job, or its shards on them, goes on.
        number, adding = 0, []
        while not any("cluster that is down" in record.message for record in caplog.records):
            number += 1
            entries = await client.entries([f"b/{number}"])
            adding.append(asyncio.create_task(frontier.add(entries)))
            client.remember(entries)
            await asyncio.wait(adding, timeout=0.2)
    assert not adding[-1].done()
    other.start()
    async with asyncio.timeout(HANG_SECONDS):
        assert await asyncio.gather(*adding) == [1] * number
    await client.check()
    await frontier.close()


def test_a_job_whose_master_is_killed_has_each_page_once(skitter, own_redis: Callable[..., OwnRedis]) -> None:
    """Every page but the first of each host is linked from one other page: a link that is lost is a page that is."""
    cluster = RedisCluster(own_redis, *IN_MEMORY, *AT_ONCE, replicas=1)
    place = ("--frontier", f"{cluster.url}?wait_replicas=1", "--job", "failed-over")
    with watched(WebSpec.plain(hosts=6, pages_per_host=15, links_per_page=0, latency_seconds=0.01)) as web:
        crawl = pages_crawl(skitter, web, *place)
        under_kills(crawl, web.gate, [Kill(30, lambda: fail_over(cluster, "failed-over"))])
        asked_for = {canonical(web.urls[hit.host] + hit.path[1:]) for hit in web.log() if hit.path != "/robots.txt"}
    assert len(asked_for) == 6 * 15
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == dict.fromkeys(asked_for, 1)


def fail_over(cluster: RedisCluster, job: str) -> None:
    """Kill the master that has a job. It comes back as the replica of the node that was its replica."""
    master = cluster.owner_of(key_of(job))
    assert master.say("EXISTS", key_of(job)) == 1
    replica = cluster.replicas[cluster.masters.index(master)]
    master.kill()
    wait_until(lambda: is_master(replica), what="a replica that is promoted")
    # Nobody confirms its writes until the old master is back.
    wait_until(lambda: "cmdstat_wait:" in replica.say("INFO", "commandstats"), what="a worker that waits")
    master.start()


def test_a_job_in_shards_goes_on_at_the_replica_of_a_dead_master(skitter, own_redis: Callable[..., OwnRedis]) -> None:
    cluster = RedisCluster(own_redis, *IN_MEMORY, *AT_ONCE, replicas=1)
    # One node is named; all the others are learnt of.
    place = ("--frontier", f"redis+cluster://127.0.0.1:{cluster.masters[0].port}{SHARDS}", "--job", "failed-over")
    with watched(WebSpec.plain(hosts=6, pages_per_host=10, latency_seconds=0.01)) as web:
        crawl = pages_crawl(skitter, web, *place)
        under_kills(crawl, web.gate, [Kill(20, lambda: replicated(cluster, "failed-over").kill())])
        assert has_each_page_once(skitter, web), crawl.log()


def key_of(job: str) -> str:
    """The key of a job's record, on the node that has its lead."""
    return prefixes_of(job, 1)[0] + "job"


def replicated(cluster: RedisCluster, job: str) -> OwnRedis:
    """The node that has a job's lead, whose replica has all that it has: it takes no more writes.

    What it had told nobody, a replica may miss; and what a job in shards loses by that, docs/guarantees.md says.
    """
    lead = cluster.owner_of(key_of(job))
    assert lead.say("EXISTS", key_of(job)) == 1
    lead.say("CLIENT", "PAUSE", 20_000, "WRITE")
    behind = True
    while behind:
        told = dict(line.split(":", 1) for line in lead.say("INFO", "replication").splitlines() if ":" in line)
        reached = dict(pair.split("=") for pair in told["slave0"].split(","))["offset"]
        behind = int(reached) < int(told["master_repl_offset"])
    return lead
