"""Nominal times of schedules: cron expressions by cronsim, intervals by arithmetic. Pure: without a clock."""

from __future__ import annotations

import math
import re
import zlib
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from skitter.errors import UsageError
from skitter.model.schedule import Schedule

LEAST_INTERVAL_SECONDS = 1.0
LISTED_TICKS = 1000
"""Ticks of one outage that are decided one by one; earlier ones are named together."""
LOOK_BACK_SECONDS = 7 * 86_400.0
"""Cron expressions are not searched further back than this after an outage."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+|\d+(?:\.\d+)?")
_LATEST = 253_402_300_799.0
"""The end of year 9999, which datetime cannot pass."""


class PassedTimes(NamedTuple):
    """Nominal times of a span, in order."""

    listed: list[float]
    unlisted_from: float = 0.0
    """The span before the first that is listed has ticks too, from about here; 0: it has none."""


def parse_duration(text: str, what: str) -> float:
    """Return the seconds of ``90``, ``45s``, ``1h30m`` or ``2d``."""
    word = text.strip().lower()
    if not _DURATION.fullmatch(word):
        raise UsageError(f"not a duration: {what} {text}", hint="as in 30s, 15m, 1h30m or 2d")
    if word[-1] in _UNITS:
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)([smhdw])", word))
    else:
        seconds = float(word)
    if not 0 <= seconds < 1e10:
        raise UsageError(f"too long: {what} {text}", hint="as in 30s, 15m, 1h30m or 2d")
    return seconds


def parse_instant(text: str, zone: tzinfo, what: str) -> float:
    """Return the time of ``2027-01-31`` (its midnight) or ``2027-01-31T18:00``, in the zone unless it has an offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"not a date: {what} {text}", hint="as in 2027-01-31 or 2027-01-31T18:00") from error
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).timestamp()


def zone_of(name: str) -> tzinfo:
    """Return a time zone; UsageError for one that is unknown here."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = "a name of the IANA database, as in Europe/Berlin; where the system has none: pip install tzdata"
        raise UsageError(f"no such time zone: {name}", hint=hint) from error


def check_times(schedule: Schedule, now: float) -> None:
    """UsageError for times that cannot be, or never come."""
    if bool(schedule.cron) == bool(schedule.every_seconds):
        raise UsageError(f"no time given: {schedule.name}", hint='give either --cron "0 2 * * *" or --every 1h')
    zone_of(schedule.timezone)
    if schedule.cron:
        try:
            CronSim(schedule.cron, datetime.fromtimestamp(now, UTC))
        except CronSimError as error:
            raise UsageError(
                f"not a cron expression: {schedule.cron}: {error}",
                hint='minute hour day month weekday, as in "0 2 * * *" or "*/15 8-18 * * MON-FRI"',
            ) from error
    elif schedule.every_seconds < LEAST_INTERVAL_SECONDS:
        raise UsageError(f"too short: --every {schedule.every_seconds:g}s", hint="give at least one second")
    elif schedule.jitter_seconds >= schedule.every_seconds:
        raise UsageError(
            f"jitter of {schedule.jitter_seconds:g} s reaches the next tick: --every {schedule.every_seconds:g}s",
            hint="give a jitter that is shorter than the interval",
        )
    if next_time(schedule, now) is None:
        raise UsageError(f"the schedule never runs: {schedule.name}", hint="check the expression and --until")


def next_time(schedule: Schedule, after: float) -> float | None:
    """Return the first nominal time later than ``after``; None: there is none."""
    return next(iter(upcoming(schedule, after, 1)), None)


def upcoming(schedule: Schedule, after: float, count: int) -> list[float]:
    """Return the next nominal times later than ``after``."""
    end = _LATEST if schedule.until is None else min(schedule.until, _LATEST)
    found: list[float] = []
    if schedule.cron:
        times = _cron_times(schedule, after)
        while len(found) < count and (at := next(times, None)) is not None and at <= end:
            found.append(at)
        return found
    first = _interval_number(schedule, after) + 1
    times_of = (schedule.anchor + number * schedule.every_seconds for number in range(first, first + count))
    return [at for at in times_of if at <= end]


def passed_times(schedule: Schedule, after: float, until: float) -> PassedTimes:
    """Return the nominal times later than ``after``, up to ``until``: the last ``LISTED_TICKS``."""
    end = until if schedule.until is None else min(schedule.until, until)
    if end <= after:
        return PassedTimes([])
    return _passed_cron(schedule, after, end) if schedule.cron else _passed_intervals(schedule, after, end)


def jitter_of(schedule: Schedule, scheduled_at: float) -> float:
    """Return how much later than its nominal time a tick starts: the same whoever asks."""
    share = zlib.crc32(f"{schedule.name} {scheduled_at:.3f}".encode()) / 2**32
    return schedule.jitter_seconds * share


def _passed_cron(schedule: Schedule, after: float, end: float) -> PassedTimes:
    start = max(after, end - LOOK_BACK_SECONDS)
    found: deque[float] = deque(maxlen=LISTED_TICKS)
    unlisted_from = 0.0
    if start > after:
        first = next_time(schedule, after)
        unlisted_from = first if first is not None and first <= start else 0.0
    for at in _cron_times(schedule, start):
        if at > end:
            break
        if len(found) == LISTED_TICKS:
            unlisted_from = unlisted_from or found[0]
        found.append(at)
    return PassedTimes(list(found), unlisted_from)


def _passed_intervals(schedule: Schedule, after: float, end: float) -> PassedTimes:
    first, last = _interval_number(schedule, after) + 1, _interval_number(schedule, end)
    listed_first = max(first, last - LISTED_TICKS + 1)
    listed = [schedule.anchor + number * schedule.every_seconds for number in range(listed_first, last + 1)]
    return PassedTimes(listed, schedule.anchor + first * schedule.every_seconds if listed_first > first else 0.0)


def _interval_number(schedule: Schedule, at: float) -> int:
    """Return the number of the last interval's end that is not later; nothing runs at the anchor itself."""
    return max(0, math.floor((at - schedule.anchor) / schedule.every_seconds + 1e-9))


def _cron_times(schedule: Schedule, after: float) -> Iterator[float]:
    last = after
    for moment in CronSim(schedule.cron, datetime.fromtimestamp(after, zone_of(schedule.timezone))):
        # In the hour that a clock has twice cronsim goes on from its first pass, whichever it is started in.
        if (at := moment.timestamp()) > last:
            last = at
            yield at
