"""Descriptions of workers: their heartbeats, and the frontier's view. Only ``member`` affects the rules."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

CALLS = "calls:"
CALL_MICROSECONDS = "call_us:"
"""Prefix of the counter of each callback's time in the tally of a job; ``CALLS`` is that of its calls."""


class Doing(enum.StrEnum):
    """Activity of a worker."""

    STARTING = "starting"
    SEEDING = "seeding"
    """Runs the spider's ``start()``, and may fetch pages at the same time."""
    FETCHING = "fetching"
    WAITING = "waiting"
    """Nothing can be leased now: hosts must wait, or other workers have all requests."""
    PAUSED = "paused"
    BLOCKED = "blocked by sink"
    """The outbox is full."""
    NO_PROXY = "blocked by proxy"
    """No proxy of the job's pool is free."""
    DRAINING = "draining"
    """The worker or the job is stopping, and the worker finishes its requests in flight."""
    SKIPPED = "skipped"
    """Not a worker: a node of a fleet that cannot serve the job (``problem``)."""


class WaitsFor(enum.StrEnum):
    """Why a worker has free slots although it asked for work. A frontier may name others (``Grant.blocked_by``)."""

    SINK = "sink"
    """The outbox is full."""
    PROXY = "proxy"
    """No proxy of the job's pool is free: all are at their limit, resting or banned, or there is none."""
    RESUME = "resume"
    """The job is paused."""
    DELAY = "host delay"
    """Requests wait for the delay or pause of their hosts, or for their own next attempt."""
    PAUSED_HOSTS = "paused hosts"
    """Only requests of hosts that an operator has paused are left."""
    READY_HOST = "ready host"
    """No host is ready: each is at its limit of requests in flight, or has a pause of more than a second."""
    LINKS = "new links"
    """Nothing is queued; requests in flight may bring new links."""
    COORDINATOR = "coordinator"
    """Its node has lost the coordinator, and starts nothing until it is available again."""


class WorkerHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a worker about itself, sent when it joins and every few seconds.

    Workers of other versions may send other fields: missing fields have a default, unknown ones are ignored.
    """

    host_name: str = ""
    pid: int = 0
    version: str = ""
    """Version of skitter that it runs."""
    spider: str = ""
    """Spider of the job; empty: the built-in one."""
    started_at: Annotated[float, msgspec.Meta(ge=0, lt=1e11)] = 0.0
    """Start time, by the clock of its machine."""
    doing: str = ""
    """One of ``Doing``; a newer worker may send another value."""
    in_flight: int = 0
    """Number of leases that it processes now."""
    slots: int = 0
    """Number of leases that it may process at a time (``concurrency``)."""
    waits_for: str = ""
    """Why it has free slots: one of ``WaitsFor``, or a value of a newer frontier. Empty: it got all it requested."""
    pages_per_second: float = 0.0
    """Moving average of done pages per second."""
    latency_seconds: float = 0.0
    """Moving average of response times."""
    needs: tuple[str, ...] = ()
    """Needs that it can serve now."""
    longest_calls: dict[str, float] = {}
    """Duration of the longest call of each callback so far, in seconds."""
    problem: str = ""
    """Reason why a node skips the job."""
    task: str = ""
    """External task that started its slice, for example a Celery task. Empty: a command."""
    member: str = ""
    """Member of the job's group at the coordinator on which its life depends: its node. Empty if there is none."""
    coordinator: str = ""
    """Address of that coordinator, without credentials."""
    memory_bytes: int = 0
    """Resident memory of its process; 0 if unknown."""


class WorkerSeen(msgspec.Struct, frozen=True):
    """A worker as the frontier knows it."""

    id: str
    leased: int
    silent_seconds: float
    heartbeat: WorkerHeartbeat | None = None
    """Last heartbeat; None if it has sent none."""
