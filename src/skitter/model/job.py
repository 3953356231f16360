"""Job: one named crawl, with its state, counts, report, failed requests and outbox items."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from skitter.errors import JobError, SettingsError, UsageError
from skitter.model.bloom_stats import BloomStats
from skitter.model.counters import decisions_of, stats_of
from skitter.model.intake import IntakeSeen
from skitter.model.worker import WorkerSeen
from skitter.settings import Settings


class State(enum.StrEnum):
    """State of a job, the same for all its workers."""

    RUNNING = "running"
    PAUSED = "paused"
    """Nothing is leased; requests in flight may end."""
    DRAINING = "draining"
    """The job is stopping, and waits for the requests in flight. Nothing is leased."""
    STOPPED = "stopped"
    """Stopped by command or by a limit; ``crawl`` resumes it."""
    FINISHED = "finished"
    """Nothing is queued, delayed or leased, the seeding is over and no intake is open."""


class Command(enum.StrEnum):
    """Commands of an operator to a job."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


class StopReason(enum.StrEnum):
    """Reason why a job is stopped or draining, in ``Job.reason``."""

    MAX_PAGES = "max_pages"
    COMMAND = "command"
    CLOSE_AFTER_ITEMS = "close_after_items"
    CLOSE_AFTER_ERRORS = "close_after_errors"
    CLOSE_AFTER_SECONDS = "close_after_seconds"


LIMITS = frozenset(StopReason) - {StopReason.COMMAND}
"""Reasons that are settings of the job, as opposed to a command of an operator."""


class CloseClaim(enum.StrEnum):
    """Answer of ``claim_close``: which process calls ``on_close``."""

    MINE = "mine"
    """The caller, which must call it."""
    OTHERS = "others"
    """Another process, which has given a sign of life recently."""
    NONE = "none"
    """No process: it was called, the job is not finished, or it has no such hook."""


def seeding_problem(reason: str) -> str:
    """Return the seeding problem in a ``Job.reason``; empty if there was none.

    Stores keep one text for both: a StopReason, or the error of ``start()``.
    """
    return "" if reason in tuple(StopReason) else reason


