"""Job names; a name is also a file name: ``.skitter/NAME.db``."""

from __future__ import annotations

import re

from skitter.errors import UsageError

MAX_JOB_CHARS = 100
_UNSAFE = re.compile(r"[^\w.-]+")
_REFUSED = re.compile(r"[^\w.@-]")
"""A schedule calls the job of one of its ticks JOB@TIME; a name that is made of a host has no ``@``."""


def job_name_of(text: str) -> str:
    """Make a job name of a host or of a spider's name: ``127.0.0.1:8901`` becomes ``127.0.0.1-8901``."""
    return _UNSAFE.sub("-", text).strip(".-")[:MAX_JOB_CHARS] or "job"


def check_job_name(name: str) -> str:
    """Return a valid name; raise UsageError for an invalid one."""
    if not name or name.startswith(".") or len(name) > MAX_JOB_CHARS or _REFUSED.search(name):
        raise UsageError(
            f"invalid job name: {name}", hint=f"use letters, digits, . _ @ and -, as in {job_name_of(name)}"
        )
    return name
