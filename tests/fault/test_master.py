"""A cluster whose workers reach the store through masters: nothing lost, nothing doubled, nothing stale accepted."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from rig.cluster import Cluster, judge
from rig.http_faults import HttpFaults
from rig.master import Master

from skitter.testing.web import WebSpec, served

LEASE_SECONDS = 3.0
PER_HOST = 2
soak = (pytest.mark.soak, pytest.mark.timeout(1200))


@pytest.mark.parametrize(
    ("name", "kind", "pages_per_host", "kills"),
    [
        pytest.param("slice", "sqlite", 40, 4, id="slice"),
        pytest.param("sqlite-soak", "sqlite", 1000, 30, id="sqlite-soak", marks=soak),
        pytest.param("redis-soak", "redis", 1000, 30, id="redis-soak", marks=soak),
    ],
)
def test_kills_of_workers_and_masters_and_a_bad_network_between_them_lose_nothing(
    tmp_path: Path, services: Any, name: str, kind: str, pages_per_host: int, kills: int
) -> None:
    """One percent of the answers lost, one percent of the calls doubled, delays; every other kill is a master's."""
    chance = random.Random(kills)
    spec = WebSpec(hosts=5, pages_per_host=pages_per_host, latency_seconds=0.05, seed=kills)
    store = services.need("redis")["url"] if kind == "redis" else f"sqlite:{tmp_path / 'master.db'}"
    settings = {"lease_seconds": LEASE_SECONDS, "per_host": PER_HOST}
    with (
        served(spec, tmp_path / "web.log") as web,
        Master(tmp_path, store) as master,
        HttpFaults(master.url, seed=kills) as way,
    ):
        way.lost_answers = way.doubled_calls = 0.01
        way.one_way_seconds = 0.003
        cluster = Cluster(tmp_path, web, [way.url], nodes=3, workers=2, settings=settings)
        with cluster.running():
            cluster.at_work()
            while len(cluster.faults) < kills and cluster.go_on(chance.uniform(0.2, 1.0)):
                if len(cluster.faults) % 2:
                    cluster.kill_some(chance)
                else:
                    at = time.monotonic()
                    master.kill()
                    master.start()
                    cluster.note("kill the master", at)
            cluster.finish(600)
            way.lost_answers = way.doubled_calls = 0.0
        findings = cluster.report(f"master-{name}")
    assert len(findings.faults) >= (kills if "soak" in name else 1), "the crawl was over too soon"
    if "soak" in name:
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
        pytest.param("slice", 0.3, 8, id="slice"),
        pytest.param("paced", 0.05, 60, id="paced", marks=soak),
        pytest.param("soak", 0.3, 150, id="soak", marks=soak),
    ],
)
@pytest.mark.soak
def test_politeness_at_the_server_holds_with_a_round_trip_of_fifty_milliseconds(
    tmp_path: Path, name: str, delay: float, pages_per_host: int
) -> None:
    spec = WebSpec(hosts=6, pages_per_host=pages_per_host, latency_seconds=delay, seed=3, blocks=0.0)
    settings = {"delay_seconds": delay, "per_host": 4, "lease_seconds": LEASE_SECONDS}
    with (
        served(spec, tmp_path / "web.log") as web,
        Master(tmp_path, f"sqlite:{tmp_path / 'master.db'}") as master,
        HttpFaults(master.url) as way,
    ):
        way.one_way_seconds = 0.025
        cluster = Cluster(tmp_path, web, [way.url], nodes=3, workers=1, settings=settings)
        with cluster.running():
            cluster.at_work()
            cluster.finish(600)
            way.one_way_seconds = 0.0
        findings = cluster.report(f"master-politeness-{name}")
    judge(findings, recovery_seconds=30.0)
    assert findings.smallest_gap_seconds is not None
    assert findings.smallest_gap_seconds >= delay - min(0.010, delay / 20), findings.text()
    assert findings.most_in_flight <= 4, findings.text()
