"""Schedules: when a command runs, its ticks, and the rows of their history."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

SCHEDULE_VARIABLE = "SKITTER_SCHEDULE"
"""The environment variable by which a scheduler tells a command whose it is."""


class Overlap(enum.StrEnum):
    """What becomes of a tick while the run of an earlier one goes on."""

    SKIP = "skip"
    QUEUE = "queue"
    """It waits, and starts when the earlier run has ended."""
    REPLACE = "replace"
    """The earlier run is stopped, and a fresh one begins."""
    ALLOW = "allow"
    """Both run, each tick as a job of its own: JOB@TIME."""


class CatchUp(enum.StrEnum):
    """What becomes of ticks whose time passed while no scheduler ran."""

    NONE = "none"
    LATEST = "latest"
    """The last of them runs, unless a newer tick is due."""
    ALL = "all"
    """All of them run, one after the other."""


class TickOutcome(enum.StrEnum):
    """What became of a tick."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    SKIPPED = "skipped"
    """A scheduler saw it, and a rule kept it from running."""
    MISSED = "missed"
    """Its time passed before it could start."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and when it runs: by a cron expression in a time zone, or every so many seconds."""

    name: str
    command: list[str]
    """Words of a skitter command without the program's name: ``["crawl", "news.py"]``."""
    cron: str = ""
    timezone: str = "UTC"
    every_seconds: float = 0.0
    """Instead of ``cron``."""
    anchor: float = 0.0
    """Time that intervals are counted from."""
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    start_within_seconds: float | None = None
    """A tick that could not start for so long is missed; None: it may start at any time."""
    jitter_seconds: float = 0.0
    """Each tick starts up to so much later, always the same for one tick."""
    until: float | None = None
    """No tick is later than this."""
    max_instances: int = 10
    """With ``overlap=allow``: so many run at a time."""
    retries: int = 0
    """So often a failed command is run again."""
    retry_delay_seconds: float = 60.0
    job: str = ""
    """The job of ``crawl`` and ``submit``; empty for other commands."""
    frontier: str = ""
    """The frontier that the command names; empty: that of the scheduler."""
    takes_frontier: bool = False
    """The command has the option --frontier, and does not give it."""
    origin: str = ""
    """The file that the schedule is from (skitter.toml); empty: it was added by command."""


class Claim(msgspec.Struct, frozen=True):
    """Who runs a tick, or leads, and until when."""

    owner: str
    boot: str
    """Boot of the machine whose clock ``until`` is of; empty: the clock of a server, which has one boot for all."""
    until: float


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that waits or runs. Its key is (schedule, ``scheduled_at``)."""

    scheduled_at: float
    """Nominal time, in seconds since 1970, UTC."""
    start_at: float
    """The same with jitter."""
    caught_up: bool = False
    """Its time had passed while no scheduler ran."""
    manual: bool = False
    """By ``schedule run``."""
    claim: Claim | None = None
    """None: it waits."""
    epoch: int = 0
    """Grows with every claim: what an earlier owner says is refused."""
    attempt: int = 1
    started_at: float = 0.0
    replaces: bool = False
    """It has asked the run before it to stop, and will begin a fresh one."""
    replaced_by: float = 0.0
    """The tick that has asked this one to stop."""

    @property
    def is_running(self) -> bool:
        return self.claim is not None


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one tick. Times are seconds since 1970."""

    schedule: str
    scheduled_at: float
    started_at: float | None = None
    ended_at: float | None = None
    outcome: TickOutcome
    reason: str = ""
    exit_code: int | None = None
    attempts: int = 0
    job: str = ""
    manual: bool = False
    node: str = ""
    """The scheduler that ran it last."""
    summary: dict[str, Any] = {}
    """The object that the command printed with --json."""
    output: str = ""
    """The last lines that it printed."""


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored, with its ticks that wait or run."""

    schedule: Schedule
    added_at: float
    cursor: float
    """Ticks until here were decided."""
    paused: bool = False
    ticks: list[Tick] = []
    started: list[float] = []
    """Nominal times of the last ticks that have run, in order; with a clock that was set back they come again."""
    floor: float = 0.0
    """The latest that was removed from ``started``: no tick until here runs any more."""


class JobSituation(enum.StrEnum):
    """What a scheduled command would find of its job."""

    STARTABLE = "startable"
    """There is none, or it is finished, interrupted, or stopped by a limit."""
    WORKING = "working"
    PAUSED = "paused"
    STOPPED = "stopped by command"
