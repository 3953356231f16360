"""The status of a job: what ``skitter status --json`` shows, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.cluster.process_identity import is_alive, live_workers
from skitter.model.bloom_stats import BloomStats
from skitter.model.intake import IntakeSeen
from skitter.model.job import HostSeen, Report, SinkSeen, State, seeding_problem
from skitter.model.secrets import shown_frontier
from skitter.model.worker import CALL_MICROSECONDS, CALLS, WaitsFor, WorkerCard, WorkerSeen


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as its frontier knows it and as it tells of itself; see ``model.worker``."""

    id: str
    leased: int
    silent_seconds: float
    alive: bool
    host_name: str
    pid: int
    version: str
    spider: str
    started_at: float
    doing: str
    in_flight: int
    slots: int
    waits_for: str
    pages_per_second: float
    latency_seconds: float
    needs: list[str]
    """The needs that it can serve now."""
    share: float
    """Its part of the pages that all live workers do now, from 0 to 1."""
    problem: str
    """Why a node of a fleet skips the job; such a node is listed, and is no worker."""
    member: str
    """The node that it belongs to, by its name at the coordinator; empty: its node has none."""
    coordinator: str
    """Where that is."""


class NeedView(msgspec.Struct, frozen=True, kw_only=True):
    """A need of queued requests."""

    name: str
    queued: int
    workers: int
    """How many live workers can serve it now."""


