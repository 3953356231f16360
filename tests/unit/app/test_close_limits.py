"""Limits that close a job, and its statistics: by reports, whoever polls them."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.app import close_limits
from skitter.app.close_limits import CloseLimits, PeriodicStats
from skitter.errors import FrontierError
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.job import Command, JobSpec, State, StopReason
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.observe.events import Event


class Clock:
    """The monotonic clock of the module."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(close_limits, "time", clock)
    return clock


async def job(**settings: Any) -> Any:
    """A job with ten pages, of which three failed, one was dropped, and six gave two items each."""
    frontier = memory_frontier("j", MemoryStore())
    await frontier.begin(JobSpec(name="j", spider="", settings={"obey_robots": False, "per_host": 20, **settings}))
    (seeding,) = (await frontier.lease("w", 1)).leases
    entry = Fingerprinter((await frontier.job()).secret).entry
    links = [entry(Request(f"http://a.example/{number}")) for number in range(11)]
    await frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE, links=links)])
    leases = (await frontier.lease("w", 10)).leases
    endings = [*["callback"] * 3, "dropped", *[""] * 6]
    outcomes = [
        Outcome(
            lease=lease,
            ending=Ending.FAILED if error_class else Ending.DONE,
            error_class=error_class,
            tally={"stat:seen": 1} if error_class else {"items": 2, "stat:seen": 1},
        )
        for lease, error_class in zip(leases, endings, strict=True)
    ]
    await frontier.commit("w", outcomes)
    return frontier


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"close_after_items": 12}, "close_after_items"),
        ({"close_after_items": 13}, ""),
        ({"close_after_errors": 3}, "close_after_errors"),
        ({"close_after_errors": 4}, ""),
        ({"close_after_seconds": 60.0}, "close_after_seconds"),
        ({"close_after_seconds": 61.0}, ""),
        ({}, ""),
    ],
)
async def test_a_limit_that_is_reached_stops_the_job(clock: Clock, settings: dict[str, Any], reason: str) -> None:
    frontier, told = await job(**settings), list[Event]()
    limits = CloseLimits(frontier, told.append)
    clock.now += 60
    for _ in range(2):
        await limits.check(await frontier.report())
    state = await frontier.state()
    assert (state.state, state.reason) == ((State.STOPPED, reason) if reason else (State.RUNNING, ""))
    assert [event.fields["limit"] for event in told] == ([reason] if reason else [])


async def test_a_changed_limit_counts_and_a_paused_job_is_left_alone(clock: Clock) -> None:
    frontier = await job(close_after_items=12)
    limits = CloseLimits(frontier, lambda _: None)
    await frontier.command(Command.PAUSE)
    await limits.check(await frontier.report())
    assert (await frontier.state()).state is State.PAUSED
    await frontier.command(Command.RESUME)
    await frontier.change_settings({"close_after_items": 100})
    await limits.check(await frontier.report())
    assert (await frontier.state()).state is State.RUNNING
    await frontier.change_settings({"close_after_items": 5})
    await limits.check(await frontier.report())
    assert (await frontier.state()).reason == StopReason.CLOSE_AFTER_ITEMS


async def test_a_store_that_is_away_is_asked_again(clock: Clock) -> None:
    frontier, told = await job(close_after_items=1), list[Event]()

    class Away:
        unavailable = True

        async def command(self, *arguments: Any) -> Any:
            if self.unavailable:
                raise FrontierError("unavailable")
            return await frontier.command(*arguments)

    unavailable: Any = Away()
    limits = CloseLimits(unavailable, told.append)
    await limits.check(await frontier.report())
    assert told == []
    unavailable.unavailable = False
    await limits.check(await frontier.report())
    assert len(told) == 1


async def test_statistics_are_told_every_so_often(clock: Clock) -> None:
    frontier, told = await job(), list[Event]()
    report, stats = await frontier.report(), PeriodicStats(30.0, told.append)
    stats.update(report)
    clock.now += 29
    stats.update(report)
    assert told == []
    (lease,) = (await frontier.lease("w", 1)).leases
    await frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE, tally={"items": 6})])
    clock.now += 1
    stats.update(await frontier.report())
    (event,) = told
    assert event.text == "2 pages/min, 12 items/min; 7 pages, 18 items, 4 failed"
    assert event.fields["stats"] == {"seen": 10}
    stats.update(await frontier.report())
    assert len(told) == 1
