"""Politeness under kills, by stamps that the workers take just before each send, with the server's log beside (G4)."""

from __future__ import annotations

import random

import pytest
from rig.cluster import Cluster, judge

from skitter.testing.web import WebSpec, served

TOLERANCE_SECONDS = 0.010
PER_HOST = 2
PER_IP = 3
LEASE_SECONDS = 3.0


@pytest.mark.parametrize(
    ("name", "delay", "hosts", "pages_per_host", "workers", "kills"),
    [
        pytest.param("slice", 0.3, 10, 12, 4, 3, id="slice"),
        pytest.param("paced", 0.05, 10, 80, 4, 4, id="paced"),
        pytest.param("soak", 0.3, 50, 100, 8, 30, id="soak", marks=(pytest.mark.soak, pytest.mark.timeout(1200))),
        pytest.param(
            "paced-soak", 0.02, 20, 800, 8, 30, id="paced-soak", marks=(pytest.mark.soak, pytest.mark.timeout(1200))
        ),
    ],
)
def test_no_gap_is_below_the_delay_while_workers_are_killed(
    tmp_path, services, name, delay, hosts, pages_per_host, workers, kills
) -> None:
    """Three nodes with a worker each, the others under one supervisor. An answer takes longer than the delay.

    A delay of 0.3 s is kept by the store, a shorter one by the worker that was granted last.
    """
    chance = random.Random(kills)
    # No blocks: a host that pauses proves nothing about the delay.
    spec = WebSpec(hosts=hosts, pages_per_host=pages_per_host, latency_seconds=1.5 * delay, seed=kills, blocks=0.0)
    per_host = PER_HOST if delay == 0.3 else 8
    settings = {"delay_seconds": delay, "per_host": per_host, "lease_seconds": LEASE_SECONDS}
    tolerance = min(TOLERANCE_SECONDS, delay / 20)
    with served(spec, tmp_path / "web.log") as web:
        frontier = services.need("redis")["url"]
        cluster = Cluster(tmp_path, web, [frontier], nodes=4, workers=workers - 3, settings=settings)
        with cluster.running():
            cluster.at_work()
            while len(cluster.faults) < kills and cluster.go_on(chance.uniform(0.3, 1.2)):
                cluster.kill_some(chance)
            cluster.finish(600)
        findings = cluster.report(f"politeness-{name}")
    assert len(findings.faults) >= (kills if "soak" in name else 1), "the crawl was over too soon"
    # What was lost stands behind what its host has queued meanwhile.
    judge(findings, recovery_seconds=30.0 + 2 * pages_per_host * delay)
    assert findings.smallest_gap_seconds is not None
    assert findings.smallest_gap_seconds >= delay - tolerance, findings.text()
    if "soak" in name or "paced" in name:
        # Where the store keeps the delay, a handshake counts: on loopback it takes no time worth mentioning, if the
        # machine has any to spare.
        assert findings.smallest_gap_of_sends_seconds is not None
        assert findings.smallest_gap_of_sends_seconds >= delay - tolerance, findings.text()
    assert findings.most_in_flight <= per_host, findings.text()


@pytest.mark.parametrize(
    ("name", "kind", "hosts", "pages_per_host", "workers", "kills"),
    [
        pytest.param("slice", "redis", 10, 12, 4, 3, id="slice"),
        pytest.param("soak", "redis", 30, 60, 8, 30, id="soak", marks=(pytest.mark.soak, pytest.mark.timeout(1200))),
        pytest.param("sqlite-soak", "sqlite", 20, 30, 6, 10, id="sqlite", marks=pytest.mark.soak),
    ],
)
@pytest.mark.soak
def test_an_address_has_no_more_than_its_limit_while_workers_are_killed(
    tmp_path, services, name, kind, hosts, pages_per_host, workers, kills
) -> None:
    """All hosts of the synthetic web have one address. It is learnt with each host's robots.txt, before its pages."""
    chance = random.Random(kills)
    spec = WebSpec(hosts=hosts, pages_per_host=pages_per_host, latency_seconds=0.1, seed=kills, blocks=0.0)
    settings = {"per_ip": PER_IP, "per_host": PER_HOST, "lease_seconds": LEASE_SECONDS}
    with served(spec, tmp_path / "web.log") as web:
        frontier = services.need("redis")["url"] if kind == "redis" else f"sqlite:{tmp_path / 'frontier.db'}"
        cluster = Cluster(tmp_path, web, [frontier], nodes=4, workers=workers - 3, settings=settings)
        with cluster.running():
            cluster.at_work()
            while len(cluster.faults) < kills and cluster.go_on(chance.uniform(0.3, 1.2)):
                cluster.kill_some(chance)
            cluster.finish(600)
        findings = cluster.report(f"addresses-{name}")
        pages = [hit.everywhere for hit in web.log() if hit.path != "/robots.txt"]
    assert len(findings.faults) >= (1 if name == "slice" else kills), "the crawl was over too soon"
    judge(findings, recovery_seconds=30.0)
    assert max(pages) == PER_IP, "as many as allowed, and never more"
    assert findings.most_in_flight <= PER_HOST, findings.text()
