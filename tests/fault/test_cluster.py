"""A cluster under faults: nothing lost, nothing doubled, nothing stale accepted, and soon going on (G1, G2, G8).

Four workers over the synthetic web. Each fault has a slice here for every run, and is soaked in full over more than
5,000 pages; the reports are kept in build/fault-report/.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rig.cluster import Cluster, judge
from rig.proxy import Proxy
from rig.redis_server import Durable

from skitter.testing.web import WebSpec, served

LEASE_SECONDS = 3.0
PER_HOST = 2
HOUR = 3600.0
# A filter that makes no mistake in a lifetime, so that nothing may be missing; and generations that change meanwhile.
BLOOM = {"dedup": "bloom", "dedup_capacity": 1000, "dedup_error_rate": 1e-9}
FOR_A_WHILE = {"dedup_seconds": 3600}
by_dedup = pytest.mark.parametrize(
    "dedup",
    [pytest.param(BLOOM, id="bloom"), pytest.param(FOR_A_WHILE, id="seconds", marks=pytest.mark.soak)],
)


class Size(NamedTuple):
    """How much of it."""

    name: str
    pages_per_host: int
    faults: int
    pause_seconds: float
    """At most, between two faults."""
    latency_seconds: float
    recovery_seconds: float
    all_faults: bool
    """The crawl is long enough for all of them, on any machine."""


def sizes(slice_faults: int, soak_faults: int, *, soak_pages: int = 1200, pause: float = 1.0) -> pytest.MarkDecorator:
    """A slice that takes seconds, with a bound that a busy machine keeps; and the full measure."""
    few = Size("slice", 40, slice_faults, 0.8, 0.05, recovery_seconds=30.0, all_faults=False)
    many = Size("soak", soak_pages, soak_faults, pause, 0.1, recovery_seconds=LEASE_SECONDS + 5.0, all_faults=True)
    marks = (pytest.mark.soak, pytest.mark.timeout(1200))
    return pytest.mark.parametrize("size", [pytest.param(few, id="slice"), pytest.param(many, id="soak", marks=marks)])


def suffer(
    name: str,
    size: Size,
    folder: Path,
    frontiers: Sequence[str],
    fault: Callable[[Cluster, random.Random], None],
    dedup: Mapping[str, object] | None = None,
    **options: Any,
) -> None:
    """Crawl the web while faults come, each to a random node; then judge what came out."""
    chance = random.Random(size.faults)
    spec = WebSpec(hosts=5, pages_per_host=size.pages_per_host, latency_seconds=size.latency_seconds, seed=size.faults)
    with served(spec, folder / "web.log") as web:
        settings = {"lease_seconds": LEASE_SECONDS, "per_host": PER_HOST, **(dedup or {})}
        cluster = Cluster(folder, web, frontiers, settings=settings, **options)
        with cluster.running():
            cluster.at_work()
            while len(cluster.faults) < size.faults and cluster.go_on(chance.uniform(0.1, size.pause_seconds)):
                fault(cluster, chance)
            cluster.finish(600)
        findings = cluster.report(f"{name}-{size.name}")
    assert len(findings.faults) >= (size.faults if size.all_faults else 1), "the crawl was over too soon"
    judge(findings, recovery_seconds=size.recovery_seconds)
    assert findings.most_in_flight <= PER_HOST, findings.text()


def place(kind: str, services: Any, folder: Path) -> list[str]:
    return [f"sqlite:{folder / 'frontier.db'}" if kind == "sqlite" else services.need(kind)["url"]]


@sizes(5, 100, soak_pages=1600, pause=2.0)
@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        "redis",
        pytest.param("redis-cluster", marks=pytest.mark.soak),
        pytest.param("redis-sentinel", marks=pytest.mark.soak),
    ],
)
def test_killed_machines_cost_what_they_held_and_no_more(tmp_path, own_services, kind, size) -> None:
    """kill -9 at random. Their leases have to expire: nobody hands them back."""
    suffer(f"kills-{kind}", size, tmp_path, place(kind, own_services, tmp_path), Cluster.kill_some)


@sizes(5, 100, soak_pages=1600, pause=2.0)
@by_dedup
@pytest.mark.parametrize(
    "kind", ["redis", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("redis-cluster", "redis-sentinel"))]
)
@pytest.mark.soak
def test_killed_machines_cost_no_more_with_another_dedup(tmp_path, own_services, kind, dedup, size) -> None:
    name = f"kills-{kind}-{next(iter(dedup))}"
    suffer(name, size, tmp_path, place(kind, own_services, tmp_path), Cluster.kill_some, dedup)


@sizes(5, 100, soak_pages=1600, pause=2.0)
def test_workers_killed_under_a_supervisor_cost_what_they_held_and_no_more(tmp_path, services, size) -> None:
    frontiers = place("sqlite", services, tmp_path)
    suffer("kills-supervised", size, tmp_path, frontiers, Cluster.kill_some, nodes=1, workers=4)


@sizes(1, 12)
@pytest.mark.parametrize("kind", ["redis", pytest.param("sqlite", marks=pytest.mark.soak)])
def test_a_machine_that_stands_still_for_longer_than_its_leases_does_no_harm(
    tmp_path, own_services, kind, size
) -> None:
    """SIGSTOP, and SIGCONT when everything it held belongs to others. With SQLite it may hold the lock meanwhile."""

    def stop(cluster: Cluster, chance: random.Random) -> None:
        node = chance.choice(cluster.at_work() or cluster.nodes)
        # Who is stopped inside a transaction of SQLite holds its lock: nobody can renew meanwhile.
        victims = cluster.nodes if kind == "sqlite" else [node]
        at, processes = time.monotonic(), [process for victim in victims for process in victim.processes()]
        node.signal(signal.SIGSTOP)
        time.sleep(LEASE_SECONDS + 1)
        node.signal(signal.SIGCONT)
        cluster.note("stop a node", at, processes)

    suffer(f"stops-{kind}", size, tmp_path, place(kind, own_services, tmp_path), stop)


@sizes(2, 20)
@pytest.mark.parametrize(
    "dedup",
    [
        pytest.param({}, id="exact"),
        pytest.param(BLOOM, id="bloom", marks=pytest.mark.soak),
        pytest.param(FOR_A_WHILE, id="seconds", marks=pytest.mark.soak),
    ],
)
def test_a_redis_that_is_killed_and_restarted_loses_nothing(tmp_path, services, dedup, size) -> None:
    """kill -9 of a Redis with ``appendfsync always``."""
    services.need("redis")  # installs it where it is missing
    redis = Durable(tmp_path / "redis")

    def restart(cluster: Cluster, chance: random.Random) -> None:
        at = time.monotonic()
        redis.kill()
        time.sleep(chance.uniform(0.1, 1.0))
        redis.start()
        cluster.note("kill Redis", at, [process for node in cluster.nodes for process in node.processes()])

    try:
        suffer("-".join(["redis-kills", *list(dedup)[:1]]), size, tmp_path, [redis.url], restart, dedup)
    finally:
        redis.kill()


@sizes(5, 40, soak_pages=1600)
def test_a_network_that_cuts_delays_and_swallows_costs_time_only(tmp_path, services, size) -> None:
    """Each node has a bad line of its own to Redis."""
    port = services.need("redis")["port"]
    kinds = ["cut", "torn commands", "torn answers", "delay", "black hole"]

    def spoil(cluster: Cluster, chance: random.Random) -> None:
        kind = kinds[len(cluster.faults) % len(kinds)]
        # What was swallowed is waited for, up to the driver's patience: a slice does not do that to the crawl itself.
        spared = cluster.nodes[:1] if kind == "black hole" and size.name == "slice" else []
        node = chance.choice([node for node in cluster.at_work() if node not in spared] or cluster.nodes[1:])
        line, at, processes = lines[node.number], time.monotonic(), node.processes()
        match kind:
            case "cut":
                line.cut()
            case "torn commands":
                line.cut_commands = 0.3
                cluster.go_on(1.0)
                line.cut_commands = 0.0
            case "torn answers":
                line.cut_answers = 0.3
                cluster.go_on(1.0)
                line.cut_answers = 0.0
            case "delay":
                line.delay_seconds = 0.3
                cluster.go_on(1.5)
                line.delay_seconds = 0.0
            case "black hole":
                line.black_hole(opens=True)
                cluster.go_on(chance.uniform(0.5, LEASE_SECONDS + 1))
                line.black_hole(opens=False)
        cluster.note(kind, at, processes)

    with ExitStack() as stack:
        lines = [stack.enter_context(Proxy("127.0.0.1", port, seed=number)) for number in range(4)]
        suffer("network", size, tmp_path, [line.url for line in lines], spoil)


@sizes(2, 20)
def test_clocks_that_are_an_hour_apart_change_nothing(tmp_path, services, size) -> None:
    """The store's clock decides, never a worker's. With kills, so that leases have to expire meanwhile."""
    clocks = [-HOUR, 0.0, HOUR, 2 * HOUR]
    suffer("clocks", size, tmp_path, place("redis", services, tmp_path), Cluster.kill_some, clocks=clocks)
