"""State of a host for politeness: one record per host key, kept in the frontier."""

from __future__ import annotations

import enum
from collections.abc import Collection

import msgspec

FIRST_START_SECONDS = 0.05
"""Initial start window of a host's leases; it grows when a worker is late."""
BURST_RANK = 2**50
"""Offset by which a host in a burst precedes the others: larger than any epoch (the fencing token, which also numbers
grants), and exact as a float."""


class Phase(enum.IntEnum):
    """Phase of a host between two grants."""

    IDLE = 0
    """Nothing is queued."""
    READY = 1
    """A request may be leased now."""
    WAITING = 2
    """Its due time has not been reached: delay, back-off or block."""
    FULL = 3
    """Its in-flight limit is reached, its robots.txt is being read, or an operator has paused it."""
    GIVEN_UP = 4
    """It is down or its budget is spent: its queue is emptied in batches, and nothing of it is leased."""
    PARKED = 5
    """It would be ready, but the in-flight limit of its IP address is reached."""


class Halt(enum.IntEnum):
    """An operator's order for a host. It applies until the next one or until a new run. The numbers are stored."""

    NONE = 0
    PAUSED = 1
    """Nothing of the host is leased; queued requests stay queued."""
    GIVEN_UP = 2
    """Queued requests, and those that are added later, fail with class ``given_up``."""


class HostCommand(enum.StrEnum):
    """Commands of an operator to a host."""

    PAUSE = "pause"
    RESUME = "resume"
    GIVE_UP = "give_up"

    @property
    def halt(self) -> Halt:
        """The order that is then in force."""
        return _HALTS[self]


_HALTS = {HostCommand.PAUSE: Halt.PAUSED, HostCommand.RESUME: Halt.NONE, HostCommand.GIVE_UP: Halt.GIVEN_UP}


class HostFilter(enum.StrEnum):
    """Filter for lists of hosts."""

    ALL = "all"
    PAUSED = "paused"
    """Paused by an operator."""
    BLOCKED = "blocked"
    """Backing off: after a block, a failed connection or a Retry-After."""
    GIVEN_UP = "given_up"
    """Given up by an operator, or because the host is down."""


class Host(msgspec.Struct, array_like=True):
    """State of one host key. Times are from the store's clock; 0 means never."""

    key: str
    waiting: bool = False
    """Whether a request without a need is queued. The number is counted on demand, so that most added links do not
    change this record."""
    in_flight: int = 0
    top: int = 0
    """Highest waiting priority; only meaningful while something waits."""
    served: int = 0
    """Epoch (fencing token) of its last grant. Epochs grow with each lease: a larger one was served more recently."""
    due: float = 0.0
    """No grant before this time, because of the delay."""
    blocked_until: float = 0.0
    """No grant before this time, because of back-off."""
    struck_at: float = 0.0
    """Time of the last block or failed connection."""
    strikes: int = 0
    """Failed connections since the host last answered in any way."""
    blocks: int = 0
    """Blocks since the host last answered normally; after enough of them it is given up."""
    start_seconds: float = FIRST_START_SECONDS
    """Start window of its leases."""
    crawl_delay_seconds: float = 0.0
    robots_version: int = 0
    robots_until: float = 0.0
    """Expiry of its robots.txt."""
    gate: bool = False
    """Whether a worker is reading its robots.txt."""
    gate_losses: int = 0
    """Workers lost in a row while reading its robots.txt."""
    trusted: bool = False
    """Whether the user typed it as a seed."""
    latency_seconds: float = 0.0
    """Moving average of the latency."""
    address: str = ""
    """IP address of its last answer; empty if unknown."""
    error_class: str = ""
    """Error class of its last failure."""
    phase: Phase = Phase.IDLE
    run: int = 0
    """Run that its queue and its failures belong to."""
    given_up: tuple[str, str] | None = None
    """Error class and message for the requests still queued, which will fail; with class ``host_budget`` they are
    excluded."""
    backoff: int = 0
    """Number of doublings of its next block; each normal answer removes one."""
    permitted: bool = False
    """Whether it is in the scope because a seed was redirected to it."""
    pages: int = 0
    """Pages done in this run; they count against its budget."""
    signs: int = 0
    """Signs of a trap (policy/host_budgets.py)."""
    burst_left: int = 0
    """Number of requests left in its burst."""
    burst_until: float = 0.0
    """End of its burst, noticed by the next grant. It is set when the burst begins, and never extended."""
    pacer: str = ""
    """Worker that was granted its last request, if that worker keeps the delay itself; else empty."""
    needs: dict[str, int] = {}
    """Needs of queued requests, each with its highest waiting priority. Nearly all hosts have none."""
    halt: Halt = Halt.NONE
    """Order of an operator. It belongs to the run."""
    public: bool = False
    """Whether its name is public (``politeness.is_public``), as of the beginning of the run."""

    @property
    def turn(self) -> int:
        """Rank among ready hosts of one priority: the lowest is served first.

        In a burst, one request at a time precedes other hosts: more would need more connections.
        """
        return self.served - BURST_RANK if self.burst_left > 0 and self.in_flight == 0 else self.served

    def top_for(self, needs: Collection[str], *, plain: bool = True) -> int | None:
        """Return the highest waiting priority for a worker with these needs; None if nothing waits.

        ``plain``: include requests without a need.
        """
        tops = [top for need, top in self.needs.items() if need in needs]
        if plain and self.waiting:
            tops.append(self.top)
        return max(tops, default=None)

    def tops(self) -> dict[str, int]:
        """Return the highest waiting priority of each of its queues by need; "" stands for requests without one."""
        return {"": self.top, **self.needs} if self.waiting else self.needs
