"""Nodes with a coordinator: a lost machine gives its pages back at once, and one that is cut off does no harm.

Each node believes to be a machine of its own, so that nobody can see by a process whether its workers live, and a lease
lasts 30 seconds. What comes back earlier comes back because of the coordinator.
"""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from rig.cluster import Cluster, judge
from rig.node import HOOK, Node
from rig.proxy import Proxy

from skitter.testing.history import read_histories
from skitter.testing.history.events import What
from skitter.testing.web import WebSpec, served

LEASE_SECONDS = 30.0
SESSION_SECONDS = 3.0
SOON_SECONDS = 15.0
"""Far from the length of a lease, and what a machine with too much to do needs at most; usual are 3 to 4."""
PER_HOST = 2
DELAY_SECONDS = 0.3


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


@pytest.mark.parametrize("kind", ["redis", "zookeeper", pytest.param("sqlite", marks=pytest.mark.soak)])
def test_the_pages_of_a_killed_machine_return_within_the_time_of_a_session(tmp_path, services, kind) -> None:
    chance = random.Random(kind)
    spec = WebSpec.plain(hosts=10, pages_per_host=8, latency_seconds=0.5)
    settings = {"lease_seconds": LEASE_SECONDS, "per_host": PER_HOST, "delay_seconds": DELAY_SECONDS}
    with served(spec, tmp_path / "web.log") as web:
        cluster = Cluster(
            tmp_path,
            web,
            [services.need("redis")["url"]],
            nodes=3,
            settings=settings,
            coordinators=[coordinator(kind, services, tmp_path)],
            coordinator_seconds=SESSION_SECONDS,
        )
        with cluster.running():
            cluster.kill_busy_node(chance)
            cluster.finish(100)
        findings = cluster.report(f"coordinator-kill-{kind}")
    assert findings.held_at_faults, "the node that was killed held something"
    judge(findings, recovery_seconds=SOON_SECONDS)
    assert findings.smallest_gap_seconds >= 0.9 * DELAY_SECONDS, findings.text()
    assert findings.most_in_flight <= PER_HOST, findings.text()


@pytest.mark.parametrize("kind", ["zookeeper", pytest.param("redis", marks=pytest.mark.soak)])
def test_a_living_node_that_is_cut_off_from_the_coordinator_starts_nothing_and_goes_on_when_it_is_back(
    tmp_path, services, kind
) -> None:
    """The node keeps its frontier: without the coordinator's rule it would go on, beside those who have its pages."""
    service = services.need(kind)
    spec = WebSpec.plain(hosts=6, pages_per_host=36, latency_seconds=0.3)
    settings = {"lease_seconds": LEASE_SECONDS, "per_host": PER_HOST, "delay_seconds": DELAY_SECONDS}
    root = f"/{uuid.uuid4().hex}" if kind == "zookeeper" else f"?namespace={uuid.uuid4().hex}"
    with served(spec, tmp_path / "web.log") as web, Proxy("127.0.0.1", service["port"], seed=1) as line:
        urls = [f"{kind}://127.0.0.1:{service['port']}{root}", line.url.replace("redis://", f"{kind}://") + root]
        cluster = Cluster(
            tmp_path,
            web,
            [services.need("redis")["url"]],
            nodes=2,
            settings=settings,
            coordinators=urls,
            coordinator_seconds=SESSION_SECONDS,
        )
        victim = cluster.nodes[1]
        with cluster.running():
            while not sent_by(victim, tmp_path):
                assert cluster.go_on(0.05), "the crawl was over too soon"
            at, processes = time.monotonic(), victim.processes()
            line.black_hole(opens=True)
            line.cut()
            assert cluster.go_on(1.5 * SESSION_SECONDS), "the crawl was over too soon"
            line.black_hole(opens=False)
            line.cut()
            back_at = time.monotonic()
            cluster.note("cut off from the coordinator", at, processes)
            cluster.finish(100)
        sent = sent_by(victim, tmp_path)
        findings = cluster.report(f"coordinator-cut-{kind}")
    judge(findings, recovery_seconds=SOON_SECONDS)
    assert findings.smallest_gap_seconds >= 0.9 * DELAY_SECONDS, findings.text()
    assert findings.most_in_flight <= PER_HOST, findings.text()
    # Two thirds of the session after the last renewal, which was before the cut.
    assert not [one for one in sent if at + SESSION_SECONDS * 2 / 3 + 0.2 < one < back_at]
    assert [one for one in sent if one > back_at], "it went on"
    log = victim.log()
    assert "the coordinator is suspended" in log
    assert "left: its node has lost the coordinator" in log
    assert "the coordinator is connected" in log


@pytest.mark.soak
def test_a_machine_that_stands_still_for_longer_than_a_session_loses_its_pages_and_does_no_harm(
    tmp_path, services
) -> None:
    spec = WebSpec.plain(hosts=6, pages_per_host=40, latency_seconds=0.3)
    settings = {"lease_seconds": LEASE_SECONDS, "per_host": PER_HOST, "delay_seconds": DELAY_SECONDS}
    with served(spec, tmp_path / "web.log") as web:
        cluster = Cluster(
            tmp_path,
            web,
            [services.need("redis")["url"]],
            nodes=2,
            settings=settings,
            coordinators=[coordinator("redis", services, tmp_path)],
            coordinator_seconds=SESSION_SECONDS,
        )
        victim = cluster.nodes[1]
        with cluster.running():
            while not sent_by(victim, tmp_path):
                assert cluster.go_on(0.05), "the crawl was over too soon"
            at, processes = time.monotonic(), victim.processes()
            victim.signal(signal.SIGSTOP)
            assert cluster.go_on(SESSION_SECONDS + 2), "the crawl was over too soon"
            victim.signal(signal.SIGCONT)
            cluster.note("stop a node", at, processes)
            cluster.finish(100)
        findings = cluster.report("coordinator-stop")
    judge(findings, recovery_seconds=SOON_SECONDS)
    assert findings.smallest_gap_seconds >= 0.9 * DELAY_SECONDS, findings.text()


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
    place = (*place, "--set", "coordinator_seconds=1")
    machines = []

    def machine(*command: object) -> Any:
        name = f"machine-{len(machines)}"
        environment = os.environ | {"PYTHONPATH": str(HOOK), "FAULT_NODE": name}
        machines.append(skitter.start(*command, *place, env=environment))
        return machines[-1]

    began = time.monotonic()
    with served(WebSpec.plain(hosts=1, pages_per_host=120)) as web:
        skitter.run("submit", "poison.py", "-a", f"base={web.urls[0]}", *place[:4], "--per-host", 64)
        while True:
            process = machine("worker")
            process.communicate(timeout=60)
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL
    status = skitter.json("status", *place[:4])
    assert (status["state"], status["done"], status["failed"]) == ("finished", 99, 1)
    assert status["errors"] == {"lost": 1}
    assert len(machines) == 7, "two losses among others, four alone, and one that finishes"
    assert time.monotonic() - began < 6 * LEASE_SECONDS
