"""Nodes with a coordinator: a lost machine gives its pages back at once, and one that is cut off does no harm.

Each node believes to be a machine of its own, so that nobody can see by a process whether its workers live, and a lease
lasts ten minutes. What comes back earlier comes back because of the coordinator.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from rig.cluster import Cluster, judge
from rig.node import Node, on_machine
from rig.processes import HANG_SECONDS, wait_until
from rig.relay import Relay
from rig.soak import chance_of
from rig.watched_web import WatchedWeb, watched
from skitter.testing.history import Findings, read_histories
from skitter.testing.history.events import What
from skitter.testing.web import WebSpec, served

LEASE_SECONDS = 600.0
SESSION_SECONDS = 5.0
SOON_SECONDS = 120.0
"""Far from the length of a lease, and more than a machine with too much to do needs; usual are 5 to 6."""
PER_HOST = 2
DELAY_SECONDS = 0.3
SETTINGS = {"lease_seconds": LEASE_SECONDS, "per_host": PER_HOST, "delay_seconds": DELAY_SECONDS, "concurrency": 2}
"""No worker has so many leases that the others find none while the web is shut."""
SPEC = WebSpec.plain(hosts=12, pages_per_host=4, latency_seconds=0.02)
LEAST_GAP_SECONDS = DELAY_SECONDS / 2
"""On a busy machine a worker is held up between the instant that it may send and its stamp."""


def coordinator(kind: str, services: Any, folder: Path) -> str:
    match kind:
        case "sqlite":
            return f"sqlite:{folder / 'coordinator.db'}"
        case "redis":
            return f"{services.need('redis')['url']}?namespace={uuid.uuid4().hex}"
        case _:
            return f"{services.need('zookeeper')['url']}/{uuid.uuid4().hex}"


def sent_by(node: Node, folder: Path) -> list[float]:
    """When its workers have sent requests."""
    histories = read_histories(folder / "histories")
    own = (history for process, history in histories.items() if process.startswith(f"{node.process.pid}-"))
    return [event.at for history in own for event in history if event.what is What.SENT]


def cluster_of(nodes: int, folder: Path, web: WatchedWeb, services: Any, coordinators: list[str]) -> Cluster:
    return Cluster(
        folder,
        web,
        [services.need("redis")["url"]],
        nodes=nodes,
        settings=SETTINGS,
        coordinators=coordinators,
        coordinator_seconds=SESSION_SECONDS,
    )


def judge_politely(findings: Findings) -> None:
    judge(findings, recovery_seconds=SOON_SECONDS)
    assert findings.smallest_gap_seconds is not None
    assert findings.smallest_gap_seconds >= LEAST_GAP_SECONDS, findings.text()


@pytest.mark.parametrize(
    "kind", ["zookeeper", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("redis", "sqlite"))]
)
def test_the_pages_of_a_killed_machine_return_within_the_time_of_a_session(tmp_path, services, kind) -> None:
    with watched(SPEC) as web:
        cluster = cluster_of(2, tmp_path, web, services, [coordinator(kind, services, tmp_path)])
        with cluster.running(12):
            with cluster.shut_at(12):
                cluster.kill_busy_node(chance_of(kind))
            cluster.finish()
        findings = cluster.report(f"coordinator-kill-{kind}")
    assert findings.held_at_faults, "the node that was killed held something"
    judge_politely(findings)
    # Where a node gives requests up while the web is shut, the web learns of it too late to count what is in flight.
    assert findings.most_in_flight <= PER_HOST, findings.text()


@pytest.mark.parametrize("kind", ["zookeeper", pytest.param("redis", marks=pytest.mark.soak)])
def test_a_living_node_that_is_cut_off_from_the_coordinator_starts_nothing_and_goes_on_when_it_is_back(
    tmp_path, services, kind
) -> None:
    """The node keeps its frontier: without the coordinator's rule it would go on, beside those who have its pages."""
    service = services.need(kind)
    root = f"/{uuid.uuid4().hex}" if kind == "zookeeper" else f"?namespace={uuid.uuid4().hex}"
    with watched(SPEC) as web, Relay("127.0.0.1", service["port"]) as line:
        urls = [f"{kind}://{address}{root}" for address in (f"127.0.0.1:{service['port']}", line.address)]
        cluster = cluster_of(2, tmp_path, web, services, urls)
        other, victim = cluster.nodes
        with cluster.running(8):
            with cluster.shut_at(8, then=16):
                wait_until(lambda: sent_by(victim, tmp_path), victim.process, "a request of the node")
                at, processes = time.monotonic(), victim.processes()
                line.black_hole(opens=True)
                line.cut()
            with cluster.shut_at(16, then=32):
                wait_until(lambda: "left: its node has lost the coordinator" in victim.log(), victim.process, "it left")
                left_at = time.monotonic()
            # Now the other one crawls alone.
            with cluster.shut_at(32):
                line.black_hole(opens=False)
                line.cut()
                back_at = time.monotonic()
                cluster.note("cut off from the coordinator", at, processes)
                wait_until(lambda: "the coordinator is connected" in victim.log(), victim.process, "the node is back")
                wait_until(lambda: sent_by(victim, tmp_path)[-1] > back_at, victim.process, "it goes on")
            cluster.finish()
        sent = sent_by(victim, tmp_path)
        findings = cluster.report(f"coordinator-cut-{kind}")
    judge_politely(findings)
    assert not [one for one in sent if left_at < one < back_at]
    assert [one for one in sent_by(other, tmp_path) if left_at < one < back_at]
    assert "the coordinator is suspended" in victim.log()


