"""The status of a job: what ``skitter status --json`` shows, field by field."""

from __future__ import annotations

import msgspec

from skitter.cluster.process_identity import is_alive, live_workers
from skitter.model.job import HostSeen, Report, SinkSeen, State, seeding_problem
from skitter.model.secrets import shown_frontier
from skitter.model.worker import WorkerCard, WorkerSeen


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


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """A job at one instant."""

    job: str
    state: State
    run: int
    queued: int
    delayed: int
    leased: int
    done: int
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
    pages_per_second: float
    overdue_seconds: float
    reason: str
    blocked_by: str
    seeding: bool
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
    sinks: list[SinkSeen]
    hosts: list[HostSeen]
    crowded: list[HostSeen]

    @property
    def items(self) -> int:
        """Records that pages yielded; what could not be stored is not among them."""
        return self.tally.get("items", 0)

    @property
    def blocking(self) -> list[str]:
        """Targets because of which the outbox is full."""
        return [sink.target for sink in self.sinks if sink.blocking]

    @property
    def seeding_problem(self) -> str:
        """What kept the seeding from giving all seeds; empty: nothing did."""
        return seeding_problem(self.reason)


def status_view(report: Report, frontier: str) -> StatusView:
    """The status of a job, of its report and the URL of its frontier."""
    job, counts = report.job, report.counts
    return StatusView(
        job=job.spec.name,
        state=job.state,
        run=job.run,
        queued=counts.queued,
        delayed=counts.delayed,
        leased=counts.leased,
        done=counts.done,
        redirected=counts.redirected,
        dead=counts.dead,
        excluded=counts.excluded,
        seen=counts.seen,
        undelivered=report.undelivered,
        rejected=report.rejected,
        dropped=report.dropped,
        exact=report.exact,
        workers=len(live_workers(report)),
        worker_list=[_worker_view(worker, alive=is_alive(worker, job)) for worker in report.workers],
        pages_per_second=report.pages_per_second,
        overdue_seconds=report.overdue_seconds,
        reason=job.reason,
        blocked_by="sink" if any(sink.blocking for sink in report.sinks) else "",
        seeding=job.seeding,
        spider=job.spec.spider,
        seeds=job.spec.seeds,
        sitemaps=job.spec.sitemaps,
        version=job.spec.version,
        frontier=shown_frontier(frontier),
        started_at=job.started_at,
        ended_at=job.ended_at,
        errors={name: n for name, n in report.errors.items() if n},
        tally=report.tally,
        sinks=report.sinks,
        hosts=report.hosts,
        crowded=report.crowded,
    )


def _worker_view(worker: WorkerSeen, *, alive: bool) -> WorkerView:
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
    )
