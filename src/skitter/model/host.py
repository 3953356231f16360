"""A host as politeness sees it: one record per host key, kept in the frontier."""

from __future__ import annotations

import enum

import msgspec

FIRST_START_SECONDS = 0.05
"""The start window of a host's leases, until a worker came late for one."""


class Phase(enum.IntEnum):
    """Where a host stands between two grants."""

    IDLE = 0
    """Nothing is queued."""
    READY = 1
    """A request may be leased now."""
    WAITING = 2
    """Its due time has not come: delay, back-off or block."""
    FULL = 3
    """Its in-flight limit is reached, or its robots.txt is being read."""
    GIVEN_UP = 4
    """It is down or its budget is spent: what waits for it ends, a piece at a time, and nothing of it is leased."""
    PARKED = 5
    """It would be ready, but the in-flight limit of its IP address is reached."""


class Host(msgspec.Struct, array_like=True):
    """The state of one host key. Times are the store's clock; 0 means never."""

    key: str
    waiting: bool = False
    """Something is queued. How much is counted when somebody asks: most links that join a queue change nothing here."""
    in_flight: int = 0
    top: int = 0
    """The highest waiting priority; only meaningful while something waits."""
    served: int = 0
    """The epoch of its last grant: the larger, the more recently served."""
    due: float = 0.0
    """By delay: no grant before."""
    blocked_until: float = 0.0
    """By back-off: no grant before."""
    struck_at: float = 0.0
    """When the last block or failed connection was learnt of."""
    strikes: int = 0
    """Failed connections since the host last answered in any way."""
    blocks: int = 0
    """Blocks since the host last answered normally: enough of them, and it is given up."""
    start_seconds: float = FIRST_START_SECONDS
    """The start window of its leases."""
    crawl_delay_seconds: float = 0.0
    robots_version: int = 0
    robots_until: float = 0.0
    """Until when its robots.txt is believed."""
    gate: bool = False
    """A worker is reading its robots.txt."""
    gate_losses: int = 0
    """Workers lost while reading it, since one came back."""
    trusted: bool = False
    """Typed as a seed."""
    latency_seconds: float = 0.0
    """A moving average."""
    address: str = ""
    """The IP address that last answered for it; empty: not known yet."""
    error_class: str = ""
    """Of its last failure."""
    phase: Phase = Phase.IDLE
    run: int = 0
    """The run that its queue and its troubles belong to."""
    given_up: tuple[str, str] | None = None
    """Why what still waits for it is being buried: the class of the error and its text. Class ``host_budget``: it is
    excluded, not dead."""
    backoff: int = 0
    """How often the pause of its next block is doubled. Normal answers take it back, one by one."""
    permitted: bool = False
    """In the scope although nobody typed it: a seed was redirected here."""
    pages: int = 0
    """That ended done in this run: what its budget is spent on."""
    signs: int = 0
    """Of a trap (policy/host_budgets.py)."""
