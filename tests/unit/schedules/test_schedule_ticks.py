"""Decisions about ticks: overlap, catch-up, deadlines, claims and clocks that are set."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from skitter.model.schedule import (
    CatchUp,
    Claim,
    JobSituation,
    Overlap,
    Schedule,
    ScheduleRecord,
    Tick,
    TickOutcome,
)
from skitter.policy import schedule_ticks as ticks
from skitter.policy.schedule_ticks import StoreTime

ME = Claim("me", "", 10_000_000.0)
FREE = JobSituation.STARTABLE


def record(cursor: float = 1000.0, **settings: Any) -> ScheduleRecord:
    schedule = Schedule(name="s", command=["crawl"], job="news", every_seconds=60, anchor=0.0, **settings)
    return ScheduleRecord(schedule=schedule, added_at=1000.0, cursor=cursor)


def waiting(at: float, **fields: Any) -> Tick:
    return Tick(scheduled_at=at, start_at=at, **fields)


def running(at: float, **fields: Any) -> Tick:
    return Tick(scheduled_at=at, start_at=at, claim=ME, epoch=1, started_at=at, **fields)


def with_ticks(found: ScheduleRecord, *there: Tick) -> ScheduleRecord:
    return msgspec.structs.replace(found, ticks=list(there))


def start(found: ScheduleRecord, now: float, situation: JobSituation = FREE) -> ticks.Decision:
    return ticks.start(found, StoreTime(now, now), ME, situation)


def outcomes(decision: ticks.Decision) -> list[tuple[float, str]]:
    return [(row.scheduled_at, row.outcome) for row in decision.rows]


# ---- expecting


def test_a_tick_waits_when_its_time_has_come_and_is_expected_once() -> None:
    decision = ticks.expect(record(), 1021.0)
    assert [tick.scheduled_at for tick in decision.record.ticks] == [1020.0]
    again = ticks.expect(decision.record, 1021.5)
    assert again.record.ticks == decision.record.ticks
    assert not again.rows


@pytest.mark.parametrize(
    ("catch_up", "kept", "missed"),
    [
        (CatchUp.NONE, [], [1020, 1080, 1140]),
        (CatchUp.LATEST, [1140], [1020, 1080]),
        (CatchUp.ALL, [1020, 1080, 1140], []),
    ],
)
def test_ticks_that_passed_without_a_scheduler(catch_up: CatchUp, kept: list[float], missed: list[float]) -> None:
    decision = ticks.expect(record(catch_up=catch_up), 1170.0)
    assert [tick.scheduled_at for tick in decision.record.ticks] == kept
    assert outcomes(decision) == [(at, "missed") for at in missed]
    assert all("no scheduler ran" in row.reason for row in decision.rows)


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_change_of_the_leader_makes_no_tick_late(catch_up: CatchUp) -> None:
    decision = ticks.expect(record(catch_up=catch_up), 1020.0 + ticks.LATE_SECONDS)
    assert [(tick.scheduled_at, tick.caught_up) for tick in decision.record.ticks] == [(1020.0, False)]


def test_the_latest_of_an_outage_gives_way_to_a_tick_that_is_due() -> None:
    decision = ticks.expect(record(), 1141.0)
    assert [tick.scheduled_at for tick in decision.record.ticks] == [1140.0]
    assert outcomes(decision) == [(1020, "missed"), (1080, "missed")]


def test_while_paused_ticks_are_skipped_with_that_reason() -> None:
    paused = msgspec.structs.replace(record(), paused=True)
    decision = ticks.expect(paused, 1081.0)
    assert outcomes(decision) == [(1020, "skipped"), (1080, "skipped")]
    assert {row.reason for row in decision.rows} == {"the schedule is paused"}
    assert not decision.record.ticks


def test_an_outage_of_years_is_bounded_and_named() -> None:
    decision = ticks.expect(record(catch_up=CatchUp.ALL), 1000.0 + 400_000_000)
    assert len(decision.record.ticks) == 1000
    ((row,), first) = decision.rows, decision.record.ticks[0]
    assert (row.scheduled_at, row.outcome) == (1020, "missed")
    assert ticks.shown_time(first.scheduled_at) in row.reason


def test_a_clock_that_is_set_back_and_forth_runs_nothing_twice() -> None:
    found, ran = record(), []
    clock = [1021, 1081, 1141, 1030, 1081, 1142, 1201, 1000, 1141, 1202, 1261]
    for now in clock:
        expected = ticks.expect(found, float(now))
        decision = start(expected.record, float(now))
        found = decision.record
        for tick in decision.begun:
            ran.append(tick.scheduled_at)
            found = ticks.end(found, tick)
    assert ran == [1020, 1080, 1140, 1200, 1260]


def test_a_clock_that_leapt_for_a_moment_costs_no_later_tick() -> None:
    found = record()
    far = ticks.expect(found, 1e9)
    decision = start(far.record, 1e9)
    for tick in decision.begun:
        found = ticks.end(decision.record, tick)
    back = ticks.expect(found, 1021.0)
    assert not back.record.ticks, "what lies before the time that the clock was set back to is not searched"
    assert [tick.scheduled_at for tick in ticks.expect(back.record, 1081.0).record.ticks] == [1080.0]


def test_a_tick_that_was_forgotten_by_its_time_does_not_run_again() -> None:
    found = record()
    for number in range(ticks.STARTED_KEPT + 10):
        found = ticks.end(found, running(1020.0 + 60 * number))
    assert (len(found.started), found.floor) == (ticks.STARTED_KEPT, 1020.0 + 60 * 9)
    found = msgspec.structs.replace(found, cursor=1000.0)
    assert not ticks.expect(found, 1600.0).record.ticks


def test_jitter_moves_the_start_and_not_the_tick() -> None:
    decision = ticks.expect(record(jitter_seconds=50.0), 1020.0)
    (tick,) = decision.record.ticks
    assert (tick.scheduled_at, 1020 < tick.start_at < 1070) == (1020.0, True)
    assert not start(decision.record, tick.start_at - 0.01).begun
    assert start(decision.record, tick.start_at).begun


def test_a_tick_by_command_has_a_time_of_its_own() -> None:
    found, first = ticks.add_manual(record(), 1020.0)
    found, second = ticks.add_manual(found, 1020.0)
    assert (first.scheduled_at, second.scheduled_at) == (1020.0, 1020.001)
    assert all(tick.manual for tick in found.ticks)


# ---- starting


def test_a_tick_runs_with_a_claim_and_a_key_of_its_own() -> None:
    decision = start(with_ticks(record(), waiting(1020)), 1021.0)
    (tick,) = decision.begun
    assert (tick.claim, tick.epoch, tick.started_at) == (ME, 1, 1021.0)
    assert ticks.run_key(decision.record, tick) == "s@1020.000#1"
    assert ticks.run_key(decision.record, msgspec.structs.replace(tick, attempt=2)) == "s@1020.000#2"


@pytest.mark.parametrize(
    ("overlap", "expected", "left"),
    [
        (Overlap.SKIP, [(1080, "skipped")], [1020]),
        (Overlap.QUEUE, [], [1020, 1080]),
        (Overlap.REPLACE, [], [1020, 1080]),
        (Overlap.ALLOW, [], [1020, 1080]),
    ],
)
def test_overlap_with_a_run_that_goes_on(overlap: Overlap, expected: list[Any], left: list[float]) -> None:
    found = with_ticks(record(overlap=overlap), running(1020), waiting(1080))
    decision = start(found, 1081.0, JobSituation.WORKING)
    assert outcomes(decision) == expected
    assert [tick.scheduled_at for tick in decision.record.ticks] == left
    assert [tick.scheduled_at for tick in decision.begun] == ([1080] if overlap is Overlap.ALLOW else [])
    first = decision.record.ticks[0]
    assert first.replaced_by == (1080 if overlap is Overlap.REPLACE else 0)
    if overlap is Overlap.SKIP:
        assert decision.rows[0].reason == f"the run of {ticks.shown_time(1020)} is still running"


def test_ticks_that_queue_run_one_after_the_other() -> None:
    found = with_ticks(record(overlap=Overlap.QUEUE), waiting(1020), waiting(1080), waiting(1140))
    ran = []
    for _ in range(3):
        decision = start(found, 1141.0)
        (tick,) = decision.begun
        ran.append(tick.scheduled_at)
        found = ticks.end(decision.record, tick)
    assert ran == [1020, 1080, 1140]


def test_ticks_that_are_caught_up_wait_for_each_other_also_with_skip() -> None:
    found = with_ticks(record(catch_up=CatchUp.ALL), waiting(1020, caught_up=True), waiting(1080, caught_up=True))
    decision = start(found, 1200.0)
    assert [tick.scheduled_at for tick in decision.begun] == [1020]
    assert not decision.rows
    assert len(decision.record.ticks) == 2


def test_a_tick_that_replaces_begins_when_the_run_has_stopped() -> None:
    found = with_ticks(record(overlap=Overlap.REPLACE), running(1020), waiting(1080))
    found = start(found, 1081.0, JobSituation.WORKING).record
    assert not start(found, 1082.0, JobSituation.WORKING).begun
    stopped = ticks.end(found, found.ticks[0])
    (tick,) = start(stopped, 1083.0, JobSituation.STOPPED).begun
    assert (tick.scheduled_at, tick.replaces) == (1080, True)


def test_of_two_ticks_that_would_replace_the_later_does() -> None:
    found = with_ticks(record(overlap=Overlap.REPLACE), running(1020), waiting(1080), waiting(1140))
    decision = start(found, 1141.0)
    assert outcomes(decision) == [(1080, "skipped")]
    assert "replaced by" in decision.rows[0].reason


def test_at_most_so_many_instances() -> None:
    found = with_ticks(record(overlap=Overlap.ALLOW, max_instances=2), running(1020), waiting(1080), waiting(1140))
    decision = start(found, 1141.0)
    assert [tick.scheduled_at for tick in decision.begun] == [1080]
    assert outcomes(decision) == [(1140, "skipped")]
    assert decision.rows[0].reason == "2 instances are running"


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
@pytest.mark.parametrize(
    ("situation", "reason"),
    [(JobSituation.PAUSED, "the job is paused"), (JobSituation.STOPPED, "the job was stopped by command")],
)
def test_what_an_operator_said_of_the_job_holds(overlap: Overlap, situation: JobSituation, reason: str) -> None:
    decision = start(with_ticks(record(overlap=overlap), waiting(1020)), 1021.0, situation)
    assert [(row.outcome, row.reason) for row in decision.rows] == [(TickOutcome.SKIPPED, reason)]


def test_a_job_that_others_work_on_counts_as_a_run() -> None:
    decision = start(with_ticks(record(), waiting(1020)), 1021.0, JobSituation.WORKING)
    assert [row.reason for row in decision.rows] == ["other processes are working on the job: news"]


@pytest.mark.parametrize(("now", "expected"), [(1030.0, "runs"), (1031.0, "missed")])
def test_a_tick_starts_within_its_time_or_is_missed(now: float, expected: str) -> None:
    decision = start(with_ticks(record(start_within_seconds=10.0), waiting(1020)), now)
    assert bool(decision.begun) is (expected == "runs")
    assert [row.reason for row in decision.rows] == ([] if expected == "runs" else ["it could not start within 10 s"])


def test_a_queue_is_bounded() -> None:
    found = with_ticks(record(overlap=Overlap.QUEUE), running(0), *[waiting(float(n)) for n in range(1, 1005)])
    decision = start(found, 2000.0)
    assert [row.scheduled_at for row in decision.rows] == [1001, 1002, 1003, 1004]
    assert len(decision.record.ticks) == 1001


def test_each_tick_has_its_job_where_several_run() -> None:
    found = record(overlap=Overlap.ALLOW)
    assert ticks.tick_job(found, waiting(1020)) == "news@19700101T001700Z"
    assert ticks.tick_job(found, waiting(1020.25)) == "news@19700101T001700.250Z"
    assert ticks.tick_job(record(), waiting(1020)) == "news"


# ---- claims


def test_a_tick_of_a_dead_scheduler_is_taken_over_and_its_late_words_are_refused() -> None:
    dead = msgspec.structs.replace(running(1020), claim=Claim("dead", "", 1030.0))
    found = with_ticks(record(), dead)
    assert not ticks.take_over(found, StoreTime(1029.0, 1029.0), ME).begun
    decision = ticks.take_over(found, StoreTime(1031.0, 1031.0), ME)
    (tick,) = decision.begun
    assert (tick.epoch, tick.claim, tick.attempt) == (2, ME, 1)
    assert ticks.held(decision.record, dead) is None
    assert ticks.held(decision.record, tick) == tick


def test_claims_end_with_the_boot_of_the_machine() -> None:
    claim = Claim("me", "boot-1", 5000.0)
    assert not StoreTime(0.0, 10.0, "boot-1").is_over(claim)
    assert StoreTime(0.0, 10.0, "boot-2").is_over(claim)


@pytest.mark.parametrize(
    ("exit_code", "attempt", "again"),
    [(1, 1, True), (1, 2, True), (1, 3, False), (0, 1, False), (2, 1, False), (3, 1, True), (-9, 1, True)],
)
def test_failures_are_retried_so_often(exit_code: int, attempt: int, again: bool) -> None:
    found = record(retries=2)
    assert ticks.is_retried(found, running(1020, attempt=attempt), exit_code) is again


def test_a_run_that_was_replaced_is_not_retried() -> None:
    assert not ticks.is_retried(record(retries=2), running(1020, replaced_by=1080.0), 143)
