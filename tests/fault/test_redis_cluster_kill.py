"""kill -9 of workers and of a master of a Redis Cluster that writes everything to disk, in the middle of a crawl:
nothing is lost, nothing is doubled."""

from __future__ import annotations

import math

import pytest

from rig.killed_crawl import by_chance, ended, has_each_page_once, pages_crawl
from rig.processes import wait_until
from rig.servers.redis import DURABLE
from rig.servers.redis_cluster import RedisCluster
from rig.soak import chance_of
from rig.watched_web import watched
from skitter.testing.redis_jobs import prefixes_of
from skitter.testing.web import WebSpec


def crawl_under_kills(skitter, cluster: RedisCluster, shards: str, spec: WebSpec, kills: int, seed: int) -> None:
    """The first master that is killed stays away until a worker waits for it, each later one until it has started."""
    chance = chance_of(seed)
    place = ("--frontier", cluster.url + shards, "--job", "killed")
    with watched(spec) as web:
        crawl = pages_crawl(skitter, web, *place)
        expected = web.expected()
        moments = by_chance(chance, kills, len(expected.done) * 2 // 3)
        with ended(crawl):
            for number, (moment, then) in enumerate(zip(moments, [*moments[1:], math.inf], strict=True)):
                with web.gate.shut_at(moment, crawl.keep_running, then):
                    crawl.kill_worker(chance)
                    # First the one without which nothing goes on.
                    lead = cluster.owner_of(prefixes_of("killed", 1)[0] + "job")
                    victim = chance.choice(cluster.nodes) if number and shards else lead
                    victim.kill()
                # It is said once in an outage, and outages that follow each other closely are one.
                wait_until(lambda: "waiting until it is back" in crawl.log(), what="a worker that waits")
                victim.start()
            crawl.finish()
        assert has_each_page_once(skitter, web), crawl.log()
    status = skitter.json("status", *place)
    assert (status["state"], status["exact"], status["leased"]) == ("finished", True, 0)
    assert status["done"] == len(expected.done)
    assert status["seen"] == status["done"] + status["redirected"] + status["failed"] + status["excluded"]


both_forms = pytest.mark.parametrize("shards", ["", "?shards=6"])


@both_forms
def test_a_cluster_whose_master_and_worker_are_killed_loses_nothing(skitter, own_redis, shards) -> None:
    spec = WebSpec.plain(hosts=6, pages_per_host=8, latency_seconds=0.01)
    crawl_under_kills(skitter, RedisCluster(own_redis, *DURABLE), shards, spec, kills=1, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
@both_forms
def test_a_cluster_whose_masters_and_workers_are_killed_again_and_again_loses_nothing(
    skitter, own_redis, seed, shards
) -> None:
    spec = WebSpec(hosts=12, pages_per_host=600, latency_seconds=0.01)
    crawl_under_kills(skitter, RedisCluster(own_redis, *DURABLE), shards, spec, kills=8, seed=seed)
