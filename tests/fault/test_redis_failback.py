"""Servers that fail over and back in the middle of a crawl: both are the processes that they were, with their run ids.

Every page but the first of each host is linked from one other page, so a link that is lost is a page that is lost.

tests/integration/frontier/test_reigns.py searches through many more orders of promotions, losses and kills.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from rig.killed_crawl import Kill, pages_crawl, under_kills
from rig.processes import CommandLine, wait_until
from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import AT_ONCE, RedisCluster, WatchedRedis, is_master
from rig.watched_web import WatchedWeb, watched
from skitter.model.url import canonical
from skitter.testing.redis_jobs import prefixes_of
from skitter.testing.web import WebSpec

HOSTS, PAGES_PER_HOST = 6, 40
WEB = WebSpec.plain(hosts=HOSTS, pages_per_host=PAGES_PER_HOST, links_per_page=0, latency_seconds=0.01)
SHARDS = "?shards=6"
SMALL_OUTBOX = ("--set", "max_outbox_items=20")
"""It is full soon, if something in it is never forgotten."""


def assert_each_page_once(skitter: CommandLine, web: WatchedWeb) -> None:
    """Judge by the file and the log of the web server."""
    asked_for = {canonical(web.urls[hit.host] + hit.path[1:]) for hit in web.log() if hit.path != "/robots.txt"}
    assert len(asked_for) == HOSTS * PAGES_PER_HOST
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == dict.fromkeys(asked_for, 1)


@pytest.mark.parametrize(
    ("shards", "is_killed"),
    [
        ("", True),
        (SHARDS, False),
        pytest.param("", False, marks=pytest.mark.soak),
        pytest.param(SHARDS, True, marks=pytest.mark.soak),
    ],
)
def test_a_planned_failover_and_the_way_back_lose_and_double_nothing(
    skitter: CommandLine, own_redis: Callable[..., OwnRedis], shards: str, is_killed: bool
) -> None:
    cluster = RedisCluster(own_redis, *IN_MEMORY, *AT_ONCE, replicas=1)
    master = cluster.owner_of(prefixes_of("maintained", 1)[0] + "job")
    replica = cluster.replicas[cluster.masters.index(master)]

    place = ("--frontier", cluster.url + shards, "--job", "maintained")
    with watched(WEB) as web:
        crawl = pages_crawl(skitter, web, *place, *SMALL_OUTBOX)
        kills = [Kill(60, lambda: cluster.fail_over_to(replica)), Kill(110, lambda: cluster.fail_over_to(master))]
        if is_killed:
            kills.append(Kill(180, crawl.kill))
        under_kills(crawl, web.gate, kills)
        assert_each_page_once(skitter, web)
    assert skitter.json("status", *place)["undelivered"] == 0
    assert skitter.run("fsck", *place).returncode == 0


def test_a_master_that_is_paused_replaced_and_promoted_again_loses_and_doubles_nothing(
    skitter: CommandLine, own_redis: Callable[..., OwnRedis]
) -> None:
    """Without WAIT: what the promoted replica lacks is done again."""
    redis = WatchedRedis(own_redis)

    def pause() -> None:
        redis.master.freeze()
        wait_until(redis.is_promoted, what="a replica that is promoted")
        redis.master.thaw()

    def go_back() -> None:
        wait_until(lambda: "master_link_status:up" in info(redis.master), what="the old master as a replica")
        sentinel = redis.sentinels[0]
        wait_until(lambda: is_master(redis.master) or sentinel.say("SENTINEL", "FAILOVER", "main") == "OK")
        wait_until(lambda: is_master(redis.master), what="the first master, promoted again")

    place = ("--frontier", redis.url, "--job", "paused")
    with watched(WEB) as web:
        crawl = pages_crawl(skitter, web, *place, *SMALL_OUTBOX)
        under_kills(crawl, web.gate, [Kill(60, pause), Kill(130, go_back)])
        assert_each_page_once(skitter, web)
    assert skitter.run("fsck", *place).returncode == 0


def info(server: OwnRedis) -> str:
    try:
        return str(server.say("INFO", "replication"))
    except OSError:
        return ""  # a server that changes its role cuts its connections