@pytest.mark.soak
def test_a_machine_that_stands_still_for_longer_than_a_session_loses_its_pages_and_does_no_harm(
    tmp_path, services
) -> None:
    with watched(SPEC) as web:
        cluster = cluster_of(2, tmp_path, web, services, [coordinator("redis", services, tmp_path)])
        victim = cluster.nodes[1]
        with cluster.running(12):
            with cluster.shut_at(12):
                wait_until(lambda: cluster.held(victim), victim.process, "a lease of the node")
                at, processes = time.monotonic(), victim.processes()
                victim.signal(signal.SIGSTOP)
                held = cluster.held(victim)
            cluster.until(lambda: cluster.are_granted_again(held), "others have what it held")
            victim.signal(signal.SIGCONT)
            cluster.note("stop a node", at, processes)
            cluster.finish()
        findings = cluster.report("coordinator-stop")
    judge_politely(findings)


SPIDER = """
    import os
    import signal

    from skitter import Request, Spider


    class Poison(Spider):
        name = "poison"

        def start(self):
            for number in range(1, 101):
                yield Request(f"{self.base}p/{number}")

        def parse(self, response):
            number = int(response.url.rsplit("/", 1)[1])
            if number == 17:
                os.killpg(0, signal.SIGKILL)
            yield {"number": number}
"""


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["redis", "zookeeper"])
def test_a_page_that_kills_its_machine_every_time_is_dead_in_the_end(skitter, services, kind) -> None:
    """Each machine is another one: nobody but the coordinator knows that it is gone."""
    skitter.write("poison.py", SPIDER)
    job, frontier = f"poison-{uuid.uuid4().hex[:8]}", services.need("redis")["url"]
    place = ("--job", job, "--frontier", frontier, "--coordinator", coordinator(kind, services, skitter.folder))
    place = (*place, "--set", "coordinator_seconds=1", "--set", f"lease_seconds={LEASE_SECONDS}")
    machines = []

    def machine(*command: object) -> Any:
        name = f"machine-{len(machines)}"
        environment = os.environ | on_machine(name)
        machines.append(skitter.start(*command, *place, env=environment))
        return machines[-1]

    with served(WebSpec.plain(hosts=1, pages_per_host=120)) as web:
        skitter.run("submit", "poison.py", "-a", f"base={web.urls[0]}", *place[:4], "--per-host", 64)
        while True:
            process = machine("worker")
            process.communicate(timeout=HANG_SECONDS)
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL
    status = skitter.json("status", *place[:4])
    assert (status["state"], status["done"], status["failed"]) == ("finished", 99, 1)
    assert status["errors"] == {"lost": 1}
    assert len(machines) == 7, "two losses among others, four alone, and one that finishes"
