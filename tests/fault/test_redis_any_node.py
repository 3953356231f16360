"""Commands that begin while some of the named nodes are dead, frozen or empty, or while a failover is under way."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from rig.processes import HANG_SECONDS, CommandLine, kill_group, wait_until
from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import AT_ONCE, RedisCluster, WatchedRedis
from rig.watched_web import watched
from skitter.testing.redis_jobs import prefixes_of
from skitter.testing.web import WebSpec

JOB = ("--job", "shop")
SPEC = WebSpec.plain(hosts=2, pages_per_host=3)


@pytest.fixture
def cluster(own_redis: Callable[..., OwnRedis]) -> RedisCluster:
    return RedisCluster(own_redis, *IN_MEMORY, *AT_ONCE, replicas=1)


def url_of(*nodes: OwnRedis) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def lead_of(cluster: RedisCluster) -> OwnRedis:
    return cluster.owner_of(prefixes_of("shop", 1)[0] + "job")


def has_replaced(witness: OwnRedis, *lost: OwnRedis) -> bool:
    """Whether a node knows successors of all masters that were lost."""
    lines = witness.say("CLUSTER", "NODES").splitlines()
    ports = {f":{node.port}@" for node in lost}
    masters = [line for line in lines if "master" in line.split()[2] and len(line.split()) > 8]
    is_up = "cluster_state:ok" in witness.say("CLUSTER", "INFO")
    return is_up and not any(port in line for line in masters for port in ports)


def crawled(skitter: CommandLine, web: Any, frontier: str) -> str:
    """Crawl a whole web, and return one of its pages."""
    skitter.run("crawl", *web.urls, "-o", "out.jsonl", *JOB, "--frontier", frontier)
    return str(skitter.lines("out.jsonl")[0]["url"])


def said_that_it_waits(command: subprocess.Popen[str]) -> str:
    """Read the first line that a command prints on standard error."""
    assert command.stderr is not None
    line = command.stderr.readline()
    assert "waiting until it is back" in line, line
    return line


def test_every_command_finds_the_cluster_beyond_nodes_that_are_dead_frozen_or_empty(
    skitter: CommandLine, own_redis: Callable[..., OwnRedis], cluster: RedisCluster
) -> None:
    with watched(SPEC) as web:
        page = crawled(skitter, web, cluster.url)
        dead = lead_of(cluster)
        frozen = next(node for node in cluster.masters if node is not dead)
        (healthy,) = (node for node in cluster.masters if node not in (dead, frozen))
        for lost in (dead, frozen):
            cluster.wait_for_replica(lost)
        dead.kill()
        wait_until(lambda: has_replaced(healthy, dead), what="a promotion")
        frozen.freeze()
        wait_until(lambda: has_replaced(healthy, dead, frozen), what="another promotion")
        empty = own_redis(*IN_MEMORY, "--cluster-enabled", "yes")
        other = own_redis(*IN_MEMORY)
        frontier = ("--frontier", url_of(dead, frozen, empty, other, healthy))
        assert skitter.json("status", *JOB, *frontier)["done"] == 6
        assert "shop" in skitter.run("jobs", *frontier).stdout
        skitter.run("failed", *JOB, *frontier)
        assert "done" in skitter.run("why", page, *JOB, *frontier).stdout
        skitter.run("fsck", *JOB, *frontier)
        skitter.run("worker", *JOB, *frontier)
        skitter.run("crawl", *web.urls, "-o", "out.jsonl", *JOB, *frontier)
        frozen.thaw()


def test_nodes_that_do_not_answer_are_all_named_at_once(
    skitter: CommandLine, own_redis: Callable[..., OwnRedis]
) -> None:
    dead, frozen = own_redis(*IN_MEMORY, "--cluster-enabled", "yes"), own_redis(*IN_MEMORY, "--cluster-enabled", "yes")
    dead.kill()
    frozen.freeze()
    error = skitter.run("status", *JOB, "--frontier", url_of(frozen, dead), code=3).stderr
    frozen.thaw()
    assert f"127.0.0.1:{dead.port}: connection refused" in error
    assert f"127.0.0.1:{frozen.port}: no answer in time" in error
    assert "waiting" not in error


def test_a_single_server_that_is_down_is_an_error_at_once(skitter: CommandLine) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        error = skitter.run("status", *JOB, "--frontier", f"redis://127.0.0.1:{closed.getsockname()[1]}", code=3).stderr
    assert "connection refused" in error
    assert "waiting" not in error


def test_sentinels_that_do_not_answer_are_all_named(skitter: CommandLine, own_redis: Callable[..., OwnRedis]) -> None:
    dead = [own_redis(*IN_MEMORY), own_redis(*IN_MEMORY)]
    for server in dead:
        server.kill()
    hosts = [f"127.0.0.1:{server.port}" for server in dead]
    error = skitter.run("status", *JOB, "--frontier", f"redis+sentinel://{','.join(hosts)}/main", code=3).stderr
    assert "no sentinel answers" in error
    assert all(f"{host}: connection refused" in error for host in hosts)


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_status_answers_during_a_failover_of_a_cluster_as_soon_as_a_master_is_there(
    skitter: CommandLine, cluster: RedisCluster, how: str
) -> None:
    with watched(SPEC) as web:
        crawled(skitter, web, cluster.url)
    for replica in cluster.replicas:
        replica.say("CONFIG", "SET", "cluster-replica-no-failover", "yes")
    lost = lead_of(cluster)
    cluster.wait_for_replica(lost)
    lost.kill() if how == "killed" else lost.freeze()
    status = skitter.start("status", "--json", *JOB, "--frontier", cluster.url)
    try:
        # The other nodes notice after a while, and say then that the cluster is down; until then they name the master.
        assert str(lost.port) in said_that_it_waits(status)
        for replica in cluster.replicas:
            replica.say("CONFIG", "SET", "cluster-replica-no-failover", "no")
        out, error = status.communicate()
        assert status.returncode == 0, error
        assert json.loads(out)["done"] == 6
        assert error.count("waiting until it is back") == 0, "it said so before, once"
    finally:
        kill_group(status)
    if how == "frozen":
        lost.thaw()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_status_answers_during_a_failover_by_sentinel_as_soon_as_a_master_is_there(
    skitter: CommandLine, own_redis: Callable[..., OwnRedis], number: signal.Signals
) -> None:
    redis = WatchedRedis(own_redis)
    with watched(SPEC) as web:
        crawled(skitter, web, redis.url)
    redis.wait_for_replica()
    redis.master.kill() if number is signal.SIGKILL else redis.master.freeze()
    assert skitter.json("status", *JOB, "--frontier", redis.url)["done"] == 6
    assert redis.is_promoted()
    if number is signal.SIGSTOP:
        redis.master.thaw()


def turn_away(port: int, times: int) -> None:
    """Take connections in the place of a server, and close them at once."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(HANG_SECONDS)
        for _ in range(times):
            listener.accept()[0].close()


