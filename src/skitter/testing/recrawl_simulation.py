"""Simulated web whose pages change at known rates, to measure the freshness that recrawl rules achieve.

The changes of a page are a Poisson process. The rules of Nutch and StormCrawler are simulated as in their source code,
with their default settings, so that a rule can be compared with them: which one is fresher with the same number of
fetches?
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from skitter.model.page_record import Visit
from skitter.policy import recrawl

DAY = 86_400.0


class SimulatedPage(msgspec.Struct, frozen=True):
    """Page of the simulated web."""

    host: str
    rate: float
    """Changes per second."""


def simulated_pages(
    number: int, *, seed: int = 1, median_seconds: float = 30 * DAY, hosts: int = 100, distribution: str = "lognormal"
) -> list[SimulatedPage]:
    """Return pages whose times between changes range from hours to years, both across hosts and within each host."""
    random_numbers = random.Random(seed)
    of_hosts = [random_numbers.lognormvariate(0.0, 1.5) / median_seconds for _ in range(hosts)]

    def within_host() -> float:
        if distribution == "gamma":
            return max(random_numbers.gammavariate(0.5, 2.0), 1e-4)
        return random_numbers.lognormvariate(0.0, 1.2)

    return [SimulatedPage(f"host{n % hosts}", of_hosts[n % hosts] * within_host()) for n in range(number)]


class RecrawlRule(Protocol):
    """Rule that says when a page is fetched next."""

    def next_seconds(self, page: int, host: str, elapsed: float | None, *, changed: bool) -> float:
        """Return the seconds until the next fetch; ``elapsed``: since the previous fetch, None at the first one."""
        ...


class SkitterRule:
    """Rule of ``skitter.policy.recrawl``, as a worker applies it."""

    def __init__(self, recrawl_seconds: float) -> None:
        self._recrawl_seconds = recrawl_seconds
        self._host_rates = recrawl.HostRates()
        self._visits: dict[int, list[Visit]] = {}
        self._intervals: dict[int, float] = {}

    def next_seconds(self, page: int, host: str, elapsed: float | None, *, changed: bool) -> float:
        visits = self._visits.get(page, [])
        rate = self._host_rates.of(host)
        if elapsed is not None:
            visits = recrawl.with_visit(visits, elapsed, changed=changed)
            rate = recrawl.change_rate(visits, rate)
            self._host_rates.learn(host, rate)
        self._visits[page] = visits
        self._intervals[page] = recrawl.next_interval(rate, self._intervals.get(page, 0.0), self._recrawl_seconds)
        return self._intervals[page]


class NutchRule:
    """AdaptiveFetchSchedule of Nutch 1.x: inc_rate 0.4, dec_rate 0.2, sync_delta_rate 0.3, starting at 30 days.

    Its interval is at most a year, but no fetch is later than 90 days (db.fetch.interval.max). It fetches a page that
    has not changed for longer than a year far too often (NUTCH-1564): simulate a year at most.
    """

    def __init__(self) -> None:
        self._intervals: dict[int, float] = {}
        self._unmodified_seconds: dict[int, float] = {}

    def next_seconds(self, page: int, host: str, elapsed: float | None, *, changed: bool) -> float:  # noqa: ARG002
        interval = self._intervals.get(page, 30 * DAY)
        unmodified = 0.0
        if elapsed is not None and changed:
            interval *= 1 - 0.2
        elif elapsed is not None:
            interval *= 1 + 0.4
            unmodified = self._unmodified_seconds.get(page, 0.0) + elapsed
        interval = min(max(interval, unmodified, 60.0), 365 * DAY)
        self._intervals[page], self._unmodified_seconds[page] = interval, unmodified
        return min(interval - 0.3 * unmodified, 90 * DAY)


class StormCrawlerRule:
    """AdaptiveScheduler of StormCrawler: rates 0.5 and 0.5, starting at a day, between an hour and two weeks."""

    def __init__(self) -> None:
        self._intervals: dict[int, float] = {}

    def next_seconds(self, page: int, host: str, elapsed: float | None, *, changed: bool) -> float:  # noqa: ARG002
        interval = self._intervals.get(page, DAY)
        if elapsed is not None:
            interval = 0.5 * interval + 0.5 * 3600 if changed else min(interval * 1.5, 14 * DAY)
        self._intervals[page] = interval
        return interval


class Freshness(msgspec.Struct, frozen=True):
    """Result of a simulation."""

    fetches: int
    freshness: float
    """Share of pages whose last fetch is up to date, averaged over time."""


def simulate(pages: Sequence[SimulatedPage], rule: RecrawlRule, *, seconds: float, seed: int = 2) -> Freshness:
    """Fetch all pages once, then each page when the rule says, for this many seconds."""
    random_numbers = random.Random(seed)
    queue = [(rule.next_seconds(n, page.host, None, changed=False), n, 0.0) for n, page in enumerate(pages)]
    heapq.heapify(queue)
    fetches, fresh = 0, 0.0
    while queue[0][0] < seconds:
        now, number, last = queue[0]
        page = pages[number]
        # A Poisson process has no memory, so the time until the next change can be drawn anew at each fetch.
        unchanged_seconds = random_numbers.expovariate(page.rate)
        fresh += min(unchanged_seconds, now - last)
        fetches += 1
        interval = rule.next_seconds(number, page.host, now - last, changed=unchanged_seconds < now - last)
        heapq.heapreplace(queue, (now + interval, number, now))
    for _, number, last in queue:
        fresh += min(random_numbers.expovariate(pages[number].rate), seconds - last)
    return Freshness(fetches, fresh / seconds / len(pages))


def equal_budget(
    pages: Sequence[SimulatedPage], rival: Callable[[], RecrawlRule], *, seconds: float
) -> tuple[Freshness, Freshness, float]:
    """Simulate a rule, and skitter's rule with a ``recrawl_seconds`` at which it makes no more fetches.

    Returns the results of both, and that setting.
    """
    theirs = simulate(pages, rival(), seconds=seconds)
    recrawl_seconds = 7 * DAY
    for _ in range(30):
        ours = simulate(pages, SkitterRule(recrawl_seconds), seconds=seconds)
        if 0.97 * theirs.fetches <= ours.fetches <= theirs.fetches:
            return theirs, ours, recrawl_seconds
        # The number of fetches is nearly proportional to 1 / sqrt(recrawl_seconds).
        recrawl_seconds *= math.pow(ours.fetches / (0.985 * theirs.fetches), 2)
    raise ValueError(f"no recrawl_seconds leads to {theirs.fetches} fetches")
