"""Figures that a worker tells of itself: moving averages of its pages, and how often and how long callbacks ran.

Nobody decides by them. They are updated once a commit, except for a few numbers that each callback adds to.
"""

from __future__ import annotations

import math
import time
from typing import Final

from skitter.model.outcome import Ending, Outcome
from skitter.model.worker import CALL_MICROSECONDS, CALLS

AVERAGE_SECONDS: Final = 15.0
"""Age at which a page counts for a third in the averages."""
_DONE: Final = (Ending.DONE, Ending.UNCHANGED)


class PageAverages:
    """Exponential moving averages of pages done a second and of response times."""

    def __init__(self) -> None:
        self._started_at = self._updated_at = time.monotonic()
        self._done = self._answers = self._latency_seconds = 0.0

    def add(self, outcomes: list[Outcome]) -> None:
        """Count the accepted outcomes of one commit."""
        done, answers, latency_seconds = 0, 0, 0.0
        for outcome in outcomes:
            if outcome.ending in _DONE:
                done += 1
            if (news := outcome.news) is not None and news.latency_seconds is not None:
                answers += 1
                latency_seconds += news.latency_seconds
        now = time.monotonic()
        old = math.exp((self._updated_at - now) / AVERAGE_SECONDS)
        self._updated_at = now
        self._done = self._done * old + done
        self._answers = self._answers * old + answers
        self._latency_seconds = self._latency_seconds * old + latency_seconds

    @property
    def pages_per_second(self) -> float:
        now = time.monotonic()
        # Of a worker that began just now, what it could have counted since then is less.
        seen = AVERAGE_SECONDS * -math.expm1((self._started_at - now) / AVERAGE_SECONDS)
        return self._done * math.exp((self._updated_at - now) / AVERAGE_SECONDS) / seen if seen > 0 else 0.0

    @property
    def latency_seconds(self) -> float:
        return self._latency_seconds / self._answers if self._answers else 0.0


class CallbackStats:
    """Calls of each callback: how many, and how long they took, waiting included."""

    def __init__(self) -> None:
        self.longest_seconds: dict[str, float] = {}
        """The longest call of each so far."""
        self._new: dict[str, tuple[int, float]] = {}

    def add(self, name: str, seconds: float) -> None:
        """Count a call that has ended."""
        calls, total = self._new.get(name, (0, 0.0))
        self._new[name] = (calls + 1, total + seconds)
        if seconds > self.longest_seconds.get(name, -1.0):
            self.longest_seconds[name] = seconds

    def take_tally(self) -> dict[str, int]:
        """Return what has been counted since the last time, as counters of a commit."""
        new, self._new = self._new, {}
        tally = {CALLS + name: calls for name, (calls, _) in new.items()}
        return tally | {CALL_MICROSECONDS + name: round(seconds * 1e6) for name, (_, seconds) in new.items()}
