"""Which frontier a URL means. Nothing else in skitter looks at these schemes; for targets, ``sinks.targets`` does."""

from __future__ import annotations

from pathlib import Path

from skitter.errors import UsageError
from skitter.frontier.contract import Frontier
from skitter.model.secrets import shown_address

REDIS_SCHEMES = ("unix", *(f"redis{tls}{kind}" for tls in ("", "s") for kind in ("", "+sentinel", "+cluster")))

_SHARED = "?shared=yes"


def open_frontier(url: str, job: str, *, create: bool, patient: bool = False) -> Frontier:
    """The frontier of one job. Without ``create`` it must be there already.

    ``patient``: the job runs already, so a server that is away now is waited for and not an error.
    """
    scheme, separator, rest = url.partition(":")
    if separator and scheme == "memory":
        from skitter.frontier.memory import memory_frontier

        return memory_frontier(job)
    if separator and scheme == "sqlite" and rest:
        from skitter.frontier.sqlite import sqlite_frontier

        path, shared = sqlite_file(url)
        return sqlite_frontier(path, job, create=create, shared=shared)
    if is_redis(url):
        from skitter.frontier.redis import redis_frontier

        return redis_frontier(url, job, patient=patient)
    raise _no_frontier(url)


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


async def list_jobs(url: str) -> list[str]:
    """The names of the jobs that a frontier's URL reaches."""
    if is_redis(url):
        from skitter.frontier.redis import list_jobs as in_redis

        return await in_redis(url)
    if url.startswith("sqlite:") and url != "sqlite:":
        from skitter.frontier.sqlite.jobs import list_jobs as in_file

        path, shared = sqlite_file(url)
        return in_file(path, shared=shared)
    raise _no_frontier(url)


async def drop_job(url: str, job: str) -> bool:
    """Remove a job and everything of it; False: there was none."""
    if is_redis(url):
        from skitter.frontier.redis import drop_job as in_redis

        return await in_redis(url, job)
    if url.startswith("sqlite:") and url != "sqlite:":
        from skitter.frontier.sqlite.jobs import drop_job as in_file

        path, shared = sqlite_file(url)
        return in_file(path, job, shared=shared)
    raise _no_frontier(url)


def _no_frontier(url: str) -> UsageError:
    shown = shown_address(url, is_server=True)
    return UsageError(f"not a frontier: {shown}", hint="use sqlite:PATH, memory: or redis://HOST:PORT")


def is_shared(url: str) -> bool:
    """Whether several processes can use it."""
    return not url.startswith("memory:")


def default_frontier(job: str) -> str:
    """Where a job is kept when the user does not say."""
    return f"sqlite:.skitter/{job}.db"
