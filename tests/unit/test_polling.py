"""How often workers ask."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skitter.policy.polling import ASKS_PER_SECOND, pause_seconds

chances = st.floats(min_value=0, max_value=1)


@given(st.floats(min_value=0, max_value=10), chances)
def test_one_worker_asks_when_something_is_ready(ready: float, chance: float) -> None:
    assert pause_seconds(ready, 1, chance) == ready


@given(st.floats(min_value=0, max_value=10), st.integers(min_value=0, max_value=100_000), chances)
def test_nobody_asks_before_something_can_be_ready(ready: float, workers: int, chance: float) -> None:
    assert pause_seconds(ready, workers, chance) >= ready


def test_many_workers_together_ask_as_often_as_few() -> None:
    for workers in (100, 1000, 10_000):
        assert (workers - 1) / pause_seconds(0.0, workers, 0.5) == ASKS_PER_SECOND
