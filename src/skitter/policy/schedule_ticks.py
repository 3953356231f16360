"""Decisions about the ticks of a schedule, as pure functions: records in, records and rows of the history out.

``expect`` creates a waiting tick when its nominal time has passed. When its start is due, ``start`` decides whether it
runs, keeps waiting, or is skipped or missed. A running tick belongs to the owner of its claim (``take_over``), which
ends it (``end``). A record is written back only if its version is unchanged, so each decision is made once.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from skitter.model.schedule import (
    CatchUp,
    Claim,
    HistoryRow,
    JobSituation,
    Overlap,
    ScheduleRecord,
    Tick,
    TickOutcome,
)
from skitter.policy.schedule_times import LISTED_TICKS, jitter_of, passed_times

LATE_SECONDS = 15.0
"""Lateness after which ``catch_up`` applies to a tick; a change of the leader takes less time."""
STARTED_KEPT = 512
"""Number of nominal times of ticks that have run which a record keeps."""
USAGE_EXIT_CODE = 2
"""Exit code of a wrong command line, which is not retried."""


class StoreTime(NamedTuple):
    """Time of a store: the calendar time, and a steady clock that nobody sets, for claims."""

    now: float
    steady: float
    boot: str = ""

    def claim(self, owner: str, seconds: float) -> Claim:
        return Claim(owner, self.boot, self.steady + seconds)

    def is_over(self, claim: Claim) -> bool:
        """Return whether a claim has ended; after a restart of the machine, all claims have."""
        return claim.boot != self.boot or claim.until <= self.steady


class Decision(NamedTuple):
    """Record after a decision, the new rows of the history, and the ticks to run now."""

    record: ScheduleRecord
    rows: list[HistoryRow]
    begun: list[Tick]


def shown_time(at: float) -> str:
    """Return a time in UTC, such as ``2026-11-17T02:00:00Z``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def tick_job(record: ScheduleRecord, tick: Tick) -> str:
    """Return the job that a tick runs; with ``overlap=allow`` each tick has its own job."""
    job = record.schedule.job
    if not job or record.schedule.overlap is not Overlap.ALLOW:
        return job
    moment = datetime.fromtimestamp(tick.scheduled_at, UTC)
    part = f".{moment.microsecond // 1000:03}" if moment.microsecond else ""
    return f"{job}@{moment:%Y%m%dT%H%M%S}{part}Z"


def run_key(record: ScheduleRecord, tick: Tick) -> str:
    """Return the key of a tick and its attempt, for which a job begins at most one run."""
    return f"{record.schedule.name}@{tick.scheduled_at:.3f}#{tick.attempt}"


def row_of(record: ScheduleRecord, tick: Tick, outcome: TickOutcome, reason: str = "") -> HistoryRow:
    """Return the row of a tick for the history; a tick that has not run has no start and no attempts."""
    return HistoryRow(
        schedule=record.schedule.name,
        scheduled_at=tick.scheduled_at,
        started_at=tick.started_at or None,
        outcome=outcome,
        reason=reason,
        attempts=tick.attempt if tick.started_at else 0,
        job=tick_job(record, tick),
        manual=tick.manual,
        node=tick.claim.owner if tick.claim is not None else "",
    )


# ---- expecting ticks


def expect(record: ScheduleRecord, now: float) -> Decision:
    """Turn nominal times that have passed into waiting ticks, or into rows of the history if they will not run."""
    schedule = record.schedule
    # If the clock was set back, times that passed before may pass again: ticks that never ran are expected, and
    # ``known`` has those that did.
    since = min(record.cursor, now)
    times = passed_times(schedule, since, now)
    known = {*record.started, *(tick.scheduled_at for tick in record.ticks)}
    rows: list[HistoryRow] = []
    if times.unlisted_from:
        rows.append(_unlisted(record, times.unlisted_from, times.listed[0] if times.listed else now))
    ticks = [
        Tick(scheduled_at=at, start_at=at + jitter_of(schedule, at), caught_up=False)
        for at in times.listed
        if at > record.floor and at not in known
    ]
    if record.paused:
        rows += [row_of(record, tick, TickOutcome.SKIPPED, "the schedule is paused") for tick in ticks]
        ticks = []
    late = [tick for tick in ticks if now - tick.start_at > LATE_SECONDS]
    on_time = [tick for tick in ticks if tick not in late]
    kept, missed = _caught_up(record, late, on_time)
    waiting = [*record.ticks, *kept, *on_time]
    return Decision(msgspec.structs.replace(record, ticks=waiting, cursor=now), rows + missed, [])


