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
from skitter.model.session import LOGIN_NEED, SESSION_NEED
from skitter.model.worker import CALL_MICROSECONDS, CALLS, WaitsFor, WorkerHeartbeat, WorkerSeen


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
    """Its share of the current pages of all live workers, from 0 to 1."""
    problem: str
    """Reason why a node of a fleet skips the job; such a node is listed, but is not a worker."""
    member: str
    """Name of its node at the coordinator; empty if its node has no coordinator."""
    coordinator: str
    """Address of that coordinator, without credentials."""
    memory_bytes: int
    """Resident memory of its process; 0 if unknown."""


class NeedView(msgspec.Struct, frozen=True, kw_only=True):
    """A need of queued requests."""

    name: str
    queued: int
    workers: int
    """Number of live workers that can serve it now."""


class CallbackView(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one callback in this run."""

    name: str
    calls: int
    seconds: float
    """Total duration of all calls, including time that they waited."""
    longest_seconds: float
    """Duration of the longest call in a listed worker; 0 if none of them has called it."""


class ChangedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was changed while the job ran."""

    value: Any
    before: Any
    """Value of the command that started the job."""


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
    """Number of done pages that had not changed since they were last parsed, in a job that recrawls."""
    redirected: int
    failed: int
    excluded: int
    seen: int
    undelivered: int
    rejected: int
    dropped: dict[str, int]
    exact: bool
    workers: int
    """Number of live workers."""
    worker_list: list[WorkerView]
    callbacks: list[CallbackView]
    """Callbacks, the ones with the longest total time first."""
    pages_per_second: float
    overdue_seconds: float
    reason: str
    blocked_by: str
    paused_hosts: int
    """Hosts that an operator has paused."""
    needs: list[NeedView]
    """Most frequent needs of queued requests."""
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
    """Failed requests by class, of those classes that have any."""
    tally: dict[str, int]
    stats: dict[str, int]
    """Counters of the spider and its hooks, by name."""
    decisions: dict[str, int]
    """Number of decisions of hooks, by ``DECISION:REASON``."""
    awaits_close: bool
    """Whether the run is finished and its hook ``on_close`` has not yet completed."""
    intakes: list[IntakeSeen]
    """Intakes of the job. The job does not finish while one is open."""
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
    """How many live workers can serve a need now, as far as they have said so; sessions are the frontier's to serve."""
    words = {word for word in need.split() if not word.startswith((SESSION_NEED, LOGIN_NEED))}
    return sum(worker.heartbeat is not None and words <= {*worker.heartbeat.needs} for worker in live_workers(report))


def status_view(report: Report, frontier: str) -> StatusView:
    """The status of a job, of its report and the URL of its frontier."""
    job, counts = report.job, report.counts
    live = live_workers(report)
    together = sum(worker.heartbeat.pages_per_second for worker in live if worker.heartbeat)
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
        failed=counts.failed,
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
        paused_hosts=report.paused_hosts,
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
    heartbeats = [worker.heartbeat for worker in report.workers if worker.heartbeat]
    views = [
        CallbackView(
            name=name,
            calls=calls,
            seconds=report.tally.get(CALL_MICROSECONDS + name, 0) / 1e6,
            longest_seconds=max((heartbeat.longest_calls.get(name, 0.0) for heartbeat in heartbeats), default=0.0),
        )
        for key, calls in report.tally.items()
        if key.startswith(CALLS) and (name := key.removeprefix(CALLS))
    ]
    return sorted(views, key=lambda view: (-view.seconds, view.name))


def _blocked_by(report: Report, live: Sequence[WorkerSeen]) -> str:
    if any(sink.blocking for sink in report.sinks):
        return WaitsFor.SINK
    heartbeats = [worker.heartbeat for worker in live if worker.heartbeat is not None]
    waits = {heartbeat.waits_for for heartbeat in heartbeats}
    reasons = (WaitsFor.SINK, WaitsFor.PROXY, WaitsFor.PAUSED_HOSTS)
    return next((reason for reason in reasons if reason in waits), "")


def _waits_for(heartbeat: WorkerHeartbeat, report: Report) -> str:
    """Return why a worker has free slots, more exactly than it knows: the report tells of queues and hosts."""
    if heartbeat.waits_for != WaitsFor.READY_HOST:
        return heartbeat.waits_for
    if not report.counts.queued and not report.counts.delayed:
        return WaitsFor.LINKS
    return WaitsFor.DELAY if any(host.queued and host.due_seconds for host in report.hosts) else WaitsFor.READY_HOST


def _worker_view(worker: WorkerSeen, report: Report, *, alive: bool, together: float) -> WorkerView:
    heartbeat = worker.heartbeat or WorkerHeartbeat()
    return WorkerView(
        id=worker.id,
        leased=worker.leased,
        silent_seconds=worker.silent_seconds,
        alive=alive,
        host_name=heartbeat.host_name,
        pid=heartbeat.pid,
        version=heartbeat.version,
        spider=heartbeat.spider,
        started_at=heartbeat.started_at,
        doing=heartbeat.doing,
        in_flight=heartbeat.in_flight,
        slots=heartbeat.slots,
        waits_for=_waits_for(heartbeat, report),
        pages_per_second=heartbeat.pages_per_second,
        latency_seconds=heartbeat.latency_seconds,
        needs=list(heartbeat.needs),
        problem=heartbeat.problem,
        member=heartbeat.member,
        coordinator=heartbeat.coordinator,
        memory_bytes=heartbeat.memory_bytes,
        share=round(heartbeat.pages_per_second / together, 3) if alive and together else 0.0,
    )
