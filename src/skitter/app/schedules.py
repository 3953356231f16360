"""Schedules for programs and for the command line: add, list, pause, resume, remove, run now, history."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from skitter.app.audit import local_actor
from skitter.errors import UsageError, did_you_mean
from skitter.model.audit import Actor
from skitter.model.job_name import MAX_JOB_CHARS
from skitter.model.schedule import CatchUp, HistoryRow, Overlap, Schedule, ScheduleRecord
from skitter.policy import schedule_ticks as ticks
from skitter.policy.schedule_times import check_times, next_time, parse_duration, parse_instant, zone_of
from skitter.schedule_store.records import Change, Mutation, ScheduleRecords
from skitter.schedule_store.store_urls import open_schedule_store

E = TypeVar("E", Overlap, CatchUp)
MAX_NAME_CHARS = 60
HISTORY_LIMIT = 20
_NAME = re.compile(r"\w[\w.-]*")
_TICK_SUFFIX_CHARS = len("@20261117T020000.000Z")


class CommandTarget(NamedTuple):
    """Job and frontier of a checked command."""

    words: list[str]
    job: str = ""
    """Job of ``crawl`` and ``submit``."""
    frontier: str = ""
    """Frontier that the command names."""
    takes_frontier: bool = False
    """Whether the command accepts ``--frontier`` and does not give it."""


class ScheduleSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Times and options of a schedule. Durations are numbers of seconds, or text such as ``1h30m``."""

    cron: str = ""
    every: str | float = 0.0
    timezone: str = "UTC"
    overlap: str = "skip"
    catch_up: str = "latest"
    start_within: str | float | None = None
    jitter: str | float = 0.0
    until: str | None = None
    """Date, or date and time, in the time zone of the schedule: text, a ``date`` or a ``datetime``."""
    max_instances: int = 10
    retries: int = 0
    retry_delay: str | float = 60.0


