"""What a crawl and its worker processes are told, and what it tells at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from skitter.model.job import Job, JobSpec
from skitter.observe.events import Level
from skitter.settings import Settings

if TYPE_CHECKING:
    # A worker process reads its part of this, and has no sinks.
    from skitter.sinks.targets import Target


class CrawlPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ``crawl`` needs to know."""

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
    """What a supervisor tells its children."""

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
    """How a crawl ended. Counts are the run's; seconds and rate are this command's."""

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
    no_seed_because: str = ""
    """Why none did, as far as one failure or exclusion tells: its class and message."""
    outputs: list[str] = []
    """Targets of the job; empty: its items are not kept."""
    signal: int
    """SIGINT or SIGTERM if that ended it, else 0."""
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


def job_settings(job: Job, run: dict[str, Any]) -> Settings:
    """Job-wide settings from the job, this node's own from its command line."""
    return Settings.from_layers([("the job", job.spec.settings), ("the command line", run)])


def trusting_own_code(settings: Settings) -> Settings:
    """Item functions that these settings name are trusted, although workers read their names from the store."""
    named = settings.items.item_functions.split(",")
    modules = [name.partition(":")[0].strip() for name in named if ":" in name]
    run = msgspec.structs.replace(settings.run, trusted_code=",".join([*settings.run.trusted, *modules]))
    return msgspec.structs.replace(settings, run=run)
