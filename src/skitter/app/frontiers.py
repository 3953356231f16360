"""Which frontier a URL means. Nothing else in skitter looks at these schemes; for targets, ``sinks.targets`` does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skitter import private_files
from skitter.entry_points import FRONTIERS, entry_point_names, find_entry_point, load_entry_point, unusable
from skitter.errors import FormatError, FrontierError, JobError, SkitterError, UsageError
from skitter.frontier.contract import Frontier, FrontierBackend
from skitter.model.audit import Actor
from skitter.model.secrets import shown_address

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

REDIS_SCHEMES = ("unix", *(f"redis{tls}{kind}" for tls in ("", "s") for kind in ("", "+sentinel", "+cluster")))

HTTP_SCHEMES = ("http", "https")

_SHARED = "?shared=yes"


def open_frontier(url: str, job: str, *, create: bool, patient: bool = False) -> Frontier:
    """The frontier of one job. Without ``create`` it must be there already.

    ``patient``: the job runs already, so a server that is unavailable now is waited for and not an error.
    """
    return _backend_of(url).open(url, job, create=create, patient=patient)


async def list_jobs(url: str) -> list[str]:
    """The names of the jobs that a frontier's URL reaches."""
    listing = _backend_of(url).list_jobs
    if listing is None:
        raise _not_supported(url, "listing jobs", "name the job with --job NAME")
    return await listing(url)


async def drop_job(url: str, job: str, actor: Actor | None = None) -> bool:
    """Remove a job and everything of it; False: there was none. It is recorded as the actor's, if there is one."""
    backend = _backend_of(url)
    if actor is not None and backend.drop_job_as is not None:
        return await backend.drop_job_as(url, job, actor)
    dropping = backend.drop_job
    if dropping is None:
        raise _not_supported(url, "dropping a job", "remove it with the tools of its store")
    return await dropping(url, job)


def is_shared(url: str) -> bool:
    """Whether several processes can use it."""
    return _backend_of(url).shared


def use_open_file(frontier: Frontier) -> bool:
    """Whether a frontier that has vanished can still be read, by what this process has open; from now on it can."""
    from skitter.frontier.transactional import TransactionalFrontier

    return isinstance(frontier, TransactionalFrontier) and frontier.use_open_file()


def is_redis(url: str) -> bool:
    """Whether a Redis is meant, of whichever kind; asked without its driver."""
    return url.partition("://")[0].lower() in REDIS_SCHEMES and "://" in url


def sqlite_file(url: str) -> tuple[Path, bool]:
    """The file of a ``sqlite:`` URL, and whether it is taken as it is: another user's, a link, open to others."""
    path = url.partition(":")[2]
    return Path(path.removesuffix(_SHARED)), path.endswith(_SHARED)


def is_missing_file(url: str) -> bool:
    """Whether it is a SQLite file that is not there: nobody has begun a job in it yet."""
    return url.startswith("sqlite:") and not os.path.lexists(sqlite_file(url)[0])


def local_frontiers() -> list[str]:
    """The URLs of all files of jobs in .skitter; FrontierError if the folder is not private."""
    try:
        private_files.close(private_files.FOLDER, private_files.FOLDER_MODE)
    except private_files.NotPrivateError as error:
        raise FrontierError(
            str(error),
            hint="remove it, work in another folder, or accept the store: --frontier 'sqlite:PATH?shared=yes'",
        ) from error
    return [f"sqlite:{file}" for file in sorted(private_files.FOLDER.glob("*.db"))]


def default_frontier(job: str) -> str:
    """Where a job is kept when the user does not say."""
    return f"sqlite:.skitter/{job}.db"


# ---- the backends


def _backend_of(url: str) -> FrontierBackend:
    scheme, separator, rest = url.partition(":")
    if separator and scheme == "memory":
        return _MEMORY
    if scheme == "sqlite" and rest:
        return _SQLITE
    if is_redis(url):
        return _REDIS
    if scheme.lower() in HTTP_SCHEMES and rest.startswith("//"):
        return _HTTP
    # A scheme of skitter's own that got here is a URL with a mistake in it, and belongs to no package.
    if separator and (name := scheme.lower()) not in ("memory", "sqlite", *REDIS_SCHEMES, *HTTP_SCHEMES):
        found = find_entry_point(FRONTIERS, name)
        if found is not None:
            return _backend_of_package(found)
    raise _no_frontier(url)


