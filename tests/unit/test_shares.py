"""Shares of the workers: nothing is left over, and each gets by its slots and by what comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.policy.shares import LEAST_QUALITY, ShortWorker, quality_after, share_of

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
