"""The loss of a hold: the clock decides, whether or not a timer has run."""

from __future__ import annotations

import asyncio

import pytest

from skitter.cluster import loss as module
from skitter.cluster.loss import AnyLoss, Loss


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(module, "now_seconds", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def test_a_process_that_was_stopped_sees_the_loss_before_any_timer_runs(clock: Clock) -> None:
    loss = Loss()
    told: list[str] = []
    loss.on_set(lambda: told.append("lost"))
    loss.postpone(110.0)
    clock.now = 109.9
    assert not loss.is_set()
    clock.now = 110.0
    assert loss.is_set()
    assert told == ["lost"]
    await asyncio.wait_for(loss.wait(), 60)


async def test_a_loss_is_for_ever(clock: Clock) -> None:
    loss = Loss()
    loss.postpone(101.0)
    clock.now = 102.0
    # An answer that comes too late.
    loss.postpone(200.0)
    assert loss.is_set()
    assert loss.remaining_seconds() == 0.0


async def test_a_timer_that_runs_early_looks_again(clock: Clock) -> None:
    loss = Loss()
    loss.postpone(100.02)
    # The loop's clock goes on, and this one does not.
    await asyncio.sleep(0.1)
    assert not loss.is_set()
    clock.now = 100.02
    await asyncio.wait_for(loss.wait(), 60)


async def test_what_is_released_is_never_lost(clock: Clock) -> None:
    loss = Loss()
    loss.postpone(101.0)
    loss.end()
    clock.now = 1000.0
    assert not loss.is_set()


async def test_of_several_the_first_counts(clock: Clock) -> None:
    one, other = Loss(), Loss()
    both = AnyLoss([one, other])
    one.postpone(110.0)
    other.postpone(105.0)
    assert not both.is_set()
    clock.now = 105.0
    assert both.is_set()
    await asyncio.wait_for(both.wait(), 60)
    assert not one.is_set()
    one.end()