def test_several_pauses_of_a_server_are_one_line_of_a_node_with_three_workers(
    skitter: CommandLine, own_redis: Callable[..., OwnRedis]
) -> None:
    """The workers, their threads and the node itself all notice, by reasons of their own."""
    redis = own_redis("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    pauses = 4

    def connections() -> int:
        return int(redis.say("CLIENT", "LIST").count("name=skitter"))

    with watched(WebSpec.plain(hosts=4, pages_per_host=10, latency_seconds=0.01)) as web:
        words = ("--workers", 3, "--set", "lease_seconds=3", "--log", "crawl.log", "-o", "out.jsonl", *JOB)
        crawl = skitter.start("crawl", *web.urls, *words, "--frontier", redis.url)
        try:
            with web.gate.shut_at(10):
                for _ in range(pauses):
                    # A node has a connection, a worker one, and another one that its thread renews leases with.
                    wait_until(lambda: connections() >= 7, crawl, "all connections")
                    redis.kill()
                    turn_away(redis.port, 20)
                    redis.start()
            _, error = crawl.communicate()
            assert crawl.returncode == 0, error
        finally:
            kill_group(crawl)
    log = (skitter.folder / "crawl.log").read_text()
    told = [log.count(f" {name}: ") for name in ("frontier.unavailable", "frontier.back")]
    # A machine that is so busy that ten seconds pass between two of them has told of two outages.
    assert told[0] == told[1], log
    assert 1 <= told[0] <= pauses, log
    assert len(skitter.lines("out.jsonl")) == 40
