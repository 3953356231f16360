"""A cluster under faults: nothing lost, nothing doubled, nothing stale accepted, and soon going on (G1, G2, G8).

Each fault has a slice here for every run, which comes at a page that is chosen, and is soaked in full with four workers
over more than 5,000 pages; the reports are kept in build/fault-report/.
"""

from __future__ import annotations

import math
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rig.cluster import Cluster, judge
from rig.killed_crawl import by_chance, spread
from rig.relay import Relay
from rig.servers.redis import DURABLE, IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import RedisCluster, WatchedRedis
from rig.soak import chance_of
from rig.watched_web import watched
from skitter.testing.web import WebSpec

LEASE_SECONDS = 3.0
PER_HOST = 2
HOUR = 3600.0
# A filter that makes no mistake in a lifetime, so that nothing may be missing; and generations that change meanwhile.
BLOOM = {"dedup": "bloom", "dedup_capacity": 1000, "dedup_error_rate": 1e-9}
FOR_A_WHILE = {"dedup_seconds": 3600}
by_dedup = pytest.mark.parametrize("dedup", [pytest.param(BLOOM, id="bloom"), pytest.param(FOR_A_WHILE, id="seconds")])


Fault = Callable[[Cluster, random.Random], "Callable[[], None] | None"]
"""What is done to a cluster while its web is shut. It returns what ends it, while the crawl goes on."""


