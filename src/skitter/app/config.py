"""The configuration of a crawl and of its worker processes, and the summary of a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from skitter.model.job import Begun, Job, JobSpec, Report
from skitter.observe.events import Level
from skitter.settings import Settings

if TYPE_CHECKING:
    # A worker process reads its part of this, and has no sinks.
    from skitter.sinks.targets import Target


class CrawlConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a crawl needs: the job, its frontier, settings and outputs."""

    spec: JobSpec
    frontier: str
    settings: Settings
    outputs: list[Target] = []
    """In the order given; each place once."""
    sink_password: str | None = None
    """For targets that the run remembers: a password is not kept with it."""
    fresh: bool = False
    verbosity: int = 0
    event_level: int = Level.INFO
    """Events that matter less are not even told to this process."""


class WorkerConfig(msgspec.Struct, kw_only=True):
    """Everything that a worker process needs; its supervisor writes it to its standard input."""

    frontier: str
    job: str
    spider: str = ""
    run: dict[str, Any]
    """The group ``run`` of the settings: this node's own."""
    stay: bool = False
    verbosity: int = 0
    event_level: int = Level.INFO
    url_table: int = -1
    """A file descriptor of what this node's workers know together."""


class Summary(msgspec.Struct, kw_only=True):
    """How a crawl ended. Counts are the run's; seconds and rate are this node's."""

    job: str
    state: str
    run: int
    pages: int
    items: int
    redirected: int
    failed: int
    excluded: int
    duplicates: int
    bytes: int
    seconds: float
    pages_per_second: float
    seeds_done: bool
    """At least one seed led to a page."""
    signal: int
    """SIGINT or SIGTERM if that ended it, else 0. Set by whoever handles signals: a node does not."""
    blocked_by: str
    undelivered: int
    rejected: int
    """Items that could not be stored or written; they are in the rejects files."""
    dropped: dict[str, int]
    """Items that item functions have dropped, by reason."""
    errors: dict[str, int]
    reason: str
    begun: str
    """new, resumed, rerun or joined."""


def summary_of(report: Report, begun: Begun, seconds: float, done_before: int) -> Summary:
    """The summary of a node that ran for ``seconds`` and found ``done_before`` pages done at its start."""
    counts, tally = report.counts, report.tally
    rate = max(0, counts.done - done_before) / seconds if seconds else 0.0
    return Summary(
        job=report.job.spec.name,
        state=report.job.state,
        run=report.job.run,
        pages=counts.done,
        items=report.items,
        rejected=report.rejected,
        dropped=report.dropped,
        redirected=counts.redirected,
        failed=counts.dead,
        excluded=counts.excluded,
        duplicates=tally.get("duplicates", 0),
        bytes=tally.get("bytes", 0),
        seconds=round(seconds, 3),
        pages_per_second=round(rate, 1),
        seeds_done=counts.done > 0,
        signal=0,
        blocked_by="sink" if any(sink.blocking for sink in report.sinks) else "",
        undelivered=report.undelivered,
        errors=report.errors,
        reason=report.job.reason,
        begun=begun,
    )


def job_settings(job: Job, run: dict[str, Any]) -> Settings:
    """Job-wide settings from the job, this node's own from its command line."""
    return Settings.from_layers([("the job", job.spec.settings), ("the command line", run)])


def trusting_own_code(settings: Settings) -> Settings:
    """Item functions that these settings name are trusted, although workers read their names from the store."""
    named = settings.items.item_functions.split(",")
    modules = [name.partition(":")[0].strip() for name in named if ":" in name]
    run = msgspec.structs.replace(settings.run, trusted_code=",".join([*settings.run.trusted, *modules]))
    return msgspec.structs.replace(settings, run=run)
