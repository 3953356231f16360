"""A cluster whose workers reach the store through masters: nothing lost, nothing doubled, nothing stale accepted."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest

from rig.cluster import Cluster, judge
from rig.http_faults import HttpFaults
from rig.killed_crawl import by_chance, spread
from rig.master import Master
from rig.processes import wait_until
from rig.soak import chance_of
from rig.watched_web import watched
from skitter.testing.web import WebSpec

LEASE_SECONDS = 3.0
PER_HOST = 2
soak = (pytest.mark.soak, pytest.mark.timeout(1200))


@pytest.mark.parametrize(
    ("name", "kind", "kills"),
    [
        pytest.param("slice", "sqlite", 2, id="slice"),
        pytest.param("sqlite-soak", "sqlite", 30, id="sqlite-soak", marks=soak),
        pytest.param("redis-soak", "redis", 30, id="redis-soak", marks=soak),
    ],
)
def test_kills_of_workers_and_masters_and_a_bad_network_between_them_lose_nothing(
    tmp_path: Path, services: Any, name: str, kind: str, kills: int
) -> None:
    """Some of the answers lost, some of the calls doubled, delays; every other kill is a master's."""
    chance, is_slice = chance_of(kills), name == "slice"
    spec = WebSpec(hosts=5, pages_per_host=1000, latency_seconds=0.05, seed=kills)
    settings = {"lease_seconds": LEASE_SECONDS, "per_host": PER_HOST}
    if is_slice:
        spec = WebSpec.plain(hosts=12, pages_per_host=4, latency_seconds=0.02)
        settings = {"lease_seconds": 5.0, "per_host": PER_HOST, "concurrency": 2}
    store = services.need("redis")["url"] if kind == "redis" else f"sqlite:{tmp_path / 'master.db'}"
    with watched(spec) as web, Master(tmp_path, store) as master, HttpFaults(master.url, seed=kills) as way:
        way.one_way_seconds = 0.003
        cluster = Cluster(
            tmp_path, web, [way.url], nodes=2 if is_slice else 3, workers=1 if is_slice else 2, settings=settings
        )
        pages = len(web.expected().done)
        moments = spread(kills, pages * 2 // 3) if is_slice else by_chance(chance, kills, pages * 9 // 10)
        with cluster.running(moments[0]):
            # A command whose first calls are lost ends with an error, and nothing is resumed.
            wait_until(lambda: all(node.begun() for node in cluster.nodes), what="workers of all nodes")
            way.lost_answers = way.doubled_calls = 0.1 if is_slice else 0.01
            for number, (moment, then) in enumerate(zip(moments, [*moments[1:], math.inf], strict=True)):
                with cluster.shut_at(moment, then):
                    if number % 2:
                        cluster.kill_busy_node(chance) if is_slice else cluster.kill_some(chance)
                    else:
                        at = time.monotonic()
                        master.kill()
                        master.start()
                        cluster.note("kill the master", at)
            cluster.finish()
            way.lost_answers = way.doubled_calls = 0.0
        findings = cluster.report(f"master-{name}")
    assert len(findings.faults) == kills
    assert way.lost
    assert way.doubled
    assert not findings.lost, findings.text()
    assert not findings.doubled, findings.text()
    assert not findings.stale_accepted, findings.text()
    assert not findings.unexpected, findings.text()
    assert findings.most_in_flight <= PER_HOST, findings.text()


@pytest.mark.parametrize(
    ("name", "delay", "pages_per_host"),
    [
        pytest.param("few", 0.3, 8, id="few"),
        pytest.param("paced", 0.05, 60, id="paced"),
        pytest.param("soak", 0.3, 150, id="soak"),
    ],
)
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_politeness_at_the_server_holds_with_a_round_trip_of_fifty_milliseconds(
    tmp_path: Path, name: str, delay: float, pages_per_host: int
) -> None:
    spec = WebSpec(hosts=6, pages_per_host=pages_per_host, latency_seconds=delay, seed=3, blocks=0.0)
    settings = {"delay_seconds": delay, "per_host": 4, "lease_seconds": LEASE_SECONDS}
    with (
        watched(spec) as web,
        Master(tmp_path, f"sqlite:{tmp_path / 'master.db'}") as master,
        HttpFaults(master.url) as way,
    ):
        way.one_way_seconds = 0.025
        cluster = Cluster(tmp_path, web, [way.url], nodes=3, workers=1, settings=settings)
        with cluster.running():
            cluster.finish()
            way.one_way_seconds = 0.0
        findings = cluster.report(f"master-politeness-{name}")
    judge(findings, recovery_seconds=30.0)
    assert findings.smallest_gap_seconds is not None
    assert findings.smallest_gap_seconds >= delay - min(0.010, delay / 20), findings.text()
    assert findings.most_in_flight <= 4, findings.text()
