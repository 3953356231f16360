"""How polite a crawl was, from stamps of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from skitter.model.url import host_key
from skitter.testing.history.events import Event, What


def starts(history: Iterable[Event]) -> Iterator[tuple[str, float]]:
    """When each request of a process began at its socket: with the connection that was made for it, or else its send.

    Politeness is counted between these. How long a handshake takes is the network's affair, and the host's.
    """
    opened: dict[str, float] = {}
    for event in history:
        if event.what is What.OPENED:
            opened.setdefault(event.url, event.at)
        elif event.what is What.SENT:
            yield event.url, opened.pop(event.url, event.at)
        elif event.what is What.ANSWERED:
            opened.pop(event.url, None)


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
