"""A worker, as it tells of itself and as its frontier knows it. For people: no rule goes by any of it."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec


class Doing(enum.StrEnum):
    """What a worker is at."""

    STARTING = "starting"
    SEEDING = "seeding"
    """It runs the spider's ``start()``, and may fetch pages beside it."""
    FETCHING = "fetching"
    WAITING = "waiting"
    """Nothing may be leased now: hosts rest, or others have all there is."""
    PAUSED = "paused"
    BLOCKED = "blocked by sink"
    """The outbox is full."""
    DRAINING = "draining"
    """It was asked to stop, or the job was, and finishes what it has in flight."""


class WorkerCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells of itself: when it joins, and every few seconds.

    Workers of other versions tell more or less: what is missing has a default, what is unknown is passed over.
    """

    host_name: str = ""
    pid: int = 0
    version: str = ""
    """Of its skitter."""
    spider: str = ""
    """As the job has it; empty is the built-in one."""
    started_at: Annotated[float, msgspec.Meta(ge=0, lt=1e11)] = 0.0
    """By the clock of its own machine."""
    doing: str = ""
    """One of ``Doing``; a newer worker may be at something else."""
    in_flight: int = 0
    """Leases it works on."""


class WorkerSeen(msgspec.Struct, frozen=True):
    """A worker that the frontier has heard from."""

    id: str
    leased: int
    silent_seconds: float
    card: WorkerCard | None = None
    """None: it has told nothing of itself."""