RUN_KEYS_KEPT = 32
"""Number of run keys that a job remembers. A late command with an older key would begin a new run."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Definition of a job: spider, seeds, arguments and settings."""

    name: str
    spider: str
    """Reference of the spider that workers on other machines can load; empty: the built-in spider."""
    seeds: list[str] = []
    """URLs typed on the command line."""
    sitemaps: list[str] = []
    """Sitemaps typed on the command line; they are seeds too."""
    arguments: dict[str, str] = {}
    settings: dict[str, Any] = {}
    """Current job-wide settings (``Settings.job_wide()``)."""
    changed_from: dict[str, Any] = {}
    """Original values, from the command, of settings that were changed while the job ran."""
    version: str = ""
    """Version of skitter that began or last resumed the run; empty if unknown."""
    code: str = ""
    """Hash of the spider's file on that node; empty if there is no file."""
    on_close: bool = False
    """Whether its spider or its hooks have ``on_close``: a run is then over only after that was called."""
    login: bool = False
    """Whether its spider has ``login``: the frontier then asks workers to log sessions in."""
    run_keys: list[str] = []
    """In ``begin``: a key for which at most one run is begun, if any. As stored: the last keys, newest first."""

    def is_begun(self, other: JobSpec) -> bool:
        """Return whether a run was begun for a key of the other spec: it is resumed, and no new run begins."""
        return not set(self.run_keys).isdisjoint(other.run_keys)

    def after(self, before: JobSpec) -> JobSpec:
        """Return this spec with the keys of the stored one added, as it is stored next."""
        keys = dict.fromkeys([*self.run_keys, *before.run_keys])
        return msgspec.structs.replace(self, run_keys=list(keys)[:RUN_KEYS_KEPT])

    def same_work(self, other: JobSpec) -> bool:
        """Return whether two specs define the same job: settings may differ, spider, seeds and arguments may not."""
        ours, theirs = ((spec.spider, spec.seeds, spec.sitemaps, spec.arguments) for spec in (self, other))
        return ours == theirs

    def with_changes(self, values: Mapping[str, Any]) -> JobSpec:
        """Return the spec of a running job with new values of some settings, either typed or as text.

        Raises UsageError for a setting that cannot be changed (``settings.CHANGEABLE``). The values that the command
        gave are kept in ``changed_from``.
        """
        present = Settings.from_layers([("the job", self.settings)])
        try:
            changes = present.changed(values, "the change")
        except SettingsError as error:
            # A store takes SettingsError for a damaged record.
            raise UsageError(str(error), hint=error.hint) from error
        settings = {**self.settings, **changes}
        given = {name: self.settings.get(name) for name in changes} | self.changed_from
        changed_from = {name: value for name, value in given.items() if value != settings[name]}
        return msgspec.structs.replace(self, settings=settings, changed_from=changed_from)

    def keeping_changes(self, before: JobSpec) -> JobSpec:
        """Return this spec of a command that resumes a run, with the changes made since the run began.

        A setting to which the command gives another value than before takes that value.
        """
        changes = {
            name: before.settings[name]
            for name, given in before.changed_from.items()
            if self.settings.get(name) in (given, before.settings[name])
        }
        if not changes:
            return self
        settings = {**self.settings, **changes}
        changed_from = {name: before.changed_from[name] for name in changes}
        return msgspec.structs.replace(self, settings=settings, changed_from=changed_from)


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of requests of the run in each state, at one instant."""

    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    redirected: int = 0
    failed: int = 0
    excluded: int = 0

    @property
    def seen(self) -> int:
        return self.unfinished + self.done + self.redirected + self.failed + self.excluded

    @property
    def unfinished(self) -> int:
        return self.queued + self.delayed + self.leased


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its frontier knows it."""

    spec: JobSpec
    state: State
    run: int
    secret: bytes
    """Hash key of the fingerprints of this job."""
    seeding: bool
    """Whether the seeding is still running."""
    started_at: float
    """Start of this run by the store's clock."""
    ended_at: float = 0.0
    """When the run finished or stopped; 0 while it is not over."""
    reason: str = ""
    """Reason of the stop (StopReason), or the problem that kept the seeding from adding all seeds."""
    closed: bool = False
    """Whether ``on_close`` was called for the finished run."""

    @property
    def awaits_close(self) -> bool:
        """Whether the run is finished and its ``on_close`` has not yet completed."""
        return self.state is State.FINISHED and self.spec.on_close and not self.closed

    @property
    def seeding_problem(self) -> str:
        """See ``seeding_problem``."""
        return seeding_problem(self.reason)

    def changed_spec(self, values: Mapping[str, Any]) -> JobSpec:
        """Return the specification with new values of some settings. Raises JobError if the run is finished."""
        if self.state is State.FINISHED:
            hint = "set it in the command that starts the next run"
            raise JobError(f"the job is finished: {self.spec.name}", hint=hint)
        return self.spec.with_changes(values)


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a job, for polling. Its size does not depend on the number of seeds."""

    state: State
    run: int
    reason: str = ""
    """Reason of the stop, as in ``Job``."""


class Begun(enum.StrEnum):
    """How ``begin`` started the job."""

    NEW = "new"
    RESUMED = "resumed"
    """An unfinished run was resumed."""
    JOINED = "joined"
    """An unfinished run was joined while other workers work for it."""
    RERUN = "rerun"
    """The job was finished, or a new run was requested: a new run starts."""


class HostSeen(msgspec.Struct, frozen=True, kw_only=True):
    """State of a host in a report."""

    key: str
    queued: int
    """Queued requests. SQLite stops counting at 100,000 in reports of a job, and at 10,000 in lists of hosts."""
    in_flight: int
    due_seconds: float
    """Time until its next request may start; 0: now."""
    blocked_seconds: float
    latency_seconds: float
    strikes: int
    """Blocks and failed connections in a row."""
    error_class: str
    address: str = ""
    """IP address of its last answer."""
    address_full: bool = False
    """Whether the limit ``per_ip`` of its IP address is reached: the host waits for a request in flight to end."""
    pages: int = 0
    """Pages done in this run."""
    stopped_by: str = ""
    """Setting whose budget is spent: max_pages_per_host or trap_pages."""
    paused: bool = False
    """Whether an operator has paused it."""
    given_up: bool = False
    """Whether it was given up, by an operator or because it is down."""


class HostPage(msgspec.Struct, frozen=True):
    """One page of the list of hosts."""

    hosts: list[HostSeen]
    after: str
    """Start of the next page; empty: this is the last one."""


class SinkSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one sink in a report."""

    target: str
    undelivered: int
    owner: str
    blocking: bool
    """Whether the outbox is full because of this sink."""
    closed: bool = False
    """Whether the output is complete for this run."""
    rejected: int = 0
    """Items of this run that the output refused."""
    trouble: str = ""
    """Problem that delays the delivery at the moment; empty if there is none."""

    @property
    def is_incomplete(self) -> bool:
        """Return whether a finished job still has to deliver to the output, or to record that it is complete."""
        return self.undelivered > 0 or not self.closed


