"""Descriptions of workers: their own card, and the frontier's view. Rules depend on ``member`` alone."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

CALLS = "calls:"
CALL_MICROSECONDS = "call_us:"
"""Prefixes of the counters of each callback in the tally of a job."""


class Doing(enum.StrEnum):
    """Activity of a worker."""

    STARTING = "starting"
    SEEDING = "seeding"
    """It runs the spider's ``start()``, and may fetch pages beside it."""
    FETCHING = "fetching"
    WAITING = "waiting"
    """Nothing may be leased now: hosts rest, or others have all there is."""
    PAUSED = "paused"
    BLOCKED = "blocked by sink"
    """The outbox is full."""
    NO_PROXY = "blocked by proxy"
    """No proxy of the job's pool is free."""
    DRAINING = "draining"
    """It was asked to stop, or the job was, and finishes what it has in flight."""
    SKIPPED = "skipped"
    """Not a worker: a node of a fleet that cannot serve the job (``problem``)."""


class WaitsFor(enum.StrEnum):
    """Why a worker has free slots though it asked for work. A frontier may name others (``Grant.blocked_by``)."""

    SINK = "sink"
    """The outbox is full."""
    PROXY = "proxy"
    """No proxy of the job's pool is free: each is at its limit, rests or is banned, or there is none."""
    RESUME = "resume"
    """The job is paused."""
    DELAY = "host delay"
    """Requests wait for the delay or the pause of their hosts, or for their own next attempt."""
    READY_HOST = "ready host"
    """No host is ready: each has as many requests in flight as it may have, or a pause of more than a second."""
    LINKS = "new links"
    """Nothing is queued: what is in flight may bring more."""
    COORDINATOR = "coordinator"
    """Its node has lost its coordinator, and starts nothing until that is back."""


class WorkerCard(msgspec.Struct, frozen=True, kw_only=True):
    """Description that a worker sends when it joins and every few seconds.

    Workers of other versions may send other fields: missing ones have a default, unknown ones are ignored.
    """

    host_name: str = ""
    pid: int = 0
    version: str = ""
    """Version of its skitter."""
    spider: str = ""
    """Spider of the job; empty is the built-in one."""
    started_at: Annotated[float, msgspec.Meta(ge=0, lt=1e11)] = 0.0
    """Start time by the clock of its own machine."""
    doing: str = ""
    """One of ``Doing``; a newer worker may send another value."""
    in_flight: int = 0
    """Number of leases it works on."""
    slots: int = 0
    """Number of leases it may work on at a time (``concurrency``)."""
    waits_for: str = ""
    """Why it has free slots: one of ``WaitsFor``, or what a newer frontier named. Empty: it got what it wanted."""
    pages_per_second: float = 0.0
    """Moving average of the pages that it has done."""
    latency_seconds: float = 0.0
    """Moving average of response times."""
    needs: tuple[str, ...] = ()
    """The needs that it can serve now."""
    longest_calls: dict[str, float] = {}
    """The longest call of each callback so far, in seconds."""
    problem: str = ""
    """Why a node skips the job."""
    task: str = ""
    """What has started its slice, in the words of another system: a task of Celery. Empty: a command."""
    member: str = ""
    """The member of the job's group at the coordinator that it lives and dies with: its node. Empty: there is none."""
    coordinator: str = ""
    """Where that group is, without credentials."""


class WorkerSeen(msgspec.Struct, frozen=True):
    """Worker as the frontier knows it."""

    id: str
    leased: int
    silent_seconds: float
    card: WorkerCard | None = None
    """None if it has sent no card."""
