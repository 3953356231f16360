"""Job: one named crawl, with its state, counts, report, dead requests and outbox items."""

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
    """The state of a job, the same for all its workers."""

    RUNNING = "running"
    PAUSED = "paused"
    """Nothing is leased; what is in flight may end."""
    DRAINING = "draining"
    """As paused, on the way to stopped."""
    STOPPED = "stopped"
    """By command or by a limit; ``crawl`` goes on from here."""
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
"""Reasons that are settings of the job: nobody stopped it by hand."""


class CloseClaim(enum.StrEnum):
    """Whose ``on_close`` is, in the answer to ``claim_close``."""

    MINE = "mine"
    """The caller's, which is to call it."""
    OTHERS = "others"
    """Another one's, who was heard from lately."""
    NONE = "none"
    """Nobody's: it was called, the job is not finished, or has no such hook."""


def seeding_problem(reason: str) -> str:
    """Return the seeding problem in a ``Job.reason``; empty if there was none.

    Stores keep one text for both: a StopReason, or the error of ``start()``.
    """
    return "" if reason in tuple(StopReason) else reason


RUN_KEYS_KEPT = 32
"""Keys of runs that a job remembers. A late command of an older run than these would begin a new one."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Definition of a job: spider, seeds, arguments and settings."""

    name: str
    spider: str
    """A reference that a worker elsewhere can load; empty is the built-in spider."""
    seeds: list[str] = []
    """URLs typed on the command line."""
    sitemaps: list[str] = []
    """Sitemaps typed there; they are seeds too."""
    arguments: dict[str, str] = {}
    settings: dict[str, Any] = {}
    """Job-wide settings (``Settings.job_wide()``), as they are now."""
    changed_from: dict[str, Any] = {}
    """Of the settings that were changed while the job ran: the values that its command gave."""
    version: str = ""
    """Version of the skitter that began or last resumed the run; empty: unknown."""
    code: str = ""
    """Hash of the spider's file on that node; empty: there is no file."""
    on_close: bool = False
    """Whether its spider or its hooks have ``on_close``: then a run is over when that was called."""
    login: bool = False
    """Whether its spider has ``login``: then the frontier asks workers to log sessions in."""
    run_keys: list[str] = []
    """Of ``begin``: the key that at most one run is begun for, if any. As stored: the last keys, the newest first."""

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
        """Return the spec of a run that goes on with other values of some settings, as they are typed or not.

        UsageError for what cannot be changed (``settings.CHANGEABLE``). What the command gave is remembered.
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
        """Return this spec of a command that resumes a run, with what was changed in the run since it began.

        A command that gives a setting another value than before, on purpose, has its way.
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
    """Numbers of requests of the run by state, at one instant."""

    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    redirected: int = 0
    dead: int = 0
    excluded: int = 0

    @property
    def seen(self) -> int:
        return self.unfinished + self.done + self.redirected + self.dead + self.excluded

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
    """When the run finished or stopped; 0 while it goes on."""
    reason: str = ""
    """Why it stopped (StopReason), or what kept the seeding from giving all seeds."""
    closed: bool = False
    """``on_close`` was called for the finished run."""

    @property
    def awaits_close(self) -> bool:
        """Whether the run is finished and ``on_close``, which the job has, was not called to its end."""
        return self.state is State.FINISHED and self.spec.on_close and not self.closed

    @property
    def seeding_problem(self) -> str:
        """See ``seeding_problem``."""
        return seeding_problem(self.reason)

    def changed_spec(self, values: Mapping[str, Any]) -> JobSpec:
        """Return the specification with other values of some settings; JobError if the run is over."""
        if self.state is State.FINISHED:
            hint = "the command of its next run gives it its settings"
            raise JobError(f"the job is finished: {self.spec.name}", hint=hint)
        return self.spec.with_changes(values)


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a job for polling; its size does not depend on the number of seeds."""

    state: State
    run: int
    reason: str = ""
    """Why it stopped, as in ``Job``."""


class Begun(enum.StrEnum):
    """How ``begin`` started the job."""

    NEW = "new"
    RESUMED = "resumed"
    """Unfinished, and goes on."""
    JOINED = "joined"
    """As resumed, while other workers work for it."""
    RERUN = "rerun"
    """The job was finished, or a new run was requested: a new run starts."""


class HostSeen(msgspec.Struct, frozen=True, kw_only=True):
    """State of a host in a report."""

    key: str
    queued: int
    """Queued requests; some stores stop counting at 100,000."""
    in_flight: int
    due_seconds: float
    """Until its next request may start; 0: now."""
    blocked_seconds: float
    latency_seconds: float
    strikes: int
    """Blocks and failed connections in a row."""
    error_class: str
    address: str = ""
    """The IP address that last answered for it."""
    address_full: bool = False
    """As many requests are in flight to its address as ``per_ip`` allows: it waits for one of them to end."""
    pages: int = 0
    """Done in this run."""
    stopped_by: str = ""
    """The setting whose budget is spent: max_pages_per_host or trap_pages."""


class SinkSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one sink in a report."""

    target: str
    undelivered: int
    owner: str
    blocking: bool
    """The outbox is full because of it."""
    closed: bool = False
    """The target is complete for this run."""
    rejected: int = 0
    """Items of this run that the target would not take."""
    trouble: str = ""
    """The problem that its owner is waiting out; empty if there is none."""

    @property
    def is_incomplete(self) -> bool:
        """Return whether a finished job still has to deliver to it, or to record that the target is complete."""
        return self.undelivered > 0 or not self.closed


