"""Schedule store of a frontier URL. Schedules are always stored next to the jobs."""

from __future__ import annotations

from pathlib import Path

from skitter import private_files
from skitter.errors import ExtraMissingError, UsageError
from skitter.model.secrets import shown_address
from skitter.schedule_store.contract import ScheduleStore
from skitter.schedule_store.sqlite_store import SqliteScheduleStore

DEFAULT_FILE = private_files.FOLDER / "schedules"
"""File for schedules if no frontier is given; each job then has its own file in the same folder."""
FILE_SUFFIX = "-schedules"
"""Suffix of the schedules file. A frontier's own file is removed with its last job, so schedules need another file."""
_SHARED = "?shared=yes"


def open_schedule_store(frontier: str, *, create: bool) -> ScheduleStore:
    """Return the schedule store of a frontier; an empty URL means the current folder.

    Without ``create``, a missing file is not created.
    """
    scheme, _, rest = frontier.partition(":")
    if not frontier:
        return SqliteScheduleStore(DEFAULT_FILE, create=create)
    if scheme == "sqlite" and rest:
        path = Path(rest.removesuffix(_SHARED))
        beside = path.with_name(path.name + FILE_SUFFIX)
        return SqliteScheduleStore(beside, create=create, shared=rest.endswith(_SHARED))
    if scheme.partition("+")[0] in ("redis", "rediss", "unix") and rest.startswith("//"):
        try:
            from skitter.schedule_store.redis_store import RedisScheduleStore
        except ImportError as error:
            raise ExtraMissingError("schedules in Redis", "redis") from error
        return RedisScheduleStore(frontier)
    raise UsageError(
        f"cannot store schedules: {shown_address(frontier, is_server=True)}",
        hint="use --frontier sqlite:PATH or redis://HOST:PORT, the store itself",
    )