CheckCommand = Callable[[Sequence[str], str], CommandTarget]
"""Function that checks the words of a command, given the frontier of the schedules. Raises UsageError for a command
that cannot work."""


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of a schedule. Times are in seconds since 1970."""

    name: str
    command: list[str]
    cron: str
    every_seconds: float | None
    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    start_within_seconds: float | None
    jitter_seconds: float
    until: float | None
    max_instances: int
    retries: int
    retry_delay_seconds: float
    job: str
    origin: str
    paused: bool
    added_at: float
    next_at: float | None
    """Next nominal time; None if there are no more ticks."""
    running: list[float]
    """Nominal times of the ticks that are running."""
    waiting: list[float]
    """Nominal times of the ticks that are due and waiting."""
    last: HistoryRow | None
    """Result of the last tick that has ended."""


class Schedules:
    """Schedules of a frontier, used as ``async with skitter.schedules.connect(URL) as schedules``."""

    def __init__(self, frontier: str, *, check_command: CheckCommand, actor: Actor | None = None) -> None:
        """``actor``: author of the changes in the audit trail; None means this program."""
        self._frontier = frontier
        self._actor = actor or local_actor("program")
        self._records = ScheduleRecords(open_schedule_store(frontier, create=False))
        self._check_command = check_command

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._records.close()

    async def add(self, name: str, command: Sequence[str], *, replace: bool = False, **settings: Any) -> ScheduleView:
        """Add a schedule. Raises UsageError if the command or a setting cannot work, or if the schedule already exists.

        ``command`` is a list of words without the name of the program, such as ``["crawl", "news.py"]``. ``settings``
        are the fields of ``ScheduleSettings``; either ``cron`` or ``every`` is required. With ``replace`` an existing
        schedule is changed and keeps its history.
        """
        schedule, now = await self._checked(name, command, settings)
        if not await self._records.add(
            ScheduleRecord(schedule=schedule, added_at=now, cursor=now), self._by("add", name)
        ):
            if not replace:
                raise UsageError(f"the schedule already exists: {name}", hint="--replace changes it; its history stays")

            def change(found: ScheduleRecord) -> Change:
                if found.schedule.origin:
                    raise UsageError(
                        f"the schedule {name} is defined in {found.schedule.origin}", hint="change it in that file"
                    )
                return Change(_replaced(found, schedule, now))

            await self._records.change(name, change, self._by("change", name))
        return await self.get(name)

    async def apply(self, name: str, command: Sequence[str], *, origin: str, **settings: Any) -> str:
        """Add a schedule that a file describes, or change it if it differs from the file.

        Return ``added``, ``changed`` or, if nothing was done, an empty string.
        """
        schedule, now = await self._checked(name, command, settings, origin)
        record = ScheduleRecord(schedule=schedule, added_at=now, cursor=now)
        if await self._records.add(record, self._by("add", name)):
            return "added"
        is_changed = False

        def change(found: ScheduleRecord) -> Change | None:
            nonlocal is_changed
            if found.schedule.origin != origin:
                raise UsageError(
                    f"the schedule {name} of {origin} was added by command", hint=f"skitter schedule remove {name}"
                )
            new = _replaced(found, schedule, now)
            is_changed = new.schedule != found.schedule
            return Change(new) if is_changed else None

        await self._records.change(name, change, self._by("change", name))
        return "changed" if is_changed else ""

    async def _checked(
        self, name: str, command: Sequence[str], given: Mapping[str, Any], origin: str = ""
    ) -> tuple[Schedule, float]:
        """Return a checked schedule and the current time."""
        settings = _settings(given)
        # In a thread, because checking a command executes the spider's file.
        target = await asyncio.to_thread(self._check_command, command, self._frontier)
        now = (await self._records.time()).now
        schedule = Schedule(
            name=_checked_name(name),
            command=target.words,
            cron=" ".join(settings.cron.split()),
            timezone=settings.timezone,
            every_seconds=_seconds(settings.every, "--every"),
            anchor=float(int(now)),
            overlap=_chosen(Overlap, settings.overlap, "--overlap"),
            catch_up=_chosen(CatchUp, settings.catch_up, "--catch-up"),
            start_within_seconds=(
                None if settings.start_within is None else _seconds(settings.start_within, "--start-within")
            ),
            jitter_seconds=_seconds(settings.jitter, "--jitter"),
            until=_instant(settings.until, settings.timezone),
            max_instances=_at_least(settings.max_instances, 1, "--max-instances"),
            retries=_at_least(settings.retries, 0, "--retries"),
            retry_delay_seconds=_seconds(settings.retry_delay, "--retry-delay"),
            job=target.job,
            frontier=target.frontier,
            takes_frontier=target.takes_frontier,
            origin=origin,
        )
        check_times(schedule, now)
        if schedule.overlap is Overlap.ALLOW and len(schedule.job) + _TICK_SUFFIX_CHARS > MAX_JOB_CHARS:
            raise UsageError(
                f"the job name is too long for jobs named JOB@TIME: {schedule.job}", hint="give a shorter --job NAME"
            )
        return schedule, now

    async def list(self) -> Sequence[ScheduleView]:
        """Return all schedules, ordered by name."""
        return [await self._view(kept.record) for kept in (await self._records.all()).values()]

    async def get(self, name: str) -> ScheduleView:
        """Return one schedule. Raises UsageError if no schedule has this name."""
        return await self._view(await self._record(name))

    async def pause(self, name: str) -> ScheduleView:
        """Skip all ticks until ``resume`` is called. A running command continues."""
        return await self._set_paused(name, True)

    async def resume(self, name: str) -> ScheduleView:
        """Run ticks again after ``pause``."""
        return await self._set_paused(name, False)

    async def remove(self, name: str) -> None:
        """Remove a schedule and its history. A running command continues."""
        if not await self._records.remove(name, self._by("remove", name)):
            raise await self._unknown(name)

    async def run(self, name: str) -> float:
        """Add a tick for the current time, even if the schedule is paused, and return its time.

        The leading scheduler starts it.
        """
        now = (await self._records.time()).now
        at = 0.0

        def add(record: ScheduleRecord) -> Change:
            nonlocal at
            changed, tick = ticks.add_manual(record, now)
            at = tick.scheduled_at
            return Change(changed)

        if await self._records.change(name, add, self._by("run", name)) is None:
            raise await self._unknown(name)
        return at

    async def history(self, name: str, limit: int = HISTORY_LIMIT) -> Sequence[HistoryRow]:
        """Return the results of the last ticks, latest first."""
        return await self._records.history(await self._record(name), limit)

    async def leader(self) -> str:
        """Return the name of the leading scheduler, or an empty string if no scheduler runs."""
        return await self._records.leader()

    # ---- records

    def _by(self, action: str, name: str) -> Mutation:
        return Mutation(self._actor, action, name)

    async def _set_paused(self, name: str, paused: bool) -> ScheduleView:
        def change(record: ScheduleRecord) -> Change | None:
            return None if record.paused is paused else Change(msgspec.structs.replace(record, paused=paused))

        found = await self._records.change(name, change, self._by("pause" if paused else "resume", name))
        if found is None:
            raise await self._unknown(name)
        return await self._view(found)

    async def _record(self, name: str) -> ScheduleRecord:
        found = await self._records.get(name)
        if found is None:
            raise await self._unknown(name)
        return found

    async def _unknown(self, name: str) -> UsageError:
        names = list(await self._records.all())
        known = f"there are: {', '.join(names[:20])}" if names else "there is none here; --frontier URL names a store"
        return UsageError(f"no such schedule: {name}", hint=did_you_mean(name, names) or known)

    async def _view(self, record: ScheduleRecord) -> ScheduleView:
        now = (await self._records.time()).now
        rows = await self._records.history(record, 1 + len(record.ticks))
        schedule = record.schedule
        same = msgspec.structs.asdict(schedule)
        fields: Mapping[str, Any] = {name: same[name] for name in ScheduleView.__struct_fields__ if name in same}
        return ScheduleView(
            **(dict(fields) | {"every_seconds": schedule.every_seconds or None}),
            paused=record.paused,
            added_at=record.added_at,
            next_at=next_time(schedule, now),
            running=[tick.scheduled_at for tick in record.ticks if tick.is_running],
            waiting=[tick.scheduled_at for tick in record.ticks if not tick.is_running],
            last=next((row for row in rows if row.outcome != "running"), None),
        )


def _replaced(found: ScheduleRecord, schedule: Schedule, now: float) -> ScheduleRecord:
    """Return a record with a changed schedule. If the times are unchanged, intervals keep their starting point."""
    before = found.schedule
    same_times = (before.cron, before.timezone, before.every_seconds) == (
        schedule.cron,
        schedule.timezone,
        schedule.every_seconds,
    )
    if same_times:
        schedule = msgspec.structs.replace(schedule, anchor=before.anchor)
    # Past times of the new expression are not caught up.
    cursor = found.cursor if same_times else now
    return msgspec.structs.replace(found, schedule=schedule, cursor=cursor)


def split_command(command: str | Sequence[str]) -> list[str]:
    """Return the words of a command given as text or as words. Raises UsageError for unbalanced quotes."""
    try:
        return shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise UsageError(f"cannot be split into words: {command[:200]}", hint="check its quotes") from error


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        raise UsageError(f"invalid schedule name: {name}", hint="use letters, digits, . _ and -, as in nightly-news")
    return name


def _settings(given: Mapping[str, Any]) -> ScheduleSettings:
    known = ScheduleSettings.__struct_fields__
    if unknown := next((name for name in given if name not in known), ""):
        hint = did_you_mean(unknown, known) or f"there are: {', '.join(known)}"
        raise UsageError(f"no such schedule setting: {unknown}", hint=hint)
    values = {name: value.isoformat() if isinstance(value, date) else value for name, value in given.items()}
    try:
        return msgspec.convert(values, ScheduleSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid schedule setting: {error}", hint=f"existing: {', '.join(known)}") from error


def _seconds(value: str | float, what: str) -> float:
    seconds = parse_duration(value, what) if isinstance(value, str) else float(value)
    if not 0 <= seconds < 1e10:
        raise UsageError(f"not a duration: {what} {value}", hint="as in 30s, 15m, 1h30m or 2d")
    return seconds


def _instant(until: str | None, timezone: str) -> float | None:
    return parse_instant(until, zone_of(timezone), "--until") if until is not None else None


def _chosen(kind: type[E], word: str, what: str) -> E:
    try:
        return kind(word)
    except ValueError as error:
        words = ", ".join(str(member) for member in kind)
        raise UsageError(f"unknown: {what} {word}", hint=f"one of {words}") from error


def _at_least(value: int, least: int, what: str) -> int:
    if type(value) is not int or value < least:
        raise UsageError(f"not a whole number from {least}: {what} {value}", hint=f"as in {what} {least + 1}")
    return value
