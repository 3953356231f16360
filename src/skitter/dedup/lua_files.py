"""The Lua files of the sets, which scripts of this package and of the Redis frontier are made of."""

from __future__ import annotations

import math
from pathlib import Path

BUCKET_MEAN = 200
"""The mean size of the buckets of an exact set. None then outgrows the packed form, which holds 512 by default."""
PACKED_SETTING = "set-max-intset-entries"
"""The parameter of a Redis server that says how many integers a set may have in the packed form."""
_DEVIATIONS = 5


def lua(name: str) -> str:
    """Return a Lua file as it lies there."""
    return Path(__file__).with_name("lua").joinpath(f"{name}.lua").read_text(encoding="utf-8")


def bucket_mean(packed: int | None) -> int:
    """Return the mean size of buckets: smaller where the server packs smaller sets only. None: it does not say."""
    if packed is None:
        return BUCKET_MEAN
    # A bucket that is not split yet has twice the mean, and some have a few deviations (its root) more.
    root = (math.sqrt(_DEVIATIONS**2 + 4 * packed) - _DEVIATIONS) / 2
    return max(1, min(BUCKET_MEAN, int(root**2 / 2)))
