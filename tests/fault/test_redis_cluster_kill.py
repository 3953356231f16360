"""kill -9 of workers and of a master of a Redis Cluster that writes everything to disk, in the middle of a crawl:
nothing is lost, nothing is doubled."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from rig.redis_cluster import RedisCluster

from own_redis import DURABLE
from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

PAUSE_SECONDS, AWAY_SECONDS = 0.9, 0.5
QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")


def workers_of(supervisor: int) -> list[int]:
    """Its child processes."""
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()]
    return []


def crawl_under_kills(skitter, cluster: RedisCluster, spec: WebSpec, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    place = ("--frontier", cluster.url, "--job", "killed")
    with served(spec) as web:
        command = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 3, "--json", *place, *QUICK)
        crawl = skitter.start(*command)
        target = skitter.folder / "out.jsonl"
        while crawl.poll() is None and not (target.exists() and target.stat().st_size):
            time.sleep(0.05)
        for _ in range(kills):
            assert crawl.poll() is None, crawl.communicate()
            if workers := workers_of(crawl.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
            victim = chance.choice(cluster.nodes)
            victim.kill()
            time.sleep(AWAY_SECONDS)
            victim.start()
            time.sleep(PAUSE_SECONDS)
        out, error = crawl.communicate(timeout=80 + 4 * kills)
        expected = web.expected()
    assert crawl.returncode == 0, out + error
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    status = skitter.json("status", *place)
    assert (status["state"], status["exact"], status["leased"]) == ("finished", True, 0)
    assert status["done"] == len(expected.done)
    assert status["seen"] == status["done"] + status["redirected"] + status["failed"] + status["excluded"]


@pytest.mark.timeout(110)
def test_a_cluster_whose_masters_and_workers_are_killed_loses_nothing(skitter, own_redis) -> None:
    spec = WebSpec(hosts=6, pages_per_host=200, latency_seconds=0.01)
    crawl_under_kills(skitter, RedisCluster(own_redis, *DURABLE), spec, kills=2, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_whose_masters_and_workers_are_killed_again_and_again_loses_nothing(skitter, own_redis, seed) -> None:
    spec = WebSpec(hosts=12, pages_per_host=600, latency_seconds=0.01)
    crawl_under_kills(skitter, RedisCluster(own_redis, *DURABLE), spec, kills=8, seed=seed)