def _backend_of_package(found: EntryPoint) -> FrontierBackend:
    loaded = load_entry_point(found)
    if not isinstance(loaded, FrontierBackend):
        raise unusable(found, f"a FrontierBackend is expected, not {type(loaded).__name__}")

    def open_checked(url: str, job: str, *, create: bool, patient: bool) -> Frontier:
        try:
            frontier = loaded.open(url, job, create=create, patient=patient)
        except SkitterError:
            raise
        except Exception as error:
            raise unusable(found, f"it cannot be opened: {type(error).__name__}: {error}") from error
        promised = [name for name in dir(Frontier) if not name.startswith("_")]
        if missing := [name for name in promised if not callable(getattr(frontier, name, None))]:
            raise unusable(found, f"its {type(frontier).__name__} has no {', '.join(missing)}")
        return frontier

    return FrontierBackend(
        open=open_checked,
        shared=loaded.shared,
        list_jobs=loaded.list_jobs,
        drop_job=loaded.drop_job,
        drop_job_as=loaded.drop_job_as,
    )


def _open_memory(url: str, job: str, *, create: bool, patient: bool) -> Frontier:  # noqa: ARG001  nothing to open
    from skitter.frontier.memory import memory_frontier

    return memory_frontier(job)


def _open_sqlite(url: str, job: str, *, create: bool, patient: bool) -> Frontier:  # noqa: ARG001  a file is not unavailable
    from skitter.frontier.sqlite import sqlite_frontier

    path, shared = sqlite_file(url)
    return sqlite_frontier(path, job, create=create, shared=shared)


async def _list_sqlite(url: str) -> list[str]:
    from skitter.frontier.sqlite.jobs import list_jobs as in_file

    path, shared = sqlite_file(url)
    # In a thread, as below: another process may lock the file, and a large job takes its time.
    return await asyncio.to_thread(in_file, path, shared=shared)


async def _drop_sqlite(url: str, job: str, actor: Actor | None = None) -> bool:
    from skitter.frontier.sqlite.jobs import drop_job as in_file

    path, shared = sqlite_file(url)
    return await asyncio.to_thread(in_file, path, job, shared=shared, actor=actor)


def _open_redis(url: str, job: str, *, create: bool, patient: bool) -> Frontier:  # noqa: ARG001  a server is there or not
    from skitter.frontier.redis import redis_frontier

    return redis_frontier(url, job, patient=patient)


async def _list_redis(url: str) -> list[str]:
    from skitter.frontier.redis import list_jobs as in_redis

    return await in_redis(url)


async def _drop_redis(url: str, job: str) -> bool:
    from skitter.frontier.redis import drop_job as in_redis

    return await in_redis(url, job)


async def _drop_redis_as(url: str, job: str, actor: Actor) -> bool:
    from skitter.audit.entry import Draft
    from skitter.audit.redis_trail import RedisTrail
    from skitter.audit.trail import recorded
    from skitter.frontier.recorded_frontier import NOT_THERE
    from skitter.frontier.redis import drop_job as in_redis

    before = await _state_of(url, job)
    async with recorded(RedisTrail(url), Draft(actor=actor, action="drop", job=job, before=before)) as entry:
        dropped = await in_redis(url, job)
        if not dropped:
            entry.outcome = NOT_THERE
    return dropped


async def _state_of(url: str, job: str) -> dict[str, Any]:
    """What the entry of a drop says of the job before it."""
    frontier = open_frontier(url, job, create=False)
    try:
        state = await frontier.state()
    except FormatError:
        return {"state": "damaged"}
    except JobError:
        return {}
    finally:
        await frontier.close()
    return {"state": str(state.state), "run": state.run}


def _open_http(url: str, job: str, *, create: bool, patient: bool) -> Frontier:  # noqa: ARG001  as for a Redis
    from skitter.frontier.http import http_frontier

    return http_frontier(url, job, patient=patient)


async def _list_http(url: str) -> list[str]:
    from skitter.frontier.http import list_jobs as of_master

    return await of_master(url)


async def _drop_http(url: str, job: str, actor: Actor | None = None) -> bool:
    from skitter.frontier.http import drop_job as of_master

    return await of_master(url, job, actor)


_MEMORY = FrontierBackend(open=_open_memory, shared=False)
_SQLITE = FrontierBackend(
    open=_open_sqlite, shared=True, list_jobs=_list_sqlite, drop_job=_drop_sqlite, drop_job_as=_drop_sqlite
)
_REDIS = FrontierBackend(
    open=_open_redis, shared=True, list_jobs=_list_redis, drop_job=_drop_redis, drop_job_as=_drop_redis_as
)
_HTTP = FrontierBackend(open=_open_http, shared=True, list_jobs=_list_http, drop_job=_drop_http, drop_job_as=_drop_http)


def _not_supported(url: str, what: str, instead: str) -> UsageError:
    return UsageError(f"not supported by this frontier: {what}: {shown_address(url, is_server=True)}", hint=instead)


def _no_frontier(url: str) -> UsageError:
    known = "use sqlite:PATH, memory:, redis://HOST:PORT or https://MASTER:PORT"
    if others := entry_point_names(FRONTIERS):
        known += f", or a scheme of an installed package: {', '.join(f'{name}:' for name in others)}"
    return UsageError(f"not a frontier: {shown_address(url, is_server=True)}", hint=known)