class CallbackView(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one callback in this run."""

    name: str
    calls: int
    seconds: float
    """Of all calls together, waiting included."""
    longest_seconds: float
    """The longest call in a worker that is listed; 0 if none of them has called it."""


class ChangedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was changed while the job ran."""

    value: Any
    before: Any
    """The value that the job's command gave."""


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """A job at one instant."""

    job: str
    state: State
    run: int
    queued: int
    delayed: int
    leased: int
    done: int
    unchanged: int
    """Of those that are done, pages that had not changed since they were parsed, in a job that recrawls."""
    redirected: int
    dead: int
    excluded: int
    seen: int
    undelivered: int
    rejected: int
    dropped: dict[str, int]
    exact: bool
    workers: int
    """How many are alive."""
    worker_list: list[WorkerView]
    callbacks: list[CallbackView]
    """Those that took longest first."""
    pages_per_second: float
    overdue_seconds: float
    reason: str
    blocked_by: str
    needs: list[NeedView]
    """The needs that most queued requests have."""
    seeding: bool
    changed_settings: dict[str, ChangedSetting]
    """Settings that were changed while the job ran."""
    spider: str
    seeds: list[str]
    sitemaps: list[str]
    version: str
    frontier: str
    """Its URL, without a password."""
    started_at: float
    ended_at: float
    errors: dict[str, int]
    """Dead requests by class, of those classes that have any."""
    tally: dict[str, int]
    stats: dict[str, int]
    """What the spider and its hooks have counted, by name."""
    decisions: dict[str, int]
    """What hooks have decided, by ``DECISION:REASON``."""
    awaits_close: bool
    """The run is finished, and its hook ``on_close`` was not called to its end."""
    intakes: list[IntakeSeen]
    """The sources that requests come from; the job does not finish while one is open."""
    sinks: list[SinkSeen]
    hosts: list[HostSeen]
    crowded: list[HostSeen]
    dedup: BloomStats | None
    """The Bloom filter of pages that are done, with ``dedup=bloom``."""

    @property
    def items(self) -> int:
        """Records that pages yielded; what could not be stored is not among them."""
        return self.tally.get("items", 0)

    @property
    def blocking(self) -> list[str]:
        """Targets because of which the outbox is full."""
        return [sink.target for sink in self.sinks if sink.blocking]

    @property
    def waits_for_intakes(self) -> bool:
        """Nothing is left to do, and the job is not finished because an intake is open."""
        is_idle = not self.queued and not self.delayed and not self.leased and not self.seeding
        return is_idle and any(not intake.closed for intake in self.intakes)

    @property
    def seeding_problem(self) -> str:
        """What kept the seeding from giving all seeds; empty: nothing did."""
        return seeding_problem(self.reason)


def count_serving(report: Report, need: str) -> int:
    """How many live workers can serve a need now, as far as they have said so."""
    return sum(worker.card is not None and need in worker.card.needs for worker in live_workers(report))


def status_view(report: Report, frontier: str) -> StatusView:
    """The status of a job, of its report and the URL of its frontier."""
    job, counts = report.job, report.counts
    live = live_workers(report)
    together = sum(worker.card.pages_per_second for worker in live if worker.card)
    return StatusView(
        job=job.spec.name,
        state=job.state,
        run=job.run,
        queued=counts.queued,
        delayed=counts.delayed,
        leased=counts.leased,
        done=counts.done,
        unchanged=report.tally.get("unchanged", 0),
        redirected=counts.redirected,
        dead=counts.dead,
        excluded=counts.excluded,
        seen=counts.seen,
        undelivered=report.undelivered,
        rejected=report.rejected,
        dropped=report.dropped,
        exact=report.exact,
        workers=len(live),
        worker_list=[
            _worker_view(worker, report, alive=is_alive(worker, job), together=together) for worker in report.workers
        ],
        callbacks=_callbacks(report),
        pages_per_second=report.pages_per_second,
        overdue_seconds=report.overdue_seconds,
        reason=job.reason,
        blocked_by=_blocked_by(report, live),
        needs=[
            NeedView(name=need.name, queued=need.queued, workers=count_serving(report, need.name))
            for need in report.needs
        ],
        seeding=job.seeding,
        changed_settings={
            name: ChangedSetting(value=job.spec.settings[name], before=before)
            for name, before in job.spec.changed_from.items()
        },
        spider=job.spec.spider,
        seeds=job.spec.seeds,
        sitemaps=job.spec.sitemaps,
        version=job.spec.version,
        frontier=shown_frontier(frontier),
        started_at=job.started_at,
        ended_at=job.ended_at,
        errors={name: n for name, n in report.errors.items() if n},
        tally=report.tally,
        stats=report.stats,
        decisions=report.decisions,
        awaits_close=job.awaits_close,
        intakes=report.intakes,
        sinks=report.sinks,
        hosts=report.hosts,
        crowded=report.crowded,
        dedup=report.dedup,
    )


def _callbacks(report: Report) -> list[CallbackView]:
    cards = [worker.card for worker in report.workers if worker.card]
    views = [
        CallbackView(
            name=name,
            calls=calls,
            seconds=report.tally.get(CALL_MICROSECONDS + name, 0) / 1e6,
            longest_seconds=max((card.longest_calls.get(name, 0.0) for card in cards), default=0.0),
        )
        for key, calls in report.tally.items()
        if key.startswith(CALLS) and (name := key.removeprefix(CALLS))
    ]
    return sorted(views, key=lambda view: (-view.seconds, view.name))


def _blocked_by(report: Report, live: Sequence[WorkerSeen]) -> str:
    if any(sink.blocking for sink in report.sinks):
        return WaitsFor.SINK
    cards = [worker.card for worker in live if worker.card is not None]
    return WaitsFor.PROXY if any(card.waits_for == WaitsFor.PROXY for card in cards) else ""


def _waits_for(card: WorkerCard, report: Report) -> str:
    """Return why a worker has free slots, more exactly than it knows: the report tells of queues and hosts."""
    if card.waits_for != WaitsFor.READY_HOST:
        return card.waits_for
    if not report.counts.queued and not report.counts.delayed:
        return WaitsFor.LINKS
    return WaitsFor.DELAY if any(host.queued and host.due_seconds for host in report.hosts) else WaitsFor.READY_HOST


def _worker_view(worker: WorkerSeen, report: Report, *, alive: bool, together: float) -> WorkerView:
    card = worker.card or WorkerCard()
    return WorkerView(
        id=worker.id,
        leased=worker.leased,
        silent_seconds=worker.silent_seconds,
        alive=alive,
        host_name=card.host_name,
        pid=card.pid,
        version=card.version,
        spider=card.spider,
        started_at=card.started_at,
        doing=card.doing,
        in_flight=card.in_flight,
        slots=card.slots,
        waits_for=_waits_for(card, report),
        pages_per_second=card.pages_per_second,
        latency_seconds=card.latency_seconds,
        needs=list(card.needs),
        problem=card.problem,
        member=card.member,
        coordinator=card.coordinator,
        share=round(card.pages_per_second / together, 3) if alive and together else 0.0,
    )
