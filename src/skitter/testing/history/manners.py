"""How polite a crawl was, from stamps of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from skitter.model.url import host_key


def gaps_by_host(stamps: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The smallest time between two requests to one host key; (URL, time) in any order."""
    times: dict[str, list[float]] = defaultdict(list)
    for url, at in stamps:
        times[host_key(url)].append(at)
    return {
        key: min(after - before for before, after in pairwise(sorted(stamped)))
        for key, stamped in times.items()
        if len(stamped) > 1
    }


def smallest(gaps: dict[str, float]) -> float | None:
    return min(gaps.values(), default=None)
