"""Figures of several rounds: the median says what to expect, lowest and highest how far to trust it."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable

import msgspec

from skitter._version import __version__

DIGITS = 4
"""Significant ones: no measurement here is as good as that."""


class Spread(msgspec.Struct, frozen=True):
    """One figure, measured in several rounds."""

    median: float
    low: float
    high: float


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where figures were measured: on another one they are others."""

    system: str
    cores: int
    python: str
    skitter: str


def spread(values: Iterable[float]) -> Spread:
    """Of all rounds."""
    found = sorted(values)
    return Spread(rounded(statistics.median(found)), rounded(found[0]), rounded(found[-1]))


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def this_machine() -> Machine:
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        skitter=__version__,
    )
