"""How long a page may hold its worker's loop."""

from __future__ import annotations

from skitter.policy.loop_holds import HOLD_FACTOR, HOLD_SECONDS, HoldLimits


def test_a_host_that_is_not_known_has_the_least() -> None:
    assert HoldLimits().limit_seconds("a") == HOLD_SECONDS


def test_a_host_with_slow_callbacks_gets_more_and_others_do_not() -> None:
    limits = HoldLimits()
    limits.let_go("a", 15.0)
    limits.let_go("a", 2.0)
    assert limits.limit_seconds("a") == 15 * HOLD_FACTOR
    assert limits.limit_seconds("b") == HOLD_SECONDS, "one host cannot switch it off for all"


def test_where_three_hosts_are_slow_it_is_the_spider() -> None:
    limits = HoldLimits()
    for host, seconds in (("a", 15.0), ("b", 3.0), ("c", 2.0), ("d", 0.25)):
        limits.let_go(host, seconds)
    assert limits.limit_seconds("e") == 2 * HOLD_FACTOR
    assert limits.limit_seconds("b") == 3 * HOLD_FACTOR


def test_it_remembers_a_bounded_number_of_hosts() -> None:
    limits = HoldLimits()
    for number in range(5_000):
        limits.let_go(f"host {number}", 1.0 + number)
    assert len(limits._longest) == 1_000
    assert limits.limit_seconds("host 4999") == 5_000 * HOLD_FACTOR
