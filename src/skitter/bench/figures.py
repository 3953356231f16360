"""Figures of several rounds: median, lowest and highest."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable

import msgspec

from skitter._version import __version__

DIGITS = 4
"""The significant digits of figures, more than any measurement has."""


class Spread(msgspec.Struct, frozen=True):
    """One figure, measured in several rounds."""

    median: float
    low: float
    high: float


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine on which figures were measured."""

    system: str
    cores: int
    python: str
    skitter: str


def spread(values: Iterable[float]) -> Spread:
    """Return median, lowest and highest of the values."""
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
