"""Slow transfers, which take much longer than most and do not count as in flight.

A server that accepts and says nothing would have its slots until the deadline, and a few such servers all slots there
are. What much longer means, the fetches that end tell: on a slow web nothing changes. The first fetch of a silent host
is found out by waiting; the host is remembered, and its next ones stand aside from the start, until it answers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from skitter.fetch.transfer import Transfer

SLOW_TIMES = 4
"""A fetch is slow when it takes this many times the upper quartile."""
LEAST_SECONDS, MOST_SECONDS = 0.025, 1.25
"""Bounds of the upper quartile."""
MAX_SILENT_HOSTS = 10_000


class SlowTransfers:
    """Slow transfers of one engine."""

    def __init__(self) -> None:
        self._typical_seconds = 0.1
        self.silent: dict[str, None] = {}
        """Hosts with a slow fetch and no answer since."""
        self.count = 0
        """Number of slow transfers."""

    def begun(self, transfer: Transfer) -> None:
        """A transfer starts. Need not be told as long as no host is silent."""
        if transfer.authority() in self.silent:
            self._put_aside(transfer)

    def ended(self, transfer: Transfer) -> None:
        """Record the end of a slow transfer."""
        transfer.aside = False
        self.count -= 1

    def answered(self, transfer: Transfer, seconds: float) -> None:
        """A page has come. A step towards the upper quartile: an average would be what the slowest want it to be."""
        typical = self._typical_seconds
        if seconds > typical:
            self._typical_seconds = min(typical * 1.06, MOST_SECONDS)
        else:
            self._typical_seconds = max(typical * 0.98, LEAST_SECONDS)
        if self.silent:
            self.silent.pop(transfer.authority(), None)

    def is_silent(self, transfer: Transfer) -> bool:
        """Return whether a transfer is slow and its host has answered no other one meanwhile."""
        return transfer.aside and transfer.authority() in self.silent

    def look(self, running: Collection[Transfer], most: int) -> tuple[int, list[Transfer]]:
        """How many stand aside now, of those that run, in the order they were begun; and which are one too many."""
        if self._find_slow(running):
            for transfer in running:
                if not transfer.aside and transfer.authority() in self.silent:
                    self._put_aside(transfer)
        if self.count <= most:
            return self.count, []
        return most, _surplus(running, self.count - most) if most else []

    def _find_slow(self, running: Iterable[Transfer]) -> bool:
        """Put aside what has become slow; whether a host is silent that was not known to be."""
        known = len(self.silent)
        before = time.time() - SLOW_TIMES * self._typical_seconds
        for transfer in running:
            if transfer.started_at > before:
                break
            if not transfer.aside:
                self._put_aside(transfer)
                if not transfer.is_paused():  # else it is waiting for its turn here
                    self.silent[transfer.authority()] = None
        grown = len(self.silent) > known
        while len(self.silent) > MAX_SILENT_HOSTS:
            del self.silent[next(iter(self.silent))]
        return grown

    def _put_aside(self, transfer: Transfer) -> None:
        transfer.aside = True
        self.count += 1


def _surplus(running: Iterable[Transfer], count: int) -> list[Transfer]:
    """Of the hosts that have the most aside, the youngest.

    Who has waited longest comes to its deadline, which tells the frontier what the host is worth.
    """
    of_hosts: dict[str, list[Transfer]] = {}
    for transfer in running:
        if transfer.aside and not transfer.is_paused():
            of_hosts.setdefault(transfer.authority(), []).append(transfer)
    count = min(count, sum(map(len, of_hosts.values())))
    return [max(of_hosts.values(), key=_weight).pop() for _ in range(count)]


def _weight(those: list[Transfer]) -> tuple[int, float]:
    return len(those), those[-1].started_at if those else 0.0