def _caught_up(record: ScheduleRecord, late: list[Tick], on_time: list[Tick]) -> tuple[list[Tick], list[HistoryRow]]:
    """Return the late ticks that will run, and the rows of the others for the history."""
    catch_up = record.schedule.catch_up
    if catch_up is CatchUp.ALL:
        kept = late
    elif catch_up is CatchUp.LATEST and not on_time:
        kept = late[-1:]
    else:
        kept = []
    reason = "no scheduler ran at that time"
    if catch_up is CatchUp.LATEST:
        reason += "; only the latest tick is caught up"
    missed = [row_of(record, tick, TickOutcome.MISSED, reason) for tick in late[: len(late) - len(kept)]]
    return [msgspec.structs.replace(tick, caught_up=True) for tick in kept], missed


def _unlisted(record: ScheduleRecord, first: float, before: float) -> HistoryRow:
    reason = f"no scheduler ran: all ticks from this one until before {shown_time(before)}"
    return row_of(record, Tick(scheduled_at=first, start_at=first), TickOutcome.MISSED, reason)


def add_manual(record: ScheduleRecord, now: float) -> tuple[ScheduleRecord, Tick]:
    """Add a tick for the current time, on command."""
    known = {*record.started, *(tick.scheduled_at for tick in record.ticks)}
    at = round(now, 3)
    while at in known:
        at = round(at + 0.001, 3)
    tick = Tick(scheduled_at=at, start_at=at, manual=True)
    return msgspec.structs.replace(record, ticks=[*record.ticks, tick]), tick


# ---- starting ticks


def is_due(record: ScheduleRecord, now: float) -> bool:
    """Return whether a waiting tick may start."""
    return any(not tick.is_running and tick.start_at <= now for tick in record.ticks)


def start(record: ScheduleRecord, time: StoreTime, claim: Claim, situation: JobSituation) -> Decision:
    """Decide about every waiting tick whose start is due, in order; ``situation`` is that of the schedule's job."""
    ticks: list[Tick] = [tick for tick in record.ticks if tick.is_running]
    rows: list[HistoryRow] = []
    begun: list[Tick] = []
    due = sorted((tick for tick in record.ticks if not tick.is_running), key=lambda tick: tick.start_at)
    for place, tick in enumerate(due):
        if tick.start_at > time.now:
            ticks.append(tick)
            continue
        running = [other for other in ticks if other.is_running]
        newer = next((other for other in reversed(due[place + 1 :]) if other.start_at <= time.now), None)
        verdict, reason = _verdict(record, tick, running, newer, time.now, situation)
        if verdict is None:
            ticks.append(tick)
        elif verdict is TickOutcome.RUNNING:
            begun.append(msgspec.structs.replace(tick, claim=claim, epoch=tick.epoch + 1, started_at=time.now))
            ticks.append(begun[-1])
        else:
            rows.append(row_of(record, tick, verdict, reason))
    ticks = _ask_to_stop(record, ticks, time.now)
    ticks, rows = _bounded(record, ticks, rows)
    return Decision(msgspec.structs.replace(record, ticks=ticks), rows, begun)


def _verdict(
    record: ScheduleRecord,
    tick: Tick,
    running: list[Tick],
    newer: Tick | None,
    now: float,
    situation: JobSituation,
) -> tuple[TickOutcome | None, str]:
    """Return the outcome of a tick whose start is due, and the reason; None if the tick keeps waiting."""
    schedule = record.schedule
    within = schedule.start_within_seconds
    if within is not None and now - tick.start_at > within:
        return TickOutcome.MISSED, f"it could not start within {within:g} s"
    if schedule.overlap is Overlap.ALLOW:
        if len(running) < schedule.max_instances:
            return TickOutcome.RUNNING, ""
        if tick.caught_up:
            return None, ""
        return TickOutcome.SKIPPED, f"{len(running)} instances are running"
    if not running and (reason := _refusal(tick, situation)):
        return TickOutcome.SKIPPED, reason
    if not running and situation is not JobSituation.WORKING:
        return TickOutcome.RUNNING, ""
    if schedule.overlap is Overlap.REPLACE:
        if newer is not None and not newer.manual:
            return TickOutcome.SKIPPED, f"replaced by the tick of {shown_time(newer.scheduled_at)}"
        return None, ""
    if schedule.overlap is Overlap.QUEUE or tick.caught_up:
        return None, ""
    if running:
        return TickOutcome.SKIPPED, f"the run of {shown_time(running[0].scheduled_at)} is still running"
    return TickOutcome.SKIPPED, f"other processes are working on the job: {schedule.job}"


