"""Generations of what expires: keys are kept by the eighth of their time in which they came, and go together."""

from __future__ import annotations

from skitter.errors import UsageError

GENERATIONS = 8
"""A key is kept an eighth of its time too long at most, and never too short: besides the generation that is filled, so
many are kept."""


def generation_seconds(seconds: float) -> float:
    """Return how long a generation of what is kept for ``seconds`` is filled."""
    if seconds <= 0:
        raise UsageError(f"not a duration: {seconds} seconds", hint="give a number above 0")
    return seconds / GENERATIONS
