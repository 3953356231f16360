"""Politeness under kills, by stamps that the workers take just before each send, with the server's log beside (G4)."""

from __future__ import annotations

import math

import pytest

from rig.cluster import Cluster, judge
from rig.killed_crawl import by_chance, spread
from rig.soak import chance_of
from rig.watched_web import WatchedWeb, watched
from skitter.testing.web import WebSpec

TOLERANCE_SECONDS = 0.010
PER_HOST = 2
PER_IP = 3
LEASE_SECONDS = 3.0
in_full = (pytest.mark.soak, pytest.mark.timeout(1200))


def killed(cluster: Cluster, web: WatchedWeb, kills: int, *, in_full: bool) -> None:
    """Run the crawl with so many kills."""
    pages, chance = len(web.expected().done), chance_of(kills)
    moments = by_chance(chance, kills, pages * 9 // 10) if in_full else spread(kills, pages * 2 // 3)
    kill = cluster.kill_some if in_full else cluster.kill_busy_node
    with cluster.running(moments[0]):
        for moment, then in zip(moments, [*moments[1:], math.inf], strict=True):
            with cluster.shut_at(moment, then):
                kill(chance)
        cluster.finish()


@pytest.mark.parametrize(
    ("name", "delay", "hosts", "pages_per_host", "workers", "kills"),
    [
        pytest.param("slice", 0.3, 12, 4, 2, 1, id="slice"),
        pytest.param("paced", 0.05, 10, 80, 4, 4, id="paced", marks=in_full),
        pytest.param("soak", 0.3, 50, 100, 8, 30, id="soak", marks=in_full),
        pytest.param("paced-soak", 0.02, 20, 800, 8, 30, id="paced-soak", marks=in_full),
    ],
)
def test_no_gap_is_below_the_delay_while_workers_are_killed(
    tmp_path, services, name, delay, hosts, pages_per_host, workers, kills
) -> None:
    """An answer takes longer than the delay. In the soak, three nodes have a worker each, the others one supervisor.

    A delay of 0.3 s is kept by the store, a shorter one by the worker that was granted last.
    """
    # No blocks: a host that pauses proves nothing about the delay.
    spec = WebSpec(hosts=hosts, pages_per_host=pages_per_host, latency_seconds=1.5 * delay, seed=kills, blocks=0.0)
    is_slice = name == "slice"
    if is_slice:
        spec = WebSpec.plain(hosts=hosts, pages_per_host=pages_per_host, latency_seconds=1.5 * delay)
    per_host = PER_HOST if delay == 0.3 else 8
    settings = {"delay_seconds": delay, "per_host": per_host, "lease_seconds": LEASE_SECONDS}
    if is_slice:
        settings |= {"concurrency": 3, "lease_seconds": 5.0}
    with watched(spec) as web:
        nodes = min(4, workers)
        options = {"nodes": nodes, "workers": workers - nodes + 1, "settings": settings}
        cluster = Cluster(tmp_path, web, [services.need("redis")["url"]], **options)
        killed(cluster, web, kills, in_full=not is_slice)
        findings = cluster.report(f"politeness-{name}")
    assert len(findings.faults) == kills
    # What was lost stands behind what its host has queued meanwhile.
    judge(findings, recovery_seconds=60.0 + 2 * pages_per_host * delay)
    assert findings.smallest_gap_seconds is not None
    # On a busy machine a worker is held up between the instant that it may send and its stamp: a slice looks for gaps
    # that nobody has kept.
    least = delay / 2 if is_slice else delay - min(TOLERANCE_SECONDS, delay / 20)
    assert findings.smallest_gap_seconds >= least, findings.text()
    if not is_slice:
        # Where the store keeps the delay, a handshake counts: on loopback it takes no time worth mentioning, if the
        # machine has any to spare.
        assert findings.smallest_gap_of_sends_seconds is not None
        assert findings.smallest_gap_of_sends_seconds >= least, findings.text()
    assert findings.most_in_flight <= per_host, findings.text()


@pytest.mark.parametrize(
    ("name", "kind", "hosts", "pages_per_host", "workers", "kills"),
    [
        pytest.param("few", "redis", 10, 12, 4, 3, id="few"),
        pytest.param("soak", "redis", 30, 60, 8, 30, id="soak", marks=pytest.mark.timeout(1200)),
        pytest.param("sqlite-soak", "sqlite", 20, 30, 6, 10, id="sqlite"),
    ],
)
@pytest.mark.soak
def test_an_address_has_no_more_than_its_limit_while_workers_are_killed(
    tmp_path, services, name, kind, hosts, pages_per_host, workers, kills
) -> None:
    """All hosts of the synthetic web have one address. It is learnt with each host's robots.txt, before its pages."""
    spec = WebSpec(hosts=hosts, pages_per_host=pages_per_host, latency_seconds=0.1, seed=kills, blocks=0.0)
    settings = {"per_ip": PER_IP, "per_host": PER_HOST, "lease_seconds": LEASE_SECONDS}
    with watched(spec) as web:
        frontier = services.need("redis")["url"] if kind == "redis" else f"sqlite:{tmp_path / 'frontier.db'}"
        cluster = Cluster(tmp_path, web, [frontier], nodes=4, workers=workers - 3, settings=settings)
        killed(cluster, web, kills, in_full=True)
        findings = cluster.report(f"addresses-{name}")
        pages = [hit.everywhere for hit in web.log() if hit.path != "/robots.txt"]
    assert len(findings.faults) == kills
    judge(findings, recovery_seconds=30.0)
    assert max(pages) == PER_IP, "as many as allowed, and never more"
    assert findings.most_in_flight <= PER_HOST, findings.text()