class Size(NamedTuple):
    """How much of it."""

    name: str
    pages_per_host: int
    faults: int
    lease_seconds: float
    concurrency: int
    recovery_seconds: float

    @property
    def is_slice(self) -> bool:
        return self.name == "slice"

    def moments(self, pages: int, chance: random.Random) -> list[int]:
        """Numbers of pages at which faults come, with some pages left after the last one."""
        return spread(self.faults, pages * 2 // 3) if self.is_slice else by_chance(chance, self.faults, pages * 9 // 10)

    @property
    def web(self) -> WebSpec:
        """In a slice there are more hosts than one worker takes, so that all have something to do at each moment."""
        if self.is_slice:
            return WebSpec.plain(hosts=12, pages_per_host=4, latency_seconds=0.02)
        return WebSpec(hosts=5, pages_per_host=self.pages_per_host, latency_seconds=0.1, seed=self.faults)


def sizes(slice_faults: int, soak_faults: int, *, soak_pages: int = 1200) -> pytest.MarkDecorator:
    """A slice that takes seconds, with bounds that a busy machine keeps; and the full measure."""
    # No worker of a slice has so many leases that the others find none while the web is shut.
    few = Size("slice", 4, slice_faults, lease_seconds=5.0, concurrency=2, recovery_seconds=60.0)
    many = Size("soak", soak_pages, soak_faults, LEASE_SECONDS, concurrency=32, recovery_seconds=LEASE_SECONDS + 5.0)
    marks = (pytest.mark.soak, pytest.mark.timeout(1200))
    return pytest.mark.parametrize("size", [pytest.param(few, id="slice"), pytest.param(many, id="soak", marks=marks)])


def suffer(
    name: str,
    size: Size,
    folder: Path,
    frontiers: Sequence[str],
    fault: Fault,
    dedup: Mapping[str, object] | None = None,
    **options: Any,
) -> None:
    """Crawl the web while faults come, each to a random node; then judge what came out."""
    chance = chance_of(size.faults)
    with watched(size.web) as web:
        settings = {"lease_seconds": size.lease_seconds, "per_host": PER_HOST, "concurrency": size.concurrency}
        options.setdefault("nodes", 2 if size.is_slice else 4)
        cluster = Cluster(folder, web, frontiers, settings=settings | dict(dedup or {}), **options)
        moments = size.moments(len(web.expected().done), chance)
        with cluster.running(moments[0]):
            for moment, then in zip(moments, [*moments[1:], math.inf], strict=True):
                with cluster.shut_at(moment, then):
                    end = fault(cluster, chance)
                if end is not None:
                    end()
            cluster.finish()
        findings = cluster.report(f"{name}-{size.name}")
    assert len(findings.faults) == size.faults
    judge(findings, recovery_seconds=size.recovery_seconds)
    assert findings.most_in_flight <= PER_HOST, findings.text()


def kill_of(size: Size) -> Fault:
    """A machine that holds something; or any machine, or a worker, which may hold nothing."""
    return Cluster.kill_busy_node if size.is_slice else Cluster.kill_some


def place(kind: str, own_redis: Callable[..., OwnRedis], folder: Path) -> list[str]:
    match kind:
        case "sqlite":
            return [f"sqlite:{folder / 'frontier.db'}"]
        case "redis":
            return [own_redis(*IN_MEMORY).url]
        case "redis-cluster" | "redis-shards":
            return [RedisCluster(own_redis, *IN_MEMORY).url + ("?shards=6" if kind == "redis-shards" else "")]
        case _:
            return [WatchedRedis(own_redis).url]


@sizes(1, 100, soak_pages=1600)
@pytest.mark.parametrize(
    "kind",
    [
        "redis",
        pytest.param("sqlite", marks=pytest.mark.soak),
        pytest.param("redis-cluster", marks=pytest.mark.soak),
        pytest.param("redis-shards", marks=pytest.mark.soak),
        pytest.param("redis-sentinel", marks=pytest.mark.soak),
    ],
)
def test_killed_machines_cost_what_they_held_and_no_more(tmp_path, own_redis, kind, size) -> None:
    """kill -9. Their leases have to expire: nobody hands them back."""
    suffer(f"kills-{kind}", size, tmp_path, place(kind, own_redis, tmp_path), kill_of(size))


@sizes(1, 100, soak_pages=1600)
@by_dedup
@pytest.mark.parametrize("kind", ["redis", "redis-cluster", "redis-shards", "redis-sentinel"])
@pytest.mark.soak
def test_killed_machines_cost_no_more_with_another_dedup(tmp_path, own_redis, kind, dedup, size) -> None:
    name = f"kills-{kind}-{next(iter(dedup))}"
    suffer(name, size, tmp_path, place(kind, own_redis, tmp_path), kill_of(size), dedup)


@sizes(1, 100, soak_pages=1600)
def test_workers_killed_under_a_supervisor_cost_what_they_held_and_no_more(tmp_path, own_redis, size) -> None:
    frontiers = place("sqlite", own_redis, tmp_path)
    kill = Cluster.kill_busy_worker if size.is_slice else Cluster.kill_some
    suffer("kills-supervised", size, tmp_path, frontiers, kill, nodes=1, workers=2 if size.is_slice else 4)


@sizes(1, 12)
@pytest.mark.parametrize("kind", ["redis", pytest.param("sqlite", marks=pytest.mark.soak)])
def test_a_machine_that_stands_still_for_longer_than_its_leases_does_no_harm(tmp_path, own_redis, kind, size) -> None:
    """SIGSTOP, and SIGCONT when everything it held belongs to others. With SQLite it may hold the lock meanwhile."""

    def stop(cluster: Cluster, chance: random.Random) -> Callable[[], None]:
        # The crawl of the first one would wait for it.
        node = chance.choice(cluster.others_at_work())
        # Who is stopped inside a transaction of SQLite holds its lock: nobody can renew meanwhile.
        victims = cluster.nodes if kind == "sqlite" else [node]
        at, processes = time.monotonic(), [process for victim in victims for process in victim.processes()]
        node.signal(signal.SIGSTOP)
        held = cluster.held(node)

        def go_on() -> None:
            if kind == "sqlite":
                time.sleep(size.lease_seconds + 1)  # the length of the fault: nobody can be waited for
            else:
                cluster.until(lambda: cluster.are_granted_again(held), "others have what it held")
            node.signal(signal.SIGCONT)
            cluster.note("stop a node", at, processes)

        return go_on

    suffer(f"stops-{kind}", size, tmp_path, place(kind, own_redis, tmp_path), stop)


@sizes(1, 20)
@pytest.mark.parametrize(
    "dedup",
    [
        pytest.param({}, id="exact"),
        pytest.param(BLOOM, id="bloom", marks=pytest.mark.soak),
        pytest.param(FOR_A_WHILE, id="seconds", marks=pytest.mark.soak),
    ],
)
def test_a_redis_that_is_killed_and_restarted_loses_nothing(tmp_path, own_redis, dedup, size) -> None:
    """kill -9 of a Redis with ``appendfsync always``, which is away until a worker has noticed."""
    redis = own_redis(*DURABLE)

    def kill(cluster: Cluster, chance: random.Random) -> Callable[[], None]:
        at, said = time.monotonic(), len(cluster.log())
        processes = [process for node in cluster.nodes for process in node.processes()]
        redis.kill()

        def restart() -> None:
            cluster.until(lambda: "waiting until it is back" in cluster.log()[said:], "a worker that waits")
            redis.start()
            cluster.note("kill Redis", at, processes)

        return restart

    suffer("-".join(["redis-kills", *list(dedup)[:1]]), size, tmp_path, [redis.url], kill, dedup)


@sizes(5, 40, soak_pages=1600)
def test_a_network_that_cuts_delays_and_swallows_costs_time_only(tmp_path, services, size) -> None:
    """Each node has a bad line of its own to Redis."""
    port = services.need("redis")["port"]
    kinds = ["cut", "torn requests", "torn answers", "delay", "black hole"]

    def spoil(cluster: Cluster, chance: random.Random) -> Callable[[], None]:
        kind = kinds[len(cluster.faults) % len(kinds)]
        # What was swallowed is waited for, up to the driver's patience: a slice does not do that to the crawl itself.
        is_spared = kind == "black hole" and size.is_slice
        node = chance.choice(cluster.others_at_work() if is_spared else cluster.at_work())
        line, at, processes = lines[node.number], time.monotonic(), node.processes()
        match kind:
            case "cut":
                line.cut()
            case "torn requests":
                line.cut_requests = 0.3
            case "torn answers":
                line.cut_answers = 0.3
            case "delay":
                line.delay_seconds = 0.3
            case "black hole":
                line.black_hole(opens=True)

        def mend() -> None:
            cluster.go_on(3 if size.is_slice else chance.randrange(1, 60))
            line.cut_requests = line.cut_answers = line.delay_seconds = 0.0
            line.black_hole(opens=False)
            cluster.note(kind, at, processes)

        return mend

    with ExitStack() as stack:
        lines = [stack.enter_context(Relay("127.0.0.1", port, seed=number)) for number in range(4)]
        suffer("network", size, tmp_path, [f"redis://{line.address}" for line in lines], spoil)


@sizes(1, 20)
def test_clocks_that_are_an_hour_apart_change_nothing(tmp_path, services, size) -> None:
    """The store's clock decides, never a worker's. With kills, so that leases have to expire meanwhile."""
    clocks = [-HOUR, HOUR, 0.0, 2 * HOUR]
    suffer("clocks", size, tmp_path, [services.need("redis")["url"]], kill_of(size), clocks=clocks)
