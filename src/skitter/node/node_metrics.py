"""Metrics of one node: the counters of its workers, also of those that have ended."""

from __future__ import annotations

import time
from collections.abc import Iterator

from skitter.cluster.process_identity import resident_bytes
from skitter.observe import metrics
from skitter.observe.metrics import Sample
from skitter.observe.node_counters import GAUGES, LENGTH, NodeCounters, samples_of


class NodeMetrics:
    """Sums over all workers that this node has had: a worker that dies takes nothing along."""

    def __init__(self, build_info: Sample) -> None:
        self._build_info = build_info
        self._started_at = time.time()
        self._live: dict[NodeCounters, int] = {}
        self._ended = [0] * LENGTH
        self._workers_started = self._workers_died = self._leases_returned = 0

    def joined(self, counters: NodeCounters, pid: int = 0) -> None:
        """Read the counters of a worker from now on. ``pid``: of its process; 0: it is in this one."""
        self._live[counters] = pid
        self._workers_started += 1

    def left(self, counters: NodeCounters) -> None:
        """Keep what a worker has counted, which has ended."""
        if self._live.pop(counters, None) is not None:
            numbers = counters.read()
            for place in GAUGES:
                numbers[place] = 0
            self._ended = [before + number for before, number in zip(self._ended, numbers, strict=True)]

    def died(self, leases: int) -> None:
        """Count a worker that ended in the middle of its work, and the leases that it held."""
        self._workers_died += 1
        self._leases_returned += leases

    def samples(self) -> Iterator[Sample]:
        """Give out all series of the node."""
        rows = [self._ended, *(counters.read() for counters in self._live)]
        yield self._build_info
        yield Sample(metrics.NODE_STARTED, (), self._started_at)
        yield Sample(metrics.NODE_WORKERS, (), len(self._live))
        yield Sample(metrics.NODE_WORKERS_STARTED, (), self._workers_started)
        yield Sample(metrics.NODE_WORKERS_DIED, (), self._workers_died)
        yield Sample(metrics.NODE_RECOVERED, ("died",), self._leases_returned)
        yield Sample(metrics.NODE_MEMORY, ("supervisor",), resident_bytes())
        yield Sample(metrics.NODE_MEMORY, ("workers",), sum(resident_bytes(pid) for pid in self._live.values() if pid))
        yield from samples_of([sum(column) for column in zip(*rows, strict=True)])
