"""Consistent hashing: maps each key to one of several servers, its home. Pure: no connections, no clock.

Every server has many points on a ring, and a key belongs to the first point at or after its own. So a server that joins
takes its share from all others and no other key moves; a server that leaves gives its share to all others. The points
depend only on the names of the servers: not on their order, the machine or the version of Python.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

VIRTUAL_NODES = 150
"""Virtual nodes of a server with weight 1."""
POINTS = 16
"""Points of a virtual node. A share varies by one part in the root of all points: with 150 x 16 of ten servers, each
has its tenth within 8 % of it; with one point each, within a quarter."""
_HASH_POINTS = 8
"""Points that are read out of one hash of 64 bytes."""


class Ring:
    """The homes of all keys for a set of servers. A ring is immutable: ``add`` and ``remove`` return a new one."""

    def __init__(
        self, servers: Iterable[str] | Mapping[str, float], virtual_nodes: int = VIRTUAL_NODES, *, points: int = POINTS
    ) -> None:
        """``servers`` are names, or names with weights: a server of weight 2 has twice the keys of one of weight 1.

        ``points`` is the number of points of a virtual node. Rings agree on the homes only if it is equal.
        """
        named = dict(servers) if isinstance(servers, Mapping) else dict.fromkeys(servers, 1.0)
        self.weights = dict(sorted(named.items()))
        if not self.weights:
            raise ValueError("a ring needs at least one server")
        if not all(0 < weight < math.inf for weight in self.weights.values()):
            raise ValueError("weights must be above 0")
        self.servers = tuple(self.weights)
        self._virtual_nodes = virtual_nodes
        self._points_each = points
        # Two points that meet, one in 10^13 times, go to the first name.
        owners: dict[int, str] = {}
        for server, weight in self.weights.items():
            for number in range(max(1, round(virtual_nodes * weight))):
                for point in _points_of(f"{number} {server}", points):
                    owners.setdefault(point, server)
        self._points = sorted(owners)
        self._owners = [owners[point] for point in self._points]

    def home(self, key: str) -> str:
        """Return the server that a key belongs to."""
        # Behind the last point comes the first.
        return self._owners[bisect_left(self._points, _point(key)) % len(self._owners)]

    def homes(self, key: str, number: int) -> list[str]:
        """Return the servers for a key and its copies: its home, then the home it would have without the ones before.

        Returns all servers if there are fewer than ``number``.
        """
        found: list[str] = []
        for server in self._from(key):
            if len(found) >= number:
                break
            found.append(server)
        return found

    def home_below(self, key: str, loads: Mapping[str, float], *, factor: float = 1.25) -> str:
        """Return the first home of a key that has room: no server gets more than ``factor`` times its fair share.

        ``loads`` is the current load of each server without this key; a missing server has none. With a factor above 1
        a key moves only if its home is full.
        """
        if factor < 1:
            raise ValueError("factor must be at least 1")
        total = sum(loads.get(server, 0) for server in self.servers) + 1
        weights = sum(self.weights.values())
        for server in self._from(key):
            if loads.get(server, 0) + 1 <= math.ceil(factor * total * self.weights[server] / weights):
                return server
        raise AssertionError("the capacities add up to more than the load")

    def add(self, server: str, weight: float = 1.0) -> Ring:
        """Return a ring with one more server, to which its share of the keys moves, or with a new weight for it."""
        return Ring({**self.weights, server: weight}, self._virtual_nodes, points=self._points_each)

    def remove(self, server: str) -> Ring:
        """Return a ring without a server, whose keys move to all others. Raises KeyError if there is no such server."""
        rest = dict(self.weights)
        del rest[server]
        return Ring(rest, self._virtual_nodes, points=self._points_each)

    def _from(self, key: str) -> Iterator[str]:
        """Every server once, in the order in which they stand behind the key."""
        first = bisect_left(self._points, _point(key))
        seen: set[str] = set()
        for place in range(len(self._owners)):
            server = self._owners[(first + place) % len(self._owners)]
            if server not in seen:
                seen.add(server)
                yield server
                if len(seen) == len(self.servers):
                    return


def _points_of(text: str, number: int) -> Iterator[int]:
    if number == 1:
        yield _point(text)
        return
    for first in range(0, number, _HASH_POINTS):
        digest = hashlib.blake2b(f"{first} {text}".encode(errors="surrogatepass")).digest()
        for place in range(min(_HASH_POINTS, number - first)):
            yield int.from_bytes(digest[place * 8 : place * 8 + 8])


def _point(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())
