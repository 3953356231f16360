"""A cluster on one machine: nodes that believe to be machines of their own, whose workers write histories.

The first node runs ``skitter crawl`` and writes the results; each other one runs ``skitter worker --stay``. A node is a
process group: killing it leaves leases that nobody hands back. Killing a worker of the first node is its supervisor's
affair. Whatever is done to the cluster is noted as a fault, and at the end there is evidence.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rig.node import Node
from skitter.app.frontiers import open_frontier
from skitter.model.request import Fingerprinter
from skitter.model.url import canonical, host_key
from skitter.testing.history import Evidence, Fault, Findings, check, read_histories, still_held
from skitter.testing.web import Expected, ServedWeb

REPORTS = Path(__file__).resolve().parents[3] / "build" / "fault-report"
OUTPUT = "out.jsonl"
GOODBYE_SECONDS = 3.0


class Cluster:
    """``nodes`` nodes with ``workers`` workers on the first and one on each other."""

    def __init__(
        self,
        folder: Path,
        web: ServedWeb,
        frontiers: Sequence[str],
        *,
        nodes: int = 4,
        workers: int = 1,
        settings: dict[str, object],
        clocks: Sequence[float] = (),
        coordinators: Sequence[str] = (),
        coordinator_seconds: float = 10.0,
    ) -> None:
        """``frontiers``: one URL, or one for each node, and ``coordinators`` likewise, or none.

        ``clocks``: how wrong the clocks of the nodes are.
        """
        self.faults: list[Fault] = []
        self._folder = folder
        self._histories = folder / "histories"
        self._web = web
        # Tests share servers: what another one left behind is none of this one's business.
        self._job = f"faults-{uuid.uuid4().hex[:8]}"
        self._frontiers = [*frontiers, *[frontiers[-1]] * nodes]
        self._coordinators = [*coordinators, *[coordinators[-1]] * nodes] if coordinators else []
        self._coordinator_seconds = coordinator_seconds
        self._workers = workers
        self._settings = {"retry_delay_seconds": 0.05, "host_backoff_seconds": 0.2, "concurrency": 32} | settings
        wrong = [*clocks, *[0.0] * nodes]
        self.nodes = [Node(number, folder, self._histories, wrong[number]) for number in range(nodes)]

    # ---- its life

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Started, and ended with the block, however it is left."""
        settings = [word for name, value in self._settings.items() for word in ("--set", f"{name}={value}")]
        first, *others = self.nodes
        crawl = ("crawl", *self._web.urls, "-o", OUTPUT, "--workers", self._workers, "--json", *settings)
        first.start(*crawl, *self._place(first))
        for node in others:
            self._start_worker(node)
        try:
            yield
        finally:
            for node in self.nodes:
                node.kill()

    def _start_worker(self, node: Node) -> None:
        node.start("worker", "--stay", "--concurrency", self._settings["concurrency"], *self._place(node))

    def _place(self, node: Node) -> tuple[str, ...]:
        place = ("--frontier", self._frontiers[node.number], "--job", self._job)
        if not self._coordinators:
            return place
        coordinator = ("--coordinator", self._coordinators[node.number])
        return *place, *coordinator, "--set", f"coordinator_seconds={self._coordinator_seconds}"

    @property
    def is_over(self) -> bool:
        return self.nodes[0].process.poll() is not None

    def go_on(self, seconds: float) -> bool:
        """Leave it alone for a while; False: the crawl is over."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.nodes[0].process.wait(seconds)
        return not self.is_over

    def at_work(self) -> list[Node]:
        """The nodes whose workers hold leases now; waits until there is one. None: the crawl is over."""
        while not self.is_over:
            histories = read_histories(self._histories)
            busy = [
                node
                for node in self.nodes
                if any(still_held(histories.get(f"{node.process.pid}-{pid}", [])) for pid in node.workers())
            ]
            if busy:
                return busy
            time.sleep(0.05)
        return []

    def finish(self, seconds: float) -> None:
        """Wait for the end of the crawl, and end the others as an operator would."""
        first, *others = self.nodes
        try:
            code = first.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not finished after {seconds} s:\n{first.log()}") from None
        assert code == 0, first.log()
        for node in others:
            node.process.terminate()
        # What they still had to say is said by then; one that waits for a network that is gone is not waited for.
        for node in others:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(GOODBYE_SECONDS)

    # ---- what is done to it

    def note(self, what: str, at: float, processes: Sequence[str] = (), *, ends: bool = False) -> None:
        """Something was done at this time, to these, and is over now."""
        self.faults.append(Fault(what=what, at=at, until=time.monotonic(), processes=tuple(processes), ends=ends))

    def kill_some(self, chance: random.Random) -> None:
        """A whole node, or a worker of the first one: any of them, busy or not.

        Whoever waits for a worker that has just leased something hunts down the pages that are leased alone, until
        they are taken for what kills their workers (docs/adr/0012).
        """
        node = chance.choice([node for node in self.nodes if node.processes()] or self.nodes)
        if node is not self.nodes[0]:
            self._kill_node(node)
        elif workers := node.begun():
            self._kill_worker(node, chance.choice(workers))

    def kill_busy_node(self, chance: random.Random) -> None:
        """A whole node but the first, one that holds leases; waits until there is one."""
        while not (busy := [node for node in self.at_work() if node is not self.nodes[0]]):
            assert not self.is_over, "the crawl was over too soon"
        self._kill_node(chance.choice(busy))

    def _kill_worker(self, node: Node, pid: int) -> None:
        """kill -9 of one process: its supervisor sees it die."""
        at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.note("kill a worker", at, [f"{node.process.pid}-{pid}"], ends=True)

    def _kill_node(self, node: Node) -> None:
        """kill -9 of everything on the node: nobody sees it die. Another one takes its place."""
        at, processes = time.monotonic(), node.processes()
        node.kill()
        self.note("kill a node", at, processes, ends=True)
        self._start_worker(node)

    # ---- what comes of it

    def evidence(self) -> Evidence:
        expected = self._web.expected()
        states, counts = asyncio.run(self._last_word(expected))
        output = (self._folder / OUTPUT).read_text().splitlines()
        return Evidence(
            expected=expected,
            histories=read_histories(self._histories),
            faults=self.faults,
            states=states,
            unended=counts.queued + counts.delayed + counts.leased,
            output=[canonical(json.loads(line)["url"]) for line in output],
            hits=self._web.log(),
            urls=self._web.urls,
        )

    async def _last_word(self, expected: Expected) -> tuple[dict[str, str], Any]:
        frontier = open_frontier(self._frontiers[0], self._job, create=False)
        try:
            identity = Fingerprinter((await frontier.job()).secret)
            states = {}
            for url in expected.seen:
                trace = await frontier.trace(identity.fingerprint("GET", url), host_key(url))
                if trace is not None:
                    states[url] = trace.state
            stored = await frontier.check_consistency()
            assert not stored.findings, stored.findings
            return states, await frontier.counts()
        finally:
            await frontier.close()

    def report(self, name: str) -> Findings:
        """Check everything, and keep what was found."""
        findings = check(self.evidence())
        findings.write(REPORTS, name)
        return findings


def judge(findings: Findings, *, recovery_seconds: float) -> None:
    """The promises, whatever was done to the cluster."""
    told = findings.text()
    assert not findings.lost, told
    assert not findings.doubled, told
    assert not findings.stale_accepted, told
    assert not findings.unexpected, told
    assert findings.refetches <= findings.held_at_faults, told
    assert findings.released_seconds <= recovery_seconds, told
    assert findings.resumed_seconds <= recovery_seconds, told
