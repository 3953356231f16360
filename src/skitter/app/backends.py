"""Which backend a URL means. Nothing else in skitter looks at these schemes."""

from __future__ import annotations

from pathlib import Path

from skitter.errors import UsageError
from skitter.frontier.contract import Frontier
from skitter.sinks.contract import Sink


def open_frontier(url: str, job: str, *, create: bool) -> Frontier:
    """The frontier of one job. Without ``create`` it must be there already."""
    scheme, separator, rest = url.partition(":")
    if separator and scheme == "memory":
        from skitter.frontier.memory import memory_frontier

        return memory_frontier(job)
    if separator and scheme == "sqlite" and rest:
        from skitter.frontier.sqlite import sqlite_frontier

        return sqlite_frontier(Path(rest), job, create=create)
    raise UsageError(f"not a frontier: {url}", hint="use sqlite:PATH or memory:")


def is_shared(url: str) -> bool:
    """Whether several processes can use it."""
    return not url.startswith("memory:")


def default_frontier(job: str) -> str:
    """Where a job is kept when the user does not say."""
    return f"sqlite:.skitter/{job}.db"


def open_sink(target: str, *, overwrite: bool, job: str) -> Sink:
    """The sink of a target; it is not touched yet."""
    from skitter.sinks.files import file_sink

    return file_sink(target, overwrite=overwrite, job=job)
