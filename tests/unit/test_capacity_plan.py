"""The arithmetic of a large crawl: no machine is needed to check it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.policy.capacity_plan import Question, plan

BILLION = Question(pages=1e9, days=7, bytes_per_page=60_000, hosts=1e6)
amounts = st.floats(min_value=1, max_value=1e12)
questions = st.builds(
    Question,
    pages=amounts,
    days=st.floats(min_value=0.01, max_value=1000),
    bytes_per_page=st.floats(min_value=100, max_value=1e7),
    hosts=st.floats(min_value=1, max_value=1e9),
    delay_seconds=st.floats(min_value=0, max_value=60),
)


def figures(question: Question) -> dict[str, float]:
    return {line.name: line.value for line in plan(question).lines}


def test_a_billion_pages_in_a_week() -> None:
    found = figures(BILLION)
    assert found["rate"] == pytest.approx(1653.4, abs=0.1)
    assert found["bandwidth"] == pytest.approx(0.794e9, rel=0.01)
    assert found["seen"] == 1.5e9
    # 1.5e9 seen at 9.5 bytes, half of them queued at 70 + 15, a million hosts.
    assert found["redis memory"] == pytest.approx(1.5e9 * 9.5 + 0.75e9 * 85 + 1e6 * 460)
    assert plan(BILLION).feasible


@pytest.mark.parametrize(
    ("changes", "bottleneck"),
    [
        ({}, "frontier memory"),
        ({"redis_bytes": 1e12}, "slots"),
        ({"redis_bytes": 1e12, "latency_seconds": 0.01}, "bandwidth"),
        ({"redis_bytes": 1e12, "latency_seconds": 0.01, "node_bits_per_second": 1e12}, "worker CPU"),
        ({"redis_bytes": 1e12, "latency_seconds": 0.01, "bytes_per_page": 100.0, "node_cores": 512}, "frontier calls"),
        ({"hosts": 100.0}, "politeness"),
    ],
)
def test_what_is_needed_most_is_named(changes: dict[str, float], bottleneck: str) -> None:
    answer = plan(msgspec.structs.replace(BILLION, **changes))
    assert answer.bottleneck == bottleneck
    assert answer.advice
    assert answer.feasible == (bottleneck != "politeness")


def test_politeness_is_a_matter_of_hosts_and_not_of_machines() -> None:
    few = msgspec.structs.replace(BILLION, hosts=1000.0, delay_seconds=1.0)
    # A million pages of each host, 1.05 s apart.
    assert figures(few)["politeness"] == pytest.approx(1e6 * 1.05 / 86_400)
    assert not plan(few).feasible
    assert figures(msgspec.structs.replace(few, delay_seconds=0.0))["politeness"] == 0


@given(questions)
def test_more_pages_never_need_less(question: Question) -> None:
    more = msgspec.structs.replace(question, pages=question.pages * 2)
    before, after = figures(question), figures(more)
    assert all(after[name] >= before[name] for name in before)


@given(questions)
def test_every_figure_says_what_it_rests_on(question: Question) -> None:
    assert all(line.because and line.basis in ("asked", "measured", "assumed") for line in plan(question).lines)


@pytest.mark.parametrize(("delay", "seconds_a_page"), [(0.0, 0.0), (0.1, 0.1), (1.0, 1.05)])
def test_only_a_delay_that_the_store_keeps_has_a_start_window_added(delay: float, seconds_a_page: float) -> None:
    found = figures(Question(pages=864_000, hosts=10, delay_seconds=delay, days=1))
    assert found["politeness"] == pytest.approx(seconds_a_page)


@pytest.mark.parametrize(("latency", "seconds_a_page"), [(0.5, 0.55), (4.0, 2.0)])
def test_without_a_delay_it_is_the_pace_of_public_hosts(latency: float, seconds_a_page: float) -> None:
    """Half a second and the start window; a host that takes longer has two requests in flight."""
    found = figures(Question(pages=864_000, hosts=10, latency_seconds=latency, days=1))
    assert found["politeness"] == pytest.approx(seconds_a_page)
