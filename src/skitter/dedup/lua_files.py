"""Lua files of the sets, from which the scripts of this package and of the Redis frontier are assembled."""

from __future__ import annotations

import math
from pathlib import Path

BUCKET_MEAN = 200
"""Mean size of the buckets of an exact set. With it no bucket outgrows the packed form, which holds 512 by default."""
PACKED_SETTING = "set-max-intset-entries"
"""Parameter of a Redis server: the maximum number of integers of a set in the packed form."""
_DEVIATIONS = 5


def lua(name: str) -> str:
    """Return the text of a Lua file."""
    return Path(__file__).with_name("lua").joinpath(f"{name}.lua").read_text(encoding="utf-8")


def bucket_mean(packed: int | None) -> int:
    """Return the mean size of buckets for a server that packs sets of up to ``packed`` integers; None if unknown."""
    if packed is None:
        return BUCKET_MEAN
    # A bucket that is not split yet has twice the mean, and some have a few deviations (its root) more.
    root = (math.sqrt(_DEVIATIONS**2 + 4 * packed) - _DEVIATIONS) / 2
    return max(1, min(BUCKET_MEAN, int(root**2 / 2)))
