"""State of a host for politeness: one record per host key, kept in the frontier."""

from __future__ import annotations

import enum
from collections.abc import Collection

import msgspec

FIRST_START_SECONDS = 0.05
"""Initial start window of a host's leases; it grows when a worker is late."""
BURST_RANK = 2**50
"""By so much the turn of a host in a burst is before the others: more than any epoch, and exact as a float."""


class Phase(enum.IntEnum):
    """Phase of a host between two grants."""

    IDLE = 0
    """Nothing is queued."""
    READY = 1
    """A request may be leased now."""
    WAITING = 2
    """Its due time has not come: delay, back-off or block."""
    FULL = 3
    """Its in-flight limit is reached, or its robots.txt is being read."""
    GIVEN_UP = 4
    """It is down or its budget is spent: its queue is emptied in batches, and nothing of it is leased."""
    PARKED = 5
    """It would be ready, but the in-flight limit of its IP address is reached."""


class Host(msgspec.Struct, array_like=True):
    """The state of one host key. Times are the store's clock; 0 means never."""

    key: str
    waiting: bool = False
    """A request without a need is queued. The number is counted on demand, so that most added links do not change this
    record."""
    in_flight: int = 0
    top: int = 0
    """The highest waiting priority; only meaningful while something waits."""
    served: int = 0
    """The epoch of its last grant: the larger, the more recently served."""
    due: float = 0.0
    """No grant before this time, because of the delay."""
    blocked_until: float = 0.0
    """No grant before this time, because of back-off."""
    struck_at: float = 0.0
    """Time of the last block or failed connection."""
    strikes: int = 0
    """Failed connections since the host last answered in any way."""
    blocks: int = 0
    """Blocks since the host last answered normally: enough of them, and it is given up."""
    start_seconds: float = FIRST_START_SECONDS
    """The start window of its leases."""
    crawl_delay_seconds: float = 0.0
    robots_version: int = 0
    robots_until: float = 0.0
    """Expiry of its robots.txt."""
    gate: bool = False
    """A worker is reading its robots.txt."""
    gate_losses: int = 0
    """Workers lost in a row while reading its robots.txt."""
    trusted: bool = False
    """The user typed it as a seed."""
    latency_seconds: float = 0.0
    """Moving average of the latency."""
    address: str = ""
    """The IP address that last answered for it; empty: not known yet."""
    error_class: str = ""
    """Error class of its last failure."""
    phase: Phase = Phase.IDLE
    run: int = 0
    """The run that its queue and its failures belong to."""
    given_up: tuple[str, str] | None = None
    """Error class and message for the requests still queued, which become dead; excluded if the class is
    ``host_budget``."""
    backoff: int = 0
    """Number of doublings of its next block; each normal answer takes one back."""
    permitted: bool = False
    """In the scope because a seed was redirected here."""
    pages: int = 0
    """Pages that ended done in this run; they count against its budget."""
    signs: int = 0
    """Signs of a trap (policy/host_budgets.py)."""
    burst_left: int = 0
    """Requests that its burst still has."""
    burst_until: float = 0.0
    """The end of its burst, noticed by the next grant. It is set when the burst begins, and never pushed."""
    pacer: str = ""
    """The worker that was granted its last request, if that worker keeps the delay by itself; else empty."""
    needs: dict[str, int] = {}
    """The needs of what is queued, each with its highest waiting priority. Of nearly all hosts there is none."""

    @property
    def turn(self) -> int:
        """Its place among ready hosts of one priority: the lowest is served first.

        In a burst, one request at a time goes before other hosts: more would need more connections.
        """
        return self.served - BURST_RANK if self.burst_left > 0 and self.in_flight == 0 else self.served

    def top_for(self, needs: Collection[str], *, plain: bool = True) -> int | None:
        """The highest priority that waits for a worker with these needs; None: nothing does.

        ``plain``: and for requests without a need.
        """
        tops = [top for need, top in self.needs.items() if need in needs]
        if plain and self.waiting:
            tops.append(self.top)
        return max(tops, default=None)

    def tops(self) -> dict[str, int]:
        """The highest waiting priority of each of its queues, by their need; empty: of requests without one."""
        return {"": self.top, **self.needs} if self.waiting else self.needs
