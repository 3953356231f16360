"""The store's clock: never back, never still."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skitter.frontier.clock import StoreClock
from skitter.testing.clock import FakeClock


def test_it_follows_the_wall_clock() -> None:
    fake = FakeClock(500.0)
    clock = fake.of_store()
    assert clock.now() == 500.0
    fake.advance(3)
    assert clock.now() == 503.0


def test_it_starts_where_the_store_has_been() -> None:
    fake = FakeClock(500.0)
    clock = fake.of_store()
    assert clock.now(stored=900.0) == 900.0
    fake.advance(3)
    assert clock.now(stored=900.0) == 903.0


def test_a_wall_clock_that_is_set_back_does_not_stop_it() -> None:
    fake = FakeClock(500.0)
    clock = fake.of_store()
    clock.now()
    fake.set_back(400)
    fake.advance(2)
    assert clock.now() == 502.0


def test_a_wall_clock_that_is_set_forward_is_followed() -> None:
    fake = FakeClock(500.0)
    clock = fake.of_store()
    clock.now()
    fake.set_back(-100)
    assert clock.now() == 600.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1000, 1000), st.booleans()), max_size=30))
def test_two_processes_never_see_time_go_back_or_stand_still(steps: list[tuple[float, float, bool]]) -> None:
    fake = FakeClock()
    clocks = [fake.of_store(), fake.of_store()]
    stored = clocks[0].now()
    for elapsed, set_back, which in steps:
        fake.advance(elapsed)
        fake.set_back(set_back)
        before, stored = stored, clocks[which].now(stored)
        assert stored >= before
    for clock in clocks:
        before = clock.now(stored)
        fake.set_back(1e6)
        fake.advance(5)
        assert clock.now(before) - before >= 4.999
        stored = clock.now(before)


@given(st.floats(min_value=0, max_value=1e7), st.floats(min_value=1e9, max_value=2e9))
def test_asked_twice_at_one_instant_it_says_the_same(steady: float, wall: float) -> None:
    clock = StoreClock(lambda: wall, lambda: steady)
    first = clock.now()
    assert [clock.now() for _ in range(5)] == [first] * 5
