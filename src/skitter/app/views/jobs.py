"""The jobs of frontiers, and how they stand: what ``skitter jobs --json`` shows, one value each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import msgspec
from msgspec import UNSET, UnsetType

from skitter.app.frontiers import list_jobs, open_frontier
from skitter.cluster.process_identity import live_workers
from skitter.dedup import HyperLogLog
from skitter.errors import FormatError, FrontierError, JobError, SkitterError
from skitter.model.job import Report
from skitter.model.secrets import shown_frontier


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job. If it cannot be read, or has only a name, the figures are not set."""

    job: str
    frontier: str
    """Its URL, without a password."""
    state: str
    """A ``State``; ``unknown``: not yet begun, or partly dropped; ``unreadable``: see ``problem``."""
    problem: str | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    run: int | UnsetType = UNSET
    unfinished: int | UnsetType = UNSET
    done: int | UnsetType = UNSET
    failed: int | UnsetType = UNSET
    seen: int | UnsetType = UNSET
    workers: int | UnsetType = UNSET
    """Number of live workers."""
    pages_per_second: float | UnsetType = UNSET
    spider: str | UnsetType = UNSET
    """Spider of the job; empty: the built-in one."""
    started_at: float | UnsetType = UNSET
    ended_at: float | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    """Reason of the stop."""
    distinct: int | UnsetType = UNSET
    """Estimated number of distinct URLs done in all its runs, with ``--distinct``."""
    skipped_by: dict[str, str] | UnsetType = UNSET
    """Machines of a fleet that cannot serve the job, with the reason."""


class DistinctTotal:
    """The distinct URLs of several jobs: what two of them have done counts once."""

    def __init__(self) -> None:
        self._count = HyperLogLog()

    def add(self, registers: bytes) -> int:
        """Add those of a job; return its own count."""
        of_job = HyperLogLog.from_registers(registers)
        self._count.merge(of_job)
        return of_job.count()

    def count(self) -> int:
        """Return about how many they are."""
        return self._count.count()


async def jobs_of_frontiers(urls: Iterable[str], distinct: DistinctTotal | None = None) -> list[JobView]:
    """The jobs of several frontiers. One that cannot be read does not hide the others."""
    found: list[JobView] = []
    for url in urls:
        try:
            found += await jobs_of_frontier(url, distinct)
        except FrontierError as error:
            # Of a file whose jobs cannot be read: its name is that of the job whose file it is.
            found.append(problem_view(url, PurePath(url).stem, error))
    return found


async def jobs_of_frontier(url: str, distinct: DistinctTotal | None = None) -> list[JobView]:
    """The jobs of one frontier; FrontierError when it cannot be read at all. ``distinct``: count their URLs there."""
    return [await _job_view(url, name, distinct) for name in await list_jobs(url)]


async def _job_view(url: str, job: str, distinct: DistinctTotal | None) -> JobView:
    try:
        frontier = open_frontier(url, job, create=False)
        try:
            view = job_view(await frontier.report(0), url)
            if distinct is None:
                return view
            return msgspec.structs.replace(view, distinct=distinct.add(await frontier.distinct_urls()))
        finally:
            await frontier.close()
    except (JobError, FormatError) as error:
        return problem_view(url, job, error)


def job_view(report: Report, url: str) -> JobView:
    """A job, of its report and the URL of its frontier."""
    counts = report.counts
    heartbeats = [worker.heartbeat for worker in report.workers if worker.heartbeat is not None]
    return JobView(
        job=report.job.spec.name,
        frontier=shown_frontier(url),
        state=report.job.state,
        run=report.job.run,
        unfinished=counts.unfinished,
        done=counts.done,
        failed=counts.failed,
        seen=counts.seen,
        workers=len(live_workers(report)),
        pages_per_second=round(report.pages_per_second, 2),
        spider=report.job.spec.spider,
        started_at=report.job.started_at,
        ended_at=report.job.ended_at,
        reason=report.job.reason or UNSET,
        skipped_by={heartbeat.host_name: heartbeat.problem for heartbeat in heartbeats if heartbeat.problem} or UNSET,
    )


def problem_view(url: str, job: str, error: SkitterError) -> JobView:
    """A job that has only a name, or that cannot be read."""
    if isinstance(error, JobError):
        # ``skitter drop`` removes what there is of it.
        return JobView(job=job, frontier=shown_frontier(url), state="unknown")
    return JobView(job=job, frontier=shown_frontier(url), state="unreadable", problem=str(error), hint=error.hint)
