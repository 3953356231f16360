"""Workers go to jobs by priority, and in turns among equals."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.policy.fleet_turns import Contender, allot


def job(name: str, priority: int = 0, **rest: Any) -> Contender:
    return Contender(key=("redis://x", name), priority=priority, **rest)


def names(allotted: dict[tuple[str, str], int]) -> dict[str, int]:
    return {name: workers for (_, name), workers in allotted.items()}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_highest_priority_gets_workers_first(workers: int) -> None:
    jobs = [job("low", -100), job("high", 100), job("normal")]
    assert list(names(allot(jobs, workers))) == ["high", "normal", "low"][:workers]


def test_each_has_one_before_any_has_two_and_the_rest_goes_to_the_highest() -> None:
    jobs = [job("low", -100, tie=1), job("one", 5), job("two", 5, tie=1)]
    assert names(allot(jobs, 6)) == {"one": 3, "two": 2, "low": 1}


def test_nothing_to_serve_needs_no_worker() -> None:
    assert allot([], 4) == {}


def test_a_job_in_its_turn_is_not_disturbed_by_its_equals() -> None:
    jobs = [job("new"), job("at work", in_turn=True, workers_elsewhere=3, served_at=9.0)]
    assert names(allot(jobs, 1)) == {"at work": 1}


def test_but_by_a_higher_one_at_once() -> None:
    assert names(allot([job("urgent", 1), job("at work", in_turn=True)], 1)) == {"urgent": 1}


def test_after_its_turn_it_is_the_others_turn_the_longest_waiting_first() -> None:
    jobs = [job("served", served_at=30.0), job("earlier", served_at=10.0), job("later", served_at=20.0)]
    assert list(names(allot(jobs, 2))) == ["earlier", "later"]


def test_a_job_that_nobody_serves_goes_before_one_that_other_nodes_serve() -> None:
    jobs = [job("served elsewhere", workers_elsewhere=1), job("left alone", served_at=50.0)]
    assert names(allot(jobs, 1)) == {"left alone": 1}


def test_a_job_that_had_nothing_ready_gets_what_nobody_else_wants() -> None:
    jobs = [job("rests", 1000, rests=True), job("low", -100)]
    assert names(allot(jobs, 1)) == {"low": 1}
    assert names(allot(jobs, 3)) == {"low": 2, "rests": 1}
