"""Kills, pauses, planned failovers and cuts at random moments, on a cluster and under Sentinel, each with one replica.

Every page but the first of each host is linked from one other page: a link that is lost is a page that is lost. Judged
are the file, the log of the web server and the exit code.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest

from rig.killed_crawl import Kill, by_chance, pages_crawl, under_kills
from rig.processes import CommandLine, wait_until
from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import AT_ONCE, RedisCluster, WatchedRedis, is_master
from rig.soak import chance_of
from rig.watched_web import watched
from skitter.model.url import canonical
from skitter.testing.redis_jobs import prefixes_of
from skitter.testing.web import WebSpec

JOB = "enduring"
PROMOTION_SECONDS = 15.0
"""After this time a replica whose master is dead or paused is made to take over."""


class Pair:
    """Two servers, of which each may be the master of the other; ``promote`` does that as an operator would."""

    def __init__(
        self, nodes: tuple[OwnRedis, OwnRedis], promote: Callable[[OwnRedis], object], *, force: bool = False
    ) -> None:
        """``force``: a replica of a cluster that gets no votes (there are limits to their number in a time) takes over
        without them, as an operator would have it."""
        self._nodes = nodes
        self._promote = promote
        self._force = force

    def _wait_for_promotion(self, replica: OwnRedis) -> None:
        asked_at = time.monotonic()
        while not is_master(replica):
            if self._force and time.monotonic() - asked_at > PROMOTION_SECONDS:
                replica.say("CLUSTER", "FAILOVER", "TAKEOVER")
                asked_at = time.monotonic()
            time.sleep(0.02)

    def _master_and_replica(self) -> tuple[OwnRedis, OwnRedis]:
        wait_until(lambda: sum(map(is_master, self._nodes)) == 1, what="one master")
        first, second = self._nodes
        return (first, second) if is_master(first) else (second, first)

    def fail_over(self) -> None:
        _, replica = self._joined()
        self._promote(replica)

    def pause(self) -> None:
        """Pause the master until its replica is one. It goes on as the process that it was."""
        master, replica = self._joined()
        master.freeze()
        self._wait_for_promotion(replica)
        master.thaw()

    def kill(self) -> None:
        master, replica = self._joined()
        master.kill()
        self._wait_for_promotion(replica)
        master.start()

    def cut(self) -> None:
        master, _ = self._master_and_replica()
        master.say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def _joined(self) -> tuple[OwnRedis, OwnRedis]:
        """Master and replica, once the replica has what the master has."""
        master, replica = self._master_and_replica()
        wait_until(lambda: "master_link_status:up" in _replication(replica), what="a replica with its data")
        return master, replica


def _replication(server: OwnRedis) -> str:
    try:
        return str(server.say("INFO", "replication"))
    except OSError:
        return ""  # a server that changes its role cuts its connections


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", ["cluster", "shards", "sentinel"])
def test_a_store_that_fails_over_again_and_again_loses_and_doubles_nothing(
    skitter: CommandLine, own_redis: Callable[..., OwnRedis], form: str, seed: int
) -> None:
    chance = chance_of(f"{form} {seed}")
    if form == "sentinel":
        redis = WatchedRedis(own_redis)
        url = f"{redis.url}?wait_replicas=1"

        def promote(replica: OwnRedis) -> None:
            wait_until(
                lambda: is_master(replica) or redis.sentinels[0].say("SENTINEL", "FAILOVER", "main") == "OK",
                what="a failover that begins",
            )
            wait_until(lambda: is_master(replica), what="a replica that is promoted")

        pairs = [Pair((redis.master, redis.replica), promote)]
    else:
        cluster = RedisCluster(own_redis, *IN_MEMORY, *AT_ONCE, replicas=1)
        url = f"{cluster.url}?wait_replicas=1" + ("&shards=6" if form == "shards" else "")
        nodes = zip(cluster.masters, cluster.replicas, strict=True)
        pairs = [Pair(pair, cluster.fail_over_to, force=True) for pair in nodes]
        if form == "cluster":
            pairs = [pairs[cluster.masters.index(cluster.owner_of(prefixes_of(JOB, 1)[0] + "job"))]]

    hosts, per_host, events = 8, 120, 14
    place = ("--frontier", url, "--job", JOB)
    with watched(WebSpec.plain(hosts=hosts, pages_per_host=per_host, links_per_page=0, latency_seconds=0.01)) as web:
        crawl = pages_crawl(skitter, web, *place, "--set", "max_outbox_items=200")

        def happen() -> None:
            pair = chance.choice(pairs)
            acts = [pair.fail_over, pair.pause, pair.kill, pair.cut, lambda: crawl.kill_worker(chance), crawl.kill]
            chance.choice(acts)()

        moments = by_chance(chance, events, hosts * per_host * 9 // 10)
        under_kills(crawl, web.gate, [Kill(moment, happen) for moment in moments])
        asked_for = {canonical(web.urls[hit.host] + hit.path[1:]) for hit in web.log() if hit.path != "/robots.txt"}
    assert len(asked_for) == hosts * per_host
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == dict.fromkeys(asked_for, 1)
    assert skitter.run("fsck", *place).returncode == 0
