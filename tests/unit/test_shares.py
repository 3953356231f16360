"""Shares of the workers: nothing is left over, each gets by its slots and by what comes of it, and no host waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.policy.shares import (
    IDLE_PART,
    LEAST_QUALITY,
    MAX_HELD_SECONDS,
    SHARED_POLL_SECONDS,
    SHORT_SECONDS,
    ShortWorker,
    claimants,
    held_after,
    quality_after,
    share_of,
)

SLOTS = [4, 16, 64, 64]


def idle(slots: int, quality: float = 1.0) -> ShortWorker:
    return ShortWorker(slots, slots, 0.0, quality)


def granted_in_turn(workers: list[ShortWorker], ready: int, now: float) -> list[int]:
    """What each gets that asks, one after the other, for as long as anything is granted."""
    got = [0] * len(workers)
    before = -1
    while sum(got) > before:
        before = sum(got)
        for place, worker in enumerate(workers):
            others = [other for other in workers if other is not worker and other.missing]
            share = share_of(worker, others, ready - sum(got), now)
            worker.missing -= share
            got[place] += share
    return got


@given(
    slots=st.lists(st.integers(1, 64), min_size=2, max_size=5),
    ready=st.integers(0, 200),
    now=st.integers(0, 100),
    data=st.data(),
)
def test_nothing_is_left_while_a_worker_has_free_slots(
    slots: list[int], ready: int, now: float, data: st.DataObject
) -> None:
    workers = [ShortWorker(count, data.draw(st.integers(1, count)), 0.0) for count in slots]
    missing = sum(worker.missing for worker in workers)
    assert sum(granted_in_turn(workers, ready, now)) == min(ready, missing)


@pytest.mark.parametrize("ready", [40, 60, 100])
def test_over_time_parts_of_a_request_count_for_what_they_are(ready: int) -> None:
    seconds = 200
    got = [0] * len(SLOTS)
    for now in range(seconds):
        shares = granted_in_turn([idle(slots) for slots in SLOTS], ready, now)
        got = [one + more for one, more in zip(got, shares, strict=True)]
    for slots, requests in zip(SLOTS, got, strict=True):
        assert requests / seconds == pytest.approx(ready * slots / sum(SLOTS), rel=0.1)


def test_who_has_most_of_its_slots_filled_waits_for_the_others() -> None:
    assert share_of(ShortWorker(16, 4, 0.0), [idle(16)], 8, 1.0) == 0
    assert share_of(idle(16), [ShortWorker(16, 4, 0.0)], 8, 1.0) == 8


def test_a_worker_claims_no_more_than_it_misses() -> None:
    assert share_of(idle(16), [ShortWorker(640, 1, 0.0)], 8, 1.0) >= 7
    assert share_of(idle(16), [idle(16), idle(2)], 100, 1.0) == 16


def test_the_slots_of_a_worker_whose_pages_fail_count_less() -> None:
    quality = 1.0
    for _ in range(10):
        quality = quality_after(quality, 0, 16)
    assert quality == LEAST_QUALITY
    assert share_of(idle(16, quality), [idle(16)], 16, 1.0) <= 1
    for _ in range(10):
        quality = quality_after(quality, 16, 16)
    assert quality > 0.99


def asks_at(time: float) -> ShortWorker:
    return ShortWorker(16, 16, time)


def test_nothing_is_left_for_others_while_pages_are_fast() -> None:
    soon = asks_at(100.0 + SHARED_POLL_SECONDS)
    least = SHARED_POLL_SECONDS / IDLE_PART
    assert claimants([soon], 0.0, 100.0) == []
    assert claimants([soon], 0.99 * least, 100.0) == []
    assert claimants([soon], 1.01 * least, 100.0) == [soon]


def test_something_is_left_for_those_who_ask_within_a_part_of_a_page() -> None:
    late, soon, busy = asks_at(100.5), asks_at(100.2), ShortWorker(16, 15, 100.5)
    assert claimants([late, soon], 1.0, 100.0) == [soon]
    assert claimants([busy], 1.0, 100.0) == [busy], "it asks when what it holds ends"
    assert claimants([late, soon], 1.0, 100.3) == [late, soon]
    assert claimants([late, soon], 1.0, 100.21 + SHORT_SECONDS) == [late], "the other one has vanished"


def test_the_first_pages_tell_how_long_pages_are_held() -> None:
    assert held_after(0.0, []) == 0.0
    assert held_after(0.0, [0.3, 0.5]) == pytest.approx(0.4)


def test_how_long_pages_are_held_is_known_after_a_few() -> None:
    average = held_after(0.0, [1.0])
    for _ in range(3):
        average = held_after(average, [0.01] * 16)
    assert average < 0.2
    for _ in range(3):
        average = held_after(average, [0.5] * 16)
    assert average > 0.4


def test_a_page_that_timed_out_does_not_hide_that_the_others_are_fast() -> None:
    average = held_after(0.01, [60.0] + [0.01] * 15)
    assert average < MAX_HELD_SECONDS / 16
