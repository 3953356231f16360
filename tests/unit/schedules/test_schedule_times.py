"""Nominal times of schedules, also where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from skitter.errors import UsageError
from skitter.model.schedule import Schedule
from skitter.policy.schedule_times import (
    LISTED_TICKS,
    check_times,
    jitter_of,
    next_time,
    parse_duration,
    parse_instant,
    passed_times,
    upcoming,
    zone_of,
)


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def cron(expression: str, zone: str = "UTC") -> Schedule:
    return Schedule(name="s", command=["jobs"], cron=expression, timezone=zone)


def every(seconds: float, anchor: float = 1000.0, until: float | None = None) -> Schedule:
    return Schedule(name="s", command=["jobs"], every_seconds=seconds, anchor=anchor, until=until)


CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Asia/Shanghai", "2026-03-29"),
]
"""Days on which clocks change, Lord Howe's by half an hour; and a zone where they do not."""
EXPRESSIONS = [
    "*/15 * * * *",
    "30 * * * *",
    "0 2 * * *",
    "30 1 * * *",
    "30 2 * * *",
    "*/20 1-3 * * *",
    "0 0 * * *",
    "15,45 2 * * SUN",
]


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_times_where_clocks_change_are_those_of_cronsim(zone: str, day: str, expression: str) -> None:
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)) - timedelta(hours=12)
    end = (begin + timedelta(days=2)).timestamp()
    expected = []
    for moment in CronSim(expression, begin):
        if moment.timestamp() > end:
            break
        expected.append(moment.timestamp())
    schedule = cron(expression, zone)
    assert upcoming(schedule, begin.timestamp(), len(expected)) == expected
    assert passed_times(schedule, begin.timestamp(), end).listed == expected
    # A scheduler asks from the last tick on, or from any other moment.
    one_by_one, last = [], begin.timestamp()
    while (found := next_time(schedule, last)) is not None and found <= end:
        one_by_one.append(found)
        last = found
    assert one_by_one == expected
    moments = range(int(begin.timestamp()), int(end), 600)
    in_pieces = [tick for moment in moments for tick in passed_times(schedule, moment, moment + 600).listed]
    assert [tick for tick in in_pieces if tick <= end] == expected


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # A time that the clock leaps over comes when the leap is over.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]),
        # A time that the clock has twice is the first of both.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00", ["2026-11-01T05:30Z", "2026-11-02T06:30Z"]),
        # Lord Howe's clock leaps from 2:00 to 2:30.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-03T15:30Z", "2026-10-04T15:15Z"]),
        ("0 2 * * *", "Asia/Shanghai", "2026-11-17T00:00", ["2026-11-16T18:00Z", "2026-11-17T18:00Z"]),
    ],
)
def test_known_times(expression: str, zone: str, after: str, expected: list[str]) -> None:
    found = upcoming(cron(expression, zone), at(after, zone), 2)
    assert [datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%MZ") for moment in found] == expected


def test_intervals_are_counted_from_their_anchor() -> None:
    assert upcoming(every(60), 1000, 3) == [1060, 1120, 1180]
    assert upcoming(every(60), 1060.5, 1) == [1120]
    assert upcoming(every(60), 10, 1) == [1060], "nothing runs before or at the anchor"
    assert passed_times(every(60), 1060, 1200).listed == [1120, 1180]
    assert passed_times(every(0.1), 1000, 1001).listed == pytest.approx([1000 + n / 10 for n in range(1, 11)])


def test_nothing_comes_after_the_end_date() -> None:
    assert upcoming(every(60, until=1130), 1000, 5) == [1060, 1120]
    assert next_time(every(60, until=1130), 1120) is None
    assert passed_times(every(60, until=1130), 1000, 5000).listed == [1060, 1120]
    ended = Schedule(name="s", command=["jobs"], cron="0 2 * * *", until=at("2026-01-03T02:00"))
    assert len(upcoming(ended, at("2026-01-01T12:00"), 5)) == 2


@pytest.mark.parametrize("schedule", [every(1.0, anchor=0.0), cron("* * * * *")])
def test_a_long_outage_lists_the_last_ticks_and_names_the_others(schedule: Schedule) -> None:
    now = at("2036-01-01T00:00:30")
    found = passed_times(schedule, at("2026-01-01T00:00:00"), now)
    assert len(found.listed) == LISTED_TICKS
    assert found.listed == sorted(found.listed)
    assert now - found.listed[-1] < 60
    assert 0 < found.unlisted_from - at("2026-01-01T00:00:00") <= 60


def test_a_short_outage_names_all() -> None:
    found = passed_times(cron("0 2 1 1 *"), at("2026-06-01T00:00:00"), at("2026-12-31T00:00:00"))
    assert (found.listed, found.unlisted_from) == ([], 0.0)


def test_jitter_is_the_same_for_everybody_and_differs_by_tick() -> None:
    schedule = Schedule(name="s", command=["jobs"], every_seconds=60, jitter_seconds=30)
    offsets = [jitter_of(schedule, tick) for tick in upcoming(schedule, 0, 50)]
    assert offsets == [jitter_of(schedule, tick) for tick in upcoming(schedule, 0, 50)]
    assert all(0 <= offset < 30 for offset in offsets)
    assert len(set(offsets)) > 40


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("45s", 45), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text, "--every") == seconds


@pytest.mark.parametrize("text", ["", "h", "1x", "-5", "1h 30m", "nan", "1e9", "9" * 12])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="--every") as error:
        parse_duration(text, "--every")
    assert error.value.hint


def test_dates_are_of_the_zone_unless_they_say_otherwise() -> None:
    assert parse_instant("2027-01-31", zone_of("Asia/Shanghai"), "--until") == at("2027-01-30T16:00")
    assert parse_instant("2027-01-31T18:00+01:00", UTC, "--until") == at("2027-01-31T17:00")
    with pytest.raises(UsageError, match="--until tomorrow"):
        parse_instant("tomorrow", UTC, "--until")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cron": "61 * * * *"}, "not a cron expression: 61"),
        ({"cron": "* * * *"}, "not a cron expression"),
        ({"cron": "0 0 31 2 *"}, "not a cron expression"),
        ({"cron": "0 0 */20 2 1L"}, "the schedule never runs"),
        ({"cron": "0 2 * * *", "timezone": "Europe/Atlantis"}, "no such time zone: Europe/Atlantis"),
        ({"cron": "0 2 * * *", "timezone": "../etc/passwd"}, "no such time zone"),
        ({"cron": "0 2 * * *", "every_seconds": 5.0}, "no time given"),
        ({}, "no time given"),
        ({"every_seconds": 0.5}, "too short"),
        ({"every_seconds": 10.0, "jitter_seconds": 10.0}, "reaches the next tick"),
        ({"every_seconds": 10.0, "until": 5.0}, "the schedule never runs"),
    ],
)
def test_refused_times(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        check_times(Schedule(name="s", command=["jobs"], **changes), 1000.0)
    assert error.value.hint


def test_six_fields_begin_with_seconds() -> None:
    assert upcoming(cron("*/20 * * * * *"), 0, 3) == [20, 40, 60]
