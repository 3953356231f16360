"""Recrawl policy: how often a page changes, and when it is fetched again. Pure: the caller passes times.

The change rate is estimated as Cho and Garcia-Molina do ("Estimating frequency of change", 2003), for visits that are
not equally far apart. Where visits are, it is their bias-reduced estimator: of n visits, X of which found a change,
``-log((n - X + 0.5) / (n + 0.5))`` for each interval. Its constant stands for what is not known yet; here one visit
that was never made takes its place, and what it would have found is what pages of the host lead one to expect.

The interval is the geometric mean of ``recrawl_seconds`` and of the time between two changes. In this way a number of
fetches buys nearly the most freshness (the optimum of Cho and Garcia-Molina, "Effective page refresh policies", 2003,
goes by the square root as well, up to pages that change faster than they can be followed). Intervals in proportion to
the time between changes, which rules that multiply by a factor tend to, buy less than equal intervals for all.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from skitter.model.page_record import Visit

MIN_INTERVAL_SECONDS = 3600.0
MAX_INTERVAL_SECONDS = 90 * 86_400.0
MAX_STEP = 2.0
"""An interval is at most this many times as long as the one before, and at least this fraction of it."""
MAX_VISITS = 12
"""Visits of a page that are remembered. Who has changed its habits is known for it after as many."""
DEFAULT_RATE = 1 / (7 * 86_400.0)
"""Changes a second of a page that nothing is known of."""
MAX_HOSTS = 10_000
"""Hosts whose rate a worker remembers."""
_HOST_WEIGHT = 50
"""The rate of a host follows that of its last pages, about so many."""
_NO_CHANGE = 1e-6
"""The least chance that is left to a page not to change: no estimate is infinite."""


def change_rate(visits: Sequence[Visit], prior_rate: float) -> float:
    """Return the estimated changes a second of a page; ``prior_rate``: of a page without visits.

    It is the rate that makes what was found most likely: the root of the sum of t / (exp(rate * t) - 1) over intervals
    t with a change, less the sum of the other intervals. Both sums have a share of the visit that was never made.
    """
    if not visits:
        return prior_rate
    mean = sum(visit.seconds for visit in visits) / len(visits)
    unchanged_chance = max(math.exp(-prior_rate * mean), _NO_CHANGE)
    changed = [(visit.seconds, 1.0) for visit in visits if visit.changed]
    changed.append((mean, 1.0 - unchanged_chance))
    unchanged_seconds = unchanged_chance * mean + sum(visit.seconds for visit in visits if not visit.changed)
    return _root(changed, unchanged_seconds)


def _root(changed: Sequence[tuple[float, float]], unchanged_seconds: float) -> float:
    """Return where the sum of weight * t / (exp(rate * t) - 1) falls to ``unchanged_seconds``.

    The sum is convex and falls, so from the left of its root Newton's steps come nearer and never pass it. It starts
    where a smaller function has its root: 1 / x - 1 / 2 in place of 1 / (exp(x) - 1).
    """
    weights = sum(weight for _, weight in changed)
    rate = weights / (unchanged_seconds + sum(weight * seconds for seconds, weight in changed) / 2)
    for _ in range(50):
        value, slope = -unchanged_seconds, 0.0
        for seconds, weight in changed:
            if rate * seconds < 500:
                odds = 1 / math.expm1(rate * seconds)
                value += weight * seconds * odds
                slope += weight * seconds * seconds * odds * (1 + odds)
        if value <= 1e-6 * unchanged_seconds or not slope:
            break
        rate += value / slope
    return rate


def next_interval(rate: float, previous_seconds: float, recrawl_seconds: float) -> float:
    """Return the seconds until a page is fetched again.

    ``previous_seconds``: its last interval; 0: there was none. ``recrawl_seconds``: a page that changes once in so long
    is fetched once in so long.
    """
    wanted = math.sqrt(recrawl_seconds / rate)
    if previous_seconds:
        wanted = min(max(wanted, previous_seconds / MAX_STEP), previous_seconds * MAX_STEP)
    return min(max(wanted, MIN_INTERVAL_SECONDS), MAX_INTERVAL_SECONDS)


def with_visit(visits: Sequence[Visit], seconds: float, *, changed: bool) -> list[Visit]:
    """Return the visits of a page with one more; two in the same instant count as a second apart."""
    return [*visits[1 - MAX_VISITS :], Visit(max(seconds, 1.0), changed)]


class HostRates:
    """Change rates of hosts: the geometric mean of those of their pages, as far as these were visited again."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def of(self, host_key: str) -> float:
        """Return the rate to expect of a page of this host."""
        return math.exp(self._hosts.get(host_key, (1, math.log(DEFAULT_RATE)))[1])

    def learn(self, host_key: str, rate: float) -> None:
        """Take in the rate of one of its pages."""
        pages, mean = self._hosts.pop(host_key, (1, math.log(DEFAULT_RATE)))
        pages = min(pages + 1, _HOST_WEIGHT)
        self._hosts[host_key] = (pages, mean + (math.log(rate) - mean) / pages)
        if len(self._hosts) > MAX_HOSTS:
            self._hosts.popitem(last=False)
