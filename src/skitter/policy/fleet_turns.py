"""Which jobs the workers of a fleet's node serve: by priority, and in turns among equals. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a node could serve now."""

    key: tuple[str, str]
    """Its frontier and its name."""
    priority: int = 0
    in_turn: bool = False
    """It is served by this node, and its turn is not over."""
    rests: bool = False
    """Nothing of it was ready when it was served last: it gets workers that nobody else wants."""
    workers_elsewhere: int = 0
    """Workers of other nodes that are at it: a job that has none goes before its equals."""
    served_at: float = 0.0
    """When this node served it last; 0: never."""
    tie: int = 0
    """Decides among equals; another number on each node, so that nodes do not all begin with the same job."""


def allot(contenders: Iterable[Contender], workers: int) -> dict[tuple[str, str], int]:
    """Return how many workers each job gets, in the order in which they get them; a job that gets none is left out.

    Each gets one, the highest priority first, while there are any. What is left goes to the jobs of the highest
    priority, evenly.
    """
    ordered = sorted(contenders, key=_rank)
    allotted = {job.key: 1 for job in ordered[:workers]}
    if spare := workers - len(allotted):
        first = [job.key for job in ordered if (job.rests, job.priority) == (ordered[0].rests, ordered[0].priority)]
        for number in range(spare if first else 0):
            allotted[first[number % len(first)]] += 1
    return allotted


def _rank(job: Contender) -> tuple[object, ...]:
    return job.rests, -job.priority, not job.in_turn, job.workers_elsewhere, job.served_at, job.tie, job.key
