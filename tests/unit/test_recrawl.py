from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.model.page_record import Visit
from skitter.policy.recrawl import (
    DEFAULT_RATE,
    MAX_HOSTS,
    MAX_INTERVAL_SECONDS,
    MAX_VISITS,
    MIN_INTERVAL_SECONDS,
    HostRates,
    change_rate,
    next_interval,
    with_visit,
)
from skitter.testing.recrawl_simulation import (
    DAY,
    NutchRule,
    RecrawlRule,
    StormCrawlerRule,
    equal_budget,
    simulated_pages,
)

seconds = st.floats(1.0, 400 * DAY)
rates = st.floats(1e-9, 1.0)
visits = st.lists(st.builds(Visit, seconds, st.booleans()), min_size=1, max_size=MAX_VISITS)


@given(st.integers(0, 12), st.integers(0, 12), seconds, rates)
def test_with_equal_intervals_it_is_the_bias_reduced_estimator_with_the_prior_in_place_of_its_constant(
    changed: int, unchanged: int, interval: float, prior: float
) -> None:
    n = changed + unchanged
    if not n:
        return
    expected = max(math.exp(-prior * interval), 1e-6)
    found = [Visit(interval, number < changed) for number in range(n)]
    closed = -math.log((unchanged + expected) / (n + 1)) / interval
    assert change_rate(found, prior) == pytest.approx(closed, rel=1e-3, abs=1e-15)


@given(visits, rates)
def test_the_rate_is_finite_and_positive_whatever_was_found(found: list[Visit], prior: float) -> None:
    assert 0 < change_rate(found, prior) < math.inf


@given(visits, rates, st.data())
def test_a_change_more_never_lowers_the_rate(found: list[Visit], prior: float, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(found) - 1))
    without = [*found[:place], Visit(found[place].seconds, False), *found[place + 1 :]]
    with_change = [*found[:place], Visit(found[place].seconds, True), *found[place + 1 :]]
    assert change_rate(with_change, prior) >= change_rate(without, prior) * (1 - 1e-5)


def test_without_visits_a_page_is_expected_to_be_as_others_of_its_host() -> None:
    assert change_rate([], 0.25) == 0.25


@pytest.mark.parametrize("mean_days", [0.2, 2.0, 30.0])
def test_the_estimate_finds_the_rate_of_a_page_that_is_visited_irregularly(mean_days: float) -> None:
    numbers = random.Random(3)
    estimates = []
    for _ in range(300):
        found: list[Visit] = []
        for _ in range(MAX_VISITS):
            interval = numbers.uniform(0.3, 1.7) * mean_days * DAY
            found = with_visit(found, interval, changed=numbers.expovariate(1 / (mean_days * DAY)) < interval)
        estimates.append(math.log(change_rate(found, DEFAULT_RATE) * mean_days * DAY))
    assert abs(sum(estimates) / len(estimates)) < 0.25, "a quarter too high or too low, at most"


@given(rates, st.one_of(st.just(0.0), st.floats(MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS)), st.floats(1.0, 1e9))
def test_the_interval_is_between_an_hour_and_ninety_days_and_at_most_doubled_or_halved(
    rate: float, previous: float, recrawl_seconds: float
) -> None:
    interval = next_interval(rate, previous, recrawl_seconds)
    assert MIN_INTERVAL_SECONDS <= interval <= MAX_INTERVAL_SECONDS
    if previous:
        assert previous / 2 <= interval <= previous * 2


@given(rates, rates)
def test_a_page_that_changes_more_often_is_never_fetched_less_often(one: float, other: float) -> None:
    assert next_interval(max(one, other), 0.0, DAY) <= next_interval(min(one, other), 0.0, DAY)


def test_a_page_that_changes_once_in_recrawl_seconds_is_fetched_once_in_recrawl_seconds() -> None:
    assert next_interval(1 / (3 * DAY), 0.0, 3 * DAY) == pytest.approx(3 * DAY)


def test_of_a_long_history_the_newest_visits_are_kept() -> None:
    found: list[Visit] = []
    for number in range(1, 3 * MAX_VISITS):
        found = with_visit(found, float(number), changed=False)
    assert [visit.seconds for visit in found] == [float(n) for n in range(2 * MAX_VISITS, 3 * MAX_VISITS)]


def test_a_host_is_known_by_its_pages_and_few_hosts_are_remembered() -> None:
    hosts = HostRates()
    assert hosts.of("a") == pytest.approx(DEFAULT_RATE)
    for _ in range(500):
        hosts.learn("a", 1e-3)
    assert hosts.of("a") == pytest.approx(1e-3, rel=0.01)
    assert hosts.of("b") == pytest.approx(DEFAULT_RATE)
    for number in range(MAX_HOSTS):
        hosts.learn(f"host{number}", 1e-3)
    assert hosts.of("a") == pytest.approx(DEFAULT_RATE), "forgotten"


@pytest.mark.parametrize("rival", [NutchRule, pytest.param(StormCrawlerRule, marks=pytest.mark.soak)])
def test_with_as_many_fetches_pages_are_fresher_than_by_rules_that_multiply(rival: type[RecrawlRule]) -> None:
    pages = simulated_pages(400, hosts=20)
    theirs, ours, _ = equal_budget(pages, rival, seconds=180 * DAY)
    assert ours.fetches <= theirs.fetches
    assert ours.freshness > theirs.freshness + 0.01
