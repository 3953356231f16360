"""Which store of schedules a frontier's URL means: always next to the jobs."""

from __future__ import annotations

from pathlib import Path

from skitter import private_files
from skitter.errors import ExtraMissingError, UsageError
from skitter.model.secrets import shown_address
from skitter.schedule_store.contract import ScheduleStore
from skitter.schedule_store.sqlite_store import SqliteScheduleStore

DEFAULT_FILE = private_files.FOLDER / "schedules"
"""Where schedules are kept when no frontier is named; jobs are then in files of their own beside it."""
FILE_SUFFIX = "-schedules"
"""The file of a frontier is removed with its last job, so its schedules are in one beside it."""
_SHARED = "?shared=yes"


def open_schedule_store(frontier: str, *, create: bool) -> ScheduleStore:
    """Open the store of a frontier's schedules; an empty URL is that of the current folder.

    Without ``create``, a file that is not there is not made.
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
        f"no place for schedules: {shown_address(frontier, is_server=True)}",
        hint="use --frontier sqlite:PATH or redis://HOST:PORT, the store itself",
    )
