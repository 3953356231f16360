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
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from skitter.app.backends import open_frontier
from skitter.model.request import Fingerprinter
from skitter.model.url import canonical, host_key
from skitter.testing.history import Event, Evidence, Fault, Findings, check, read_histories, still_held
from skitter.testing.web import Expected, ServedWeb

HOOK = Path(__file__).parent / "hook"
REPORTS = Path(__file__).resolve().parents[3] / "build" / "fault-report"
JOB = "faults"
OUTPUT = "out.jsonl"
GOODBYE_SECONDS = 3.0


class Node:
    """One machine of the cluster, through the lives of its command."""

    def __init__(self, cluster: Cluster, number: int, frontier: str, clock_seconds: float) -> None:
        self.number = number
        self._cluster = cluster
        self._frontier = frontier
        self._clock_seconds = clock_seconds
        self._lives = 0

    def start(self, *command: object) -> None:
        """A machine that was lost comes back as another one: it knows nothing of what it was."""
        self._lives += 1
        name = f"node-{self.number}-{self._lives}"
        paths = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
        told = {"FAULT_NODE": name, "FAULT_HISTORY": str(self._cluster.histories), "PYTHONPATH": os.pathsep.join(paths)}
        if self._clock_seconds:
            told["FAULT_CLOCK"] = str(self._clock_seconds)
        arguments = [sys.executable, "-m", "skitter", *map(str, command), "--frontier", self._frontier, "--job", JOB]
        with (self._cluster.folder / f"{name}.log").open("w") as log:
            self.process = subprocess.Popen(
                arguments,
                cwd=self._cluster.folder,
                env=os.environ | told,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """To everything that runs on this node."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def workers(self) -> list[int]:
        """The worker processes that live now."""
        pid = self.process.pid
        with contextlib.suppress(OSError):
            return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    def log(self) -> str:
        """What it said in its last life."""
        return (self._cluster.folder / f"node-{self.number}-{self._lives}.log").read_text()

    def replace(self) -> None:
        """End everything on it, and start it anew."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self._cluster.start_worker(self)


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
    ) -> None:
        """``frontiers``: one URL, or one for each node; ``clocks``: how wrong the clocks of the nodes are."""
        self.folder = folder
        self.histories = folder / "histories"
        self.faults: list[Fault] = []
        self._web = web
        self._frontier = frontiers[0]
        self._workers = workers
        self._settings = {"retry_delay_seconds": 0.05, "host_backoff_seconds": 0.2, "concurrency": 32} | settings
        urls, wrong = [*frontiers, *[frontiers[-1]] * nodes], [*clocks, *[0.0] * nodes]
        self.nodes = [Node(self, number, urls[number], wrong[number]) for number in range(nodes)]

    # ---- its life

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Started, and ended with the block, however it is left."""
        settings = [word for name, value in self._settings.items() for word in ("--set", f"{name}={value}")]
        first, *others = self.nodes
        first.start("crawl", *self._web.urls, "-o", OUTPUT, "--workers", self._workers, "--json", *settings)
        for node in others:
            self.start_worker(node)
        try:
            yield
        finally:
            for node in self.nodes:
                node.signal(signal.SIGKILL)
                node.process.wait()

    def start_worker(self, node: Node) -> None:
        node.start("worker", "--stay", "--concurrency", self._settings["concurrency"])

    @property
    def is_over(self) -> bool:
        return self.nodes[0].process.poll() is not None

    def go_on(self, seconds: float) -> bool:
        """Leave it alone for a while; False: the crawl is over."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.nodes[0].process.wait(seconds)
        return not self.is_over

    def started(self) -> list[Node]:
        """The nodes whose workers have come so far as to ask for work."""
        return [node for node in self.nodes if self.processes_of(node)]

    def at_work(self) -> list[Node]:
        """The nodes whose workers hold leases now; waits until there is one. None: the crawl is over."""
        while not self.is_over:
            histories = read_histories(self.histories)
            busy = [
                node
                for node in self.nodes
                if any(self._is_at_work(node, process, history) for process, history in histories.items())
            ]
            if busy:
                return busy
            time.sleep(0.05)
        return []

    @staticmethod
    def _is_at_work(node: Node, process: str, history: list[Event]) -> bool:
        group, _, pid = process.partition("-")
        return int(group) == node.process.pid and int(pid) in node.workers() and bool(still_held(history))

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
        self.faults.append(
            Fault(what=what, at=at, until=time.monotonic(), processes=tuple(processes), ends=ends),
        )

    def processes_of(self, node: Node) -> list[str]:
        """The histories of the node's present life."""
        return [path.stem for path in self.histories.glob(f"{node.process.pid}-*.jsonl")]

    def kill_worker(self, node: Node, pid: int) -> None:
        """kill -9 of one process: its supervisor sees it die."""
        at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.note("kill a worker", at, [f"{node.process.pid}-{pid}"], ends=True)

    def kill_node(self, node: Node) -> None:
        """kill -9 of everything on the node: nobody sees it die. It is replaced."""
        at, processes = time.monotonic(), self.processes_of(node)
        node.replace()
        self.note("kill a node", at, processes, ends=True)

    def kill_some(self, chance: random.Random) -> None:
        """A whole node, or a worker of the first one: any of them, busy or not.

        Whoever waits for a worker that has just leased something hunts down the pages that are leased alone, until
        they are taken for what kills their workers (docs/adr/0012).
        """
        node = chance.choice(self.started() or self.nodes)
        if node is not self.nodes[0]:
            self.kill_node(node)
        else:
            begun = {int(process.partition("-")[2]) for process in self.processes_of(node)}
            if workers := begun.intersection(node.workers()):
                self.kill_worker(node, chance.choice(sorted(workers)))

    # ---- what comes of it

    def evidence(self) -> Evidence:
        expected = self._web.expected()
        states, counts = asyncio.run(self._last_word(expected))
        output = (self.folder / OUTPUT).read_text().splitlines()
        return Evidence(
            expected=expected,
            histories=read_histories(self.histories),
            faults=self.faults,
            states=states,
            unended=counts.queued + counts.delayed + counts.leased,
            output=[canonical(json.loads(line)["url"]) for line in output],
            hits=self._web.log(),
            urls=self._web.urls,
        )

    async def _last_word(self, expected: Expected) -> tuple[dict[str, str], Any]:
        frontier = open_frontier(self._frontier, JOB, create=False)
        try:
            identity = Fingerprinter((await frontier.job()).secret)
            states = {}
            for url in expected.seen:
                trace = await frontier.trace(identity.fingerprint("GET", url), host_key(url))
                if trace is not None:
                    states[url] = trace.state
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
