"""Generations of expiring keys: all keys added during the same eighth of their lifetime expire together."""

from __future__ import annotations

from skitter.errors import UsageError

GENERATIONS = 8
"""Number of generations that are kept besides the one that is being filled. A key is therefore never removed too early,
and is kept at most an eighth of its lifetime too long."""


def generation_seconds(seconds: float) -> float:
    """Return how long a generation is filled if keys are kept for ``seconds``."""
    if seconds <= 0:
        raise UsageError(f"not a duration: {seconds} seconds", hint="give a number above 0")
    return seconds / GENERATIONS
