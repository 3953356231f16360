"""The figures that a worker tells of itself: moving averages, and the calls of callbacks."""

from __future__ import annotations

import pytest

from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.worker import worker_stats
from skitter.worker.worker_stats import AVERAGE_SECONDS, CallbackStats, PageAverages


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(worker_stats, "time", clock)
    return clock


def outcome(ending: Ending = Ending.DONE, latency_seconds: float | None = 0.1) -> Outcome:
    news = None if latency_seconds is None else HostNews(answered=True, latency_seconds=latency_seconds)
    return Outcome(lease=Lease(work=Work.PAGE, id=1, epoch=1, host_key="h"), ending=ending, news=news)


def commits(averages: PageAverages, clock: Clock, *, seconds: int, pages: int, latency_seconds: float = 0.1) -> None:
    for _ in range(seconds):
        clock.now += 1
        averages.add([outcome(latency_seconds=latency_seconds)] * pages)


@pytest.mark.parametrize("seconds", [2, 20, 200])
def test_a_steady_rate_is_told_as_it_is_from_the_beginning(clock: Clock, seconds: int) -> None:
    averages = PageAverages()
    assert (averages.pages_per_second, averages.latency_seconds) == (0.0, 0.0)
    commits(averages, clock, seconds=seconds, pages=40)
    # A commit a second is counted at the end of its second: 3 % too much at the most.
    assert averages.pages_per_second == pytest.approx(40, rel=0.04)
    assert averages.latency_seconds == pytest.approx(0.1)


def test_new_pages_count_more_than_old_ones(clock: Clock) -> None:
    averages = PageAverages()
    commits(averages, clock, seconds=200, pages=40)
    commits(averages, clock, seconds=int(AVERAGE_SECONDS), pages=10, latency_seconds=0.5)
    assert 15 < averages.pages_per_second < 25
    assert 0.2 < averages.latency_seconds < 0.4


def test_a_worker_that_gets_nothing_slows_down_by_itself(clock: Clock) -> None:
    averages = PageAverages()
    commits(averages, clock, seconds=60, pages=40)
    clock.now += 4 * AVERAGE_SECONDS
    assert averages.pages_per_second < 1
    assert averages.latency_seconds == pytest.approx(0.1), "what it met with last"


def test_failures_are_no_pages_and_who_did_not_answer_has_no_latency(clock: Clock) -> None:
    averages = PageAverages()
    clock.now += 1
    averages.add([outcome(Ending.FAILED, None), outcome(Ending.RETRY, None), outcome(Ending.FAILED, 0.3)])
    assert averages.pages_per_second == 0
    assert averages.latency_seconds == pytest.approx(0.3)


def test_calls_are_handed_over_once_and_the_longest_stays() -> None:
    stats = CallbackStats()
    for name, seconds in [("parse", 0.5), ("parse", 1.5), ("parse_book", 0.25)]:
        stats.add(name, seconds)
    told = {"calls:parse": 2, "call_us:parse": 2_000_000, "calls:parse_book": 1, "call_us:parse_book": 250_000}
    assert stats.take_tally() == told
    assert stats.take_tally() == {}
    stats.add("parse", 0.1)
    assert stats.take_tally() == {"calls:parse": 1, "call_us:parse": 100_000}
    assert stats.longest_seconds == {"parse": 1.5, "parse_book": 0.25}
