"""Stored values that cannot be read: which errors mean that, and how they are told.

Both stores decode without a check of each value, because a check would cost every page. When decoding, or a rule that
works on what was decoded, fails, the store is searched for the value at fault (``damage_search`` of
``sqlite`` and ``redis``).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from skitter.errors import ContradictionError, DamageError, FormatError, SettingsError
from skitter.model.job import Job, JobSpec
from skitter.settings import Settings

UNREADABLE = (
    msgspec.DecodeError,
    FormatError,
    SettingsError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
)
"""What reading a garbled value raises, at once or in a rule that takes it for what it should be."""
SEARCH_SECONDS = 2.0
"""A search ends after this: a job may have millions of rows."""
LATEST = 1e11
"""No time of a store's clock is later (the year 5138): it could be neither waited for nor shown."""


def damaged(job: str, place: str, error: BaseException, where: str) -> DamageError:
    """``place``: the value at fault; empty: it was not found, and it may be a defect of skitter instead."""
    if not place:
        return ContradictionError(
            f"job {job} is damaged, or skitter has a defect: {type(error).__name__}: {error}: {where}",
            hint="run with -v for the traceback; if no other program has written there, report it",
        )
    return DamageError(
        f"job {job} is damaged: {place}: {where}",
        hint=f"restore the store from a backup, or remove the job: skitter drop {job}",
    )


def check_job(job: Job) -> None:
    """ValueError for values of the right type that nothing can work with."""
    checked_time(job.started_at)
    checked_time(job.ended_at)
    if job.run < 1:
        raise ValueError(f"run is less than one: {job.run}")
    settings_of(job.spec)


def settings_of(spec: JobSpec) -> Settings:
    """The job's settings; SettingsError for what is none."""
    return Settings.from_layers([("the job", spec.settings)])


def is_time(value: float) -> bool:
    """Also False for what is not a number."""
    return 0 <= value < LATEST


def checked_time(value: float) -> float:
    """ValueError for what is no time of a store's clock, nor a duration."""
    if not is_time(value):
        raise ValueError(f"not a time: {value}")
    return value


def checked_text(value: str) -> str:
    """TypeError for what a column of any type may hold instead."""
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def problem_of(check: Callable[[], object]) -> str:
    """Why a value cannot be read; empty: it can."""
    try:
        check()
    except UNREADABLE as error:
        reason = error.__cause__ or error
        return str(reason) if isinstance(reason, msgspec.DecodeError) else f"{type(reason).__name__}: {reason}"
    return ""


class SearchDeadline:
    """The time at which a search for damage ends."""

    def __init__(self, seconds: float = SEARCH_SECONDS) -> None:
        self._ends_at = time.monotonic() + seconds

    def is_over(self) -> bool:
        return time.monotonic() > self._ends_at