class NeedSeen(msgspec.Struct, frozen=True):
    """Need of queued requests, in a report."""

    name: str
    queued: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything ``status`` shows, from one instant."""

    job: Job
    counts: Counts
    tally: dict[str, int]
    """Counters of accepted commits: items, bytes, duplicates, outside:RULE.

    ``duplicates_sent`` counts the duplicates that no worker recognised, so that the frontier had to find them.
    """
    errors: dict[str, int]
    """Failed requests by class."""
    undelivered: int
    """Items in the outbox that some sink has not made durable."""
    sinks: list[SinkSeen]
    workers: list[WorkerSeen]
    hosts: list[HostSeen]
    """A few hosts, the slowest and those with most errors first."""
    crowded: list[HostSeen] = []
    """Hosts with the longest queues, if requested. Some stores keep at most 16, and may miss a host that was not served
    for a long time."""
    pages_per_second: float = 0.0
    """Rate over the five to ten seconds before the newest commit; 0 if the run is over."""
    overdue_seconds: float = 0.0
    """Age of the oldest expired lease that is not yet recovered; 0 if there is none."""
    needs: list[NeedSeen] = []
    """Needs that most queued requests have. Requests without a need are not counted."""
    dedup: BloomStats | None = None
    """Bloom filter of done pages, with ``dedup=bloom``."""
    intakes: list[IntakeSeen] = []
    """Intakes of the run, ordered by name."""
    paused_hosts: int = 0
    """Hosts that an operator has paused."""
    exact: bool = True
    """Whether all figures are from one instant. False: two reads of a busy job with shards did not agree."""

    @property
    def items(self) -> int:
        """Number of records that pages yielded, without those that could not be stored."""
        return self.tally.get("items", 0)

    @property
    def rejected(self) -> int:
        """Number of items that could not be stored or that an output refused."""
        return self.tally.get("rejected", 0) + sum(sink.rejected for sink in self.sinks)

    @property
    def dropped(self) -> dict[str, int]:
        """Items that item functions have dropped, by reason."""
        return {name.partition(":")[2]: n for name, n in self.tally.items() if name.startswith("dropped:") and n}

    @property
    def stats(self) -> dict[str, int]:
        """Counters of the spider and its hooks, by name."""
        return stats_of(self.tally)

    @property
    def decisions(self) -> dict[str, int]:
        """Number of decisions of hooks, by ``DECISION:REASON``."""
        return decisions_of(self.tally)


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Stored state of one request."""

    state: str
    """One of: queued, delayed, leased, done, redirected, failed, excluded.

    A store without a history returns ``ended`` for done and redirected requests, with no other values, and
    ``queued-or-ended`` if the host key was not given. ``maybe-seen`` (with ``dedup=bloom``): the Bloom filter contains
    the request, which may be a false positive. ``delivered``: the request is not in this run, because an earlier run
    delivered its page (``dedup_scope``); nothing else is known about it.
    """
    url: str
    depth: int
    priority: int
    attempts: int
    losses: int
    referrer: str | None
    added_at: float
    """Time when it was added; 0 if the store does not keep it."""
    ended_at: float
    status: int
    error_class: str
    error: str
    ready_in_seconds: float
    """For queued and delayed requests: time until it may start, by its own delay and that of its host."""
    worker: str
    host: HostSeen | None
    need: str = ""
    """Capability that its worker must have; empty: any worker may get it."""


class FailedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A failed request, which may be retried by command."""

    id: int
    url: str
    error_class: str
    error: str
    status: int
    attempts: int
    losses: int
    referrer: str | None
    ended_at: float
    position: int = 0
    """Position in the list of failed requests, for paging."""


class SinkProgress(msgspec.Struct, frozen=True):
    """Progress of a sink, stored as one record: the delivered items and the sink's own position."""

    position: int = 0
    """Every item up to this position is durable in the target."""
    mark: bytes = b""
    """The sink's own position, for example the length of a file."""
    closed: bool = False
    """Whether the target is complete for this run (a rendered file, for example)."""
    rejected: int = 0
    """Number of items up to this position that the target refused. They are in the rejects file."""
    trouble: str = ""
    """Message for operators: why nothing is written at the moment."""
