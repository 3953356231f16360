"""Invariants that hold after every step."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import msgspec
from hypothesis.stateful import invariant

from skitter.frontier.contract import Frontier
from skitter.model.host import Phase
from skitter.model.job import FailedRequest, State, Trace
from skitter.model.lease import Work
from skitter.model.page_record import KnownPage
from skitter.policy.politeness import PER_HOST
from skitter.testing.agreement.pair import Pair
from skitter.testing.agreement.strategies import ADDRESSES, HOST_OF


class Agreeing(Pair):
    """Invariants: both frontiers give the same report, and the report is consistent."""

    @invariant()
    def the_books_agree(self) -> None:
        if not hasattr(self, "settings"):
            return
        self.dig()
        report = self.agreed(self.report_of)
        counts = report.counts
        traces = self.loop.run_until_complete(self.traces_of(self.oracle, 0)).values()
        queued = Counter(trace.need for trace in traces if trace.need and trace.state == "queued")
        assert {need.name: need.queued for need in report.needs} == queued
        assert counts.seen == len(self.known)
        assert counts.failed == sum(report.errors.values())
        is_open = any(not intake.closed for intake in report.intakes)
        over = counts.unfinished == 0 and not report.job.seeding and not is_open
        assert (report.job.state is State.FINISHED) == over

    async def report_of(self, frontier: Frontier, _: int) -> Any:
        report = await frontier.report(100)
        state = await frontier.state()
        assert (state.state, state.run, state.reason) == (report.job.state, report.job.run, report.job.reason)
        assert await frontier.sinks() == report.sinks
        assert await frontier.workers() == report.workers
        assert await frontier.intakes() == report.intakes
        if not self.same_rate_samples:
            report = msgspec.structs.replace(report, pages_per_second=0.0)
        return msgspec.structs.replace(report, job=msgspec.structs.replace(report.job, secret=b""))

    @invariant()
    def every_request_is_where_the_other_says(self) -> None:
        if hasattr(self, "settings"):
            self.dig()
        traces = self.agreed(self.traces_of)
        in_flight: defaultdict[str, int] = defaultdict(int)
        for work, request_id in self.held:
            if work is Work.PAGE and traces[request_id].state == "leased":
                in_flight[HOST_OF[request_id]] += 1
        for trace in traces.values():
            if trace.host is not None:
                assert 0 <= in_flight[trace.host.key] <= trace.host.in_flight <= (self.settings["per_host"] or PER_HOST)

    @invariant()
    def addresses_are_counted_by_their_leases(self) -> None:
        per_ip = self.settings["per_ip"] if hasattr(self, "settings") else None
        if per_ip is None:
            return
        tables = self.store.tables
        job = tables.load_job()
        assert job is not None
        counted = Counter(lease.address for lease in tables._leases.values() if lease.address)  # noqa: SLF001
        assert counted == tables.loads(ADDRESSES)
        assert max(counted.values(), default=0) <= per_ip
        hosts = [host for host in self.hosts() if host.run == job.run]
        assert sum(host.phase is Phase.PARKED for host in hosts) == job.parked
        at: dict[Phase, Counter[tuple[str, str]]] = {phase: Counter() for phase in Phase}
        for host in hosts:
            at[host.phase].update((host.address, need) for need in host.tops())
        for address, need in at[Phase.PARKED]:
            # For each need, parked hosts become ready as soon as their address has free slots, unless other ready hosts
            # will use these slots.
            assert at[Phase.READY][address, need] >= per_ip - counted[address]

    async def traces_of(self, frontier: Frontier, _: int) -> dict[int, Trace]:
        traces = {}
        for request_id in sorted(self.known):
            trace = await frontier.trace(request_id, HOST_OF[request_id])
            assert trace is not None
            traces[request_id] = self.comparable_trace(trace)
        return traces

    @invariant()
    def known_pages_agree(self) -> None:
        if not hasattr(self, "settings"):
            return
        pages = self.agreed(self.known_pages_of)
        if self.settings["recrawl"] == "off":
            assert not pages
        else:
            assert self.known <= {page.id for page in pages}, "nothing that was added is forgotten"
            assert {page.id: page.due_at for page in pages if page.id in self.due_at} == self.due_at

    @staticmethod
    async def known_pages_of(frontier: Frontier, _: int) -> list[KnownPage]:
        found: list[KnownPage] = []
        while pages := await frontier.known_pages(found[-1].due_at if found else 0.0, math.inf, 4):
            found += sorted(pages, key=lambda page: (page.due_at, page.id))
        return found

    @invariant()
    def no_host_has_more_than_its_budget(self) -> None:
        """Check budgets that were set from the beginning; a lowered budget applies only to later leases."""
        if not hasattr(self, "settings") or self.has_other_budget or self.settings["max_pages_per_host"] is None:
            return
        for host in self.hosts():
            if host.run == self.run:
                assert host.pages <= self.settings["max_pages_per_host"]

    @invariant()
    def what_is_stored_is_consistent(self) -> None:
        """Check the oracle after each step, and the other frontier only at the end: its check may need many calls."""
        if hasattr(self, "settings"):
            self.is_consistent(self.oracle)

    def teardown(self) -> None:
        try:
            if hasattr(self, "settings"):
                self.is_consistent(self.other)
        finally:
            super().teardown()

    def is_consistent(self, frontier: Frontier) -> None:
        report = self.loop.run_until_complete(frontier.check_consistency())
        assert not report.findings, report.findings
        assert not report.unchecked, report.unchecked

    @invariant()
    def failures_agree(self) -> None:
        if hasattr(self, "settings"):
            self.dig()
            failed, others = self.each(lambda frontier, _: frontier.failures())
            if not self.order_across_hosts:
                failed.sort(key=lambda record: record.id)
                others.sort(key=lambda record: record.id)
            assert _without_positions(failed) == _without_positions(others)


def _without_positions(found: list[FailedRequest]) -> list[FailedRequest]:
    """Return the failed requests without their positions, which each frontier counts in its own way."""
    return [msgspec.structs.replace(one, position=0) for one in found]