def _refusal(tick: Tick, situation: JobSituation) -> str:
    """Return why the job must not be started, or an empty string; a job that was stopped for this very tick may be."""
    if situation is JobSituation.PAUSED:
        return "the job is paused"
    if situation is JobSituation.STOPPED and not tick.replaces:
        return "the job was stopped by command"
    return ""


def _ask_to_stop(record: ScheduleRecord, ticks: list[Tick], now: float) -> list[Tick]:
    """Make waiting ticks ask the running one to stop, if the schedule has ``overlap=replace``."""
    waiting = [tick for tick in ticks if not tick.is_running and tick.start_at <= now]
    if record.schedule.overlap is not Overlap.REPLACE or not waiting:
        return ticks
    by = waiting[-1].scheduled_at
    return [
        msgspec.structs.replace(tick, replaced_by=tick.replaced_by or by)
        if tick.is_running
        else msgspec.structs.replace(tick, replaces=tick.replaces or tick in waiting)
        for tick in ticks
    ]


def _bounded(record: ScheduleRecord, ticks: list[Tick], rows: list[HistoryRow]) -> tuple[list[Tick], list[HistoryRow]]:
    """Keep at most ``LISTED_TICKS`` waiting ticks; a command that is slower than its schedule would accumulate more."""
    waiting = [tick for tick in ticks if not tick.is_running]
    excess = waiting[LISTED_TICKS:]
    refused = [
        row_of(record, tick, TickOutcome.SKIPPED, f"{LISTED_TICKS} ticks are already waiting") for tick in excess
    ]
    return [tick for tick in ticks if tick not in excess], rows + refused


# ---- running ticks


def take_over(record: ScheduleRecord, time: StoreTime, claim: Claim, own: Collection[float] = ()) -> Decision:
    """Claim the running ticks whose owner is gone; they run again and resume what they had begun.

    ``own`` has the ticks that this owner runs itself; it may have been too slow to renew its claims.
    """
    ticks: list[Tick] = []
    begun: list[Tick] = []
    for tick in record.ticks:
        if tick.claim is None or not time.is_over(tick.claim) or tick.scheduled_at in own:
            ticks.append(tick)
        else:
            ticks.append(msgspec.structs.replace(tick, claim=claim, epoch=tick.epoch + 1))
            begun.append(ticks[-1])
    return Decision(msgspec.structs.replace(record, ticks=ticks), [], begun)


def held(record: ScheduleRecord, tick: Tick) -> Tick | None:
    """Return the stored tick if the claim on it is still valid; None if it has another owner or has ended."""
    found = next((other for other in record.ticks if other.scheduled_at == tick.scheduled_at), None)
    return found if found is not None and found.epoch == tick.epoch and found.is_running else None


def with_tick(record: ScheduleRecord, tick: Tick) -> ScheduleRecord:
    """Return the record with a changed tick."""
    ticks = [tick if other.scheduled_at == tick.scheduled_at else other for other in record.ticks]
    return msgspec.structs.replace(record, ticks=ticks)


def end(record: ScheduleRecord, tick: Tick) -> ScheduleRecord:
    """Return the record without a tick that has run; the nominal time of the tick never runs again."""
    ticks = [other for other in record.ticks if other.scheduled_at != tick.scheduled_at]
    started = sorted({*record.started, tick.scheduled_at})
    floor = max([record.floor, *started[:-STARTED_KEPT]])
    return msgspec.structs.replace(record, ticks=ticks, started=started[-STARTED_KEPT:], floor=floor)


def is_retried(record: ScheduleRecord, tick: Tick, exit_code: int) -> bool:
    """Return whether a command with this exit code is run again."""
    return exit_code not in (0, USAGE_EXIT_CODE) and tick.attempt <= record.schedule.retries and not tick.replaced_by
