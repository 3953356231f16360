"""Consistent hashing: which of several servers is a key's home. Pure: no connections, no clock.

Every server stands at many points of a ring, and a key belongs to the first point at or behind its own. So a server
that joins takes its share from all others and nothing else moves; one that leaves gives its share to all others. The
points depend on the servers' names alone: not on their order, not on the machine, not on the version of Python.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable

VIRTUAL_NODES = 150
"""Points of a server. Of ten servers, each then has its tenth within about a quarter of it."""


class Ring:
    """The homes of all keys, for these servers."""

    def __init__(self, servers: Iterable[str], virtual_nodes: int = VIRTUAL_NODES) -> None:
        self.servers = tuple(sorted(set(servers)))
        if not self.servers:
            raise ValueError("a ring has at least one server")
        # Two points that meet, one in 10^13 times, go to the first name.
        points: dict[int, str] = {}
        for server in self.servers:
            for number in range(virtual_nodes):
                points.setdefault(_point(f"{number} {server}"), server)
        self._points = sorted(points)
        self._owners = [points[point] for point in self._points]

    def home(self, key: str) -> str:
        """The server that a key belongs to."""
        # Behind the last point comes the first.
        return self._owners[bisect_left(self._points, _point(key)) % len(self._owners)]


def _point(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())
