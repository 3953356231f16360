"""Schedules of commands, their ticks, and the history of the ticks."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

SCHEDULE_VARIABLE = "SKITTER_SCHEDULE"
"""Environment variable in which a scheduler passes the schedule to a command."""


class Overlap(enum.StrEnum):
    """Handling of a tick while the run of an earlier tick is still in progress."""

    SKIP = "skip"
    QUEUE = "queue"
    """The tick waits and starts when the earlier run has ended."""
    REPLACE = "replace"
    """The earlier run is stopped and a fresh run starts."""
    ALLOW = "allow"
    """Both run; each tick is a separate job named JOB@TIME."""


class CatchUp(enum.StrEnum):
    """Handling of ticks whose time passed while no scheduler was running."""

    NONE = "none"
    LATEST = "latest"
    """The last of them runs, unless a newer tick is due."""
    ALL = "all"
    """All of them run, one after the other."""


class TickOutcome(enum.StrEnum):
    """Outcome of a tick."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    SKIPPED = "skipped"
    """A scheduler processed the tick, and a rule prevented it from running."""
    MISSED = "missed"
    """The tick could not start in time."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Command with its times: a cron expression in a time zone, or an interval in seconds."""

    name: str
    command: list[str]
    """Words of a skitter command without the program's name: ``["crawl", "news.py"]``."""
    cron: str = ""
    timezone: str = "UTC"
    every_seconds: float = 0.0
    """Interval, used instead of ``cron``."""
    anchor: float = 0.0
    """Time that intervals are counted from."""
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    start_within_seconds: float | None = None
    """A tick that could not start within this time is missed; None means no limit."""
    jitter_seconds: float = 0.0
    """Maximum delay of a tick. The delay of one tick is always the same."""
    until: float | None = None
    """Time after which there are no more ticks."""
    max_instances: int = 10
    """Maximum number of ticks that run at a time with ``overlap=allow``."""
    retries: int = 0
    """Maximum number of retries of a failed command."""
    retry_delay_seconds: float = 60.0
    job: str = ""
    """Job of ``crawl`` and ``submit``; empty for other commands."""
    frontier: str = ""
    """Frontier that the command names; if empty, that of the scheduler."""
    takes_frontier: bool = False
    """Whether the command accepts ``--frontier`` and does not give it."""
    origin: str = ""
    """File that defines the schedule (skitter.toml); empty if it was added by a command."""


class Claim(msgspec.Struct, frozen=True):
    """Claim of a scheduler to run a tick or to lead, with its expiry."""

    owner: str
    boot: str
    """Boot id of the machine whose clock ``until`` refers to; empty for the clock of a server, which all share."""
    until: float


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting or running tick. Its key is (schedule, ``scheduled_at``)."""

    scheduled_at: float
    """Nominal time, in seconds since 1970, UTC."""
    start_at: float
    """Nominal time plus jitter."""
    caught_up: bool = False
    """Whether its time passed while no scheduler was running."""
    manual: bool = False
    """Whether it was added by ``schedule run``."""
    claim: Claim | None = None
    """Claim of the scheduler that runs it; None while it waits."""
    epoch: int = 0
    """Fencing token: it grows with every claim, and reports of earlier owners are refused."""
    attempt: int = 1
    started_at: float = 0.0
    replaces: bool = False
    """Whether it has asked the previous run to stop, to start a fresh run."""
    replaced_by: float = 0.0
    """Nominal time of the tick that has asked this one to stop."""

    @property
    def is_running(self) -> bool:
        return self.claim is not None


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one tick. Times are in seconds since 1970."""

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
    """Name of the scheduler that ran the tick last."""
    summary: dict[str, Any] = {}
    """Object that the command printed with ``--json``."""
    output: str = ""
    """Last lines that the command printed."""


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Stored form of a schedule, with its waiting and running ticks."""

    schedule: Schedule
    added_at: float
    cursor: float
    """Time up to which ticks have been decided."""
    paused: bool = False
    ticks: list[Tick] = []
    started: list[float] = []
    """Nominal times of the last ticks that have run, in order. They would recur if the clock were set back."""
    floor: float = 0.0
    """Latest time that was removed from ``started``. No tick up to this time runs again."""


class JobSituation(enum.StrEnum):
    """State in which a scheduled command would find its job."""

    STARTABLE = "startable"
    """The job does not exist, or it is finished, interrupted, or stopped by a limit."""
    WORKING = "working"
    PAUSED = "paused"
    STOPPED = "stopped by command"
