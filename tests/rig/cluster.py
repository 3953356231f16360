"""A cluster on one machine: nodes that believe to be machines of their own, whose workers write histories.

The first node runs ``skitter crawl`` and writes the results; each other one runs ``skitter worker --stay``. A node is a
process group: killing it leaves leases that nobody hands back. Killing a worker of the first node is its supervisor's
affair. Whatever is done to the cluster is noted as a fault, and at the end there is evidence.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rig.node import Node
from rig.processes import HANG_SECONDS, wait_until
from rig.watched_web import WatchedWeb
from skitter.model.request import Fingerprinter
from skitter.model.url import canonical, host_key
from skitter.testing.frontiers import open_frontier
from skitter.testing.history import Event, Evidence, Fault, Findings, check, read_histories, still_held
from skitter.testing.history.events import What
from skitter.testing.web import Expected

REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"
OUTPUT = "out.jsonl"


class Cluster:
    """``nodes`` nodes with ``workers`` workers on the first and one on each other."""

    def __init__(
        self,
        folder: Path,
        web: WatchedWeb,
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
        self._pages = len(web.expected().done)
        # Tests share servers: what another one left behind is none of this one's business.
        self._job = f"faults-{uuid.uuid4().hex[:8]}"
        self._frontiers = [*frontiers, *[frontiers[-1]] * nodes]
        self._coordinators = [*coordinators, *[coordinators[-1]] * nodes] if coordinators else []
        self._coordinator_seconds = coordinator_seconds
        self._workers = workers
        self._settings = {"retry_delay_seconds": 0.05, "host_backoff_seconds": 0.2, "concurrency": 32} | settings
        # A web that is shut while a busy machine starts a process is no web that is down.
        self._settings.setdefault("timeout_seconds", 300.0)
        wrong = [*clocks, *[0.0] * nodes]
        self.nodes = [Node(number, folder, self._histories, wrong[number]) for number in range(nodes)]

    # ---- its life

    @contextlib.contextmanager
    def running(self, shut_from: float = math.inf) -> Iterator[None]:
        """Started, and ended with the block, however it is left. ``shut_from``: where the web is shut first."""
        self._web.gate.shut_from(shut_from)
        settings = [word for name, value in self._settings.items() for word in ("--set", f"{name}={value}")]
        first, *others = self.nodes
        crawl = ("crawl", *self._web.urls, "-o", OUTPUT, "--workers", self._workers, "--json", *settings)
        first.run(*crawl, *self._place(first))
        for node in others:
            self._start_worker(node)
        try:
            yield
        finally:
            self._web.gate.shut_from(math.inf)
            for node in self.nodes:
                node.kill()

    def _start_worker(self, node: Node) -> None:
        node.run("worker", "--stay", "--concurrency", self._settings["concurrency"], *self._place(node))

    def _place(self, node: Node) -> tuple[str, ...]:
        place = ("--frontier", self._frontiers[node.number], "--job", self._job)
        if not self._coordinators:
            return place
        coordinator = ("--coordinator", self._coordinators[node.number])
        return *place, *coordinator, "--set", f"coordinator_seconds={self._coordinator_seconds}"

    def check_running(self) -> None:
        """Fail if the crawl has ended."""
        first = self.nodes[0]
        assert first.is_running, f"the crawl was over too soon\n{first.log()[-5000:]}"

    @contextlib.contextmanager
    def shut_at(self, pages: int, then: float = math.inf) -> Iterator[None]:
        """Wait until so many pages were asked for, and answer nothing until the block ends. ``then``: shut again."""
        with self._web.gate.shut_at(pages, self.check_running, then):
            yield

    def go_on(self, pages: int) -> None:
        """Leave it alone until so many more pages were asked for, or until all were."""
        goal = min(self._web.gate.asked + pages, self._pages)
        self.until(lambda: self._web.gate.asked >= goal, f"{goal} pages")

    def until(self, question: Callable[[], object], what: str = "") -> None:
        """Wait until the answer is true, or the web is shut again, or the crawl is over."""
        wait_until(lambda: question() or self._web.gate.is_shut or not self.nodes[0].is_running, what=what)

    def held(self, node: Node) -> list[Event]:
        """The leases that a node has now."""
        histories = read_histories(self._histories)
        return [lease for pid in node.workers() for lease in still_held(histories.get(f"{node.process.pid}-{pid}", []))]

    def at_work(self) -> list[Node]:
        """The nodes whose workers hold leases now; waits until there is one."""
        found: list[Node] = wait_until(
            lambda: self.check_running() or [node for node in self.nodes if self.held(node)], what="a lease"
        )
        return found

    def others_at_work(self) -> list[Node]:
        """The same without the first node."""
        found: list[Node] = wait_until(
            lambda: [node for node in self.at_work() if node is not self.nodes[0]], what="a lease of another node"
        )
        return found

    def log(self) -> str:
        """What all nodes have said in their present lives."""
        return "\n".join(node.life_log() for node in self.nodes)

    def are_granted_again(self, leases: Sequence[Event]) -> bool:
        """Whether somebody has each of these now, or had it, after it was lost."""
        granted: dict[tuple[int, int], int] = {}
        for history in read_histories(self._histories).values():
            for event in history:
                if event.what is What.LEASED:
                    name = (event.work, event.id)
                    granted[name] = max(granted.get(name, 0), event.epoch)
        return all(granted[lease.work, lease.id] > lease.epoch for lease in leases)

    def finish(self) -> None:
        """Wait for the end of the crawl, and end the others as an operator would."""
        first, *others = self.nodes
        assert first.process.wait(2 * HANG_SECONDS) == 0, first.log()[-5000:]
        for node in others:
            node.process.terminate()
        for node in others:
            node.process.wait(HANG_SECONDS)

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
        else:
            self._kill_worker(node, chance.choice(wait_until(node.begun, node.process, "a worker")))

    def kill_busy_node(self, chance: random.Random) -> None:
        """A whole node but the first, one that holds leases; waits until there is one."""
        self._kill_node(chance.choice(self.others_at_work()))

    def kill_busy_worker(self, chance: random.Random) -> None:
        """A worker of the first node, one that holds leases; waits until there is one."""
        first = self.nodes[0]

        def busy() -> list[int]:
            histories = read_histories(self._histories)
            return [pid for pid in first.begun() if still_held(histories[f"{first.process.pid}-{pid}"])]

        self._kill_worker(first, chance.choice(wait_until(busy, first.process, "a lease")))

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