class NeedSeen(msgspec.Struct, frozen=True):
    """A need of requests that are queued, in a report."""

    name: str
    queued: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything ``status`` shows, from one instant."""

    job: Job
    counts: Counts
    tally: dict[str, int]
    """Counters of accepted commits: items, bytes, duplicates, outside:RULE.

    ``duplicates_sent`` are those of the duplicates that no worker knew, so that the frontier had to find them.
    """
    errors: dict[str, int]
    """Dead requests by class."""
    undelivered: int
    """Items in the outbox that some sink has not made durable."""
    sinks: list[SinkSeen]
    workers: list[WorkerSeen]
    hosts: list[HostSeen]
    """A few hosts, the slowest and those with most errors first."""
    crowded: list[HostSeen] = []
    """Hosts with the longest queues, if requested; some stores keep at most 16, and may miss a host that was not served
    for long."""
    pages_per_second: float = 0.0
    """Rate over the five to ten seconds before the newest commit; 0 if the run is over."""
    overdue_seconds: float = 0.0
    """Age of the oldest expired lease that is not yet recovered; 0 if there is none."""
    needs: list[NeedSeen] = []
    """The needs that most queued requests have; those without one are not among them."""
    dedup: BloomStats | None = None
    """The Bloom filter of pages that are done, with ``dedup=bloom``."""
    intakes: list[IntakeSeen] = []
    """The sources that requests come from, by name."""
    exact: bool = True
    """Everything is from one instant. False: the job is in shards, and two reads of a busy job did not agree."""

    @property
    def items(self) -> int:
        """Records that pages yielded; what could not be stored is not among them."""
        return self.tally.get("items", 0)

    @property
    def rejected(self) -> int:
        """Items that could not be stored, and those that a target would not take."""
        return self.tally.get("rejected", 0) + sum(sink.rejected for sink in self.sinks)

    @property
    def dropped(self) -> dict[str, int]:
        """Items that item functions have dropped, by reason."""
        return {name.partition(":")[2]: n for name, n in self.tally.items() if name.startswith("dropped:") and n}

    @property
    def stats(self) -> dict[str, int]:
        """What the spider and its hooks have counted, by name."""
        return stats_of(self.tally)

    @property
    def decisions(self) -> dict[str, int]:
        """What hooks have decided, by ``DECISION:REASON``."""
        return decisions_of(self.tally)


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Stored state of one request."""

    state: str
    """queued, delayed, leased, done, redirected, dead, excluded.

    A store that keeps no history says ``ended`` for done and redirected, and knows nothing else of the request; and
    ``queued-or-ended`` where it was not told the host key. With ``dedup=bloom`` it is ``maybe-seen``: the filter
    takes it for known, which may be a mistake. ``delivered``: it is not in this run, because an earlier one has
    delivered its page (``dedup_scope``); nothing else is known of it.
    """
    url: str
    depth: int
    priority: int
    attempts: int
    losses: int
    referrer: str | None
    added_at: float
    """0: not kept."""
    ended_at: float
    status: int
    error_class: str
    error: str
    ready_in_seconds: float
    """For queued and delayed ones: until its own not-before time and its host's due time have passed."""
    worker: str
    host: HostSeen | None
    need: str = ""
    """What its worker must have; empty: every worker may be given it."""


class Dead(msgspec.Struct, frozen=True, kw_only=True):
    """A request that failed for good, and may be revived."""

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
    """Its place in the list of dead requests, to page on from."""


class SinkProgress(msgspec.Struct, frozen=True):
    """Progress of a sink, stored as one record: durable items and the sink's own position."""

    position: int = 0
    """Every item up to here is durable in the target."""
    mark: bytes = b""
    """The sink's own position, for example a file's length."""
    closed: bool = False
    """The target is complete for this run (a rendered file, for example)."""
    rejected: int = 0
    """Items up to here that the target would not take: they are in the rejects file."""
    trouble: str = ""
    """Message for people: why nothing is written at the moment."""
