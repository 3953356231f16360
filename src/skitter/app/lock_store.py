"""Where the locks of a job's spiders are: at the node's coordinator, else in the store of the job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skitter.app.frontiers import is_redis, sqlite_file
from skitter.errors import UsageError
from skitter.model.secrets import shown_address
from skitter.settings import Run
from skitter.spiders.base import Spider
from skitter.spiders.job_locks import JobLocks, in_process

if TYPE_CHECKING:
    from skitter.cluster.cluster import Cluster

FILE_SUFFIX = "-locks"
"""The file of a frontier belongs to its jobs and is removed with the last one, so its locks are in one beside it."""
NAMESPACE = "jobs"
"""Of a Redis that is a frontier too."""


@asynccontextmanager
async def locks_given(spider: Spider, run: Run, frontier: str, job: str) -> AsyncIterator[None]:
    """While the body works the spider has the locks of its job; what it still holds in the end is released."""
    locks = spider.job_locks = JobLocks(job, lambda: lock_cluster(run, frontier))
    try:
        yield
    finally:
        await locks.close()


def lock_cluster(run: Run, frontier: str) -> Cluster:
    """The coordinator of a job's locks, not opened yet. UsageError: neither the node nor its frontier has one."""
    from skitter.cluster.coordinators import connect

    if run.coordinator:
        return connect(run.coordinator, session_seconds=run.coordinator_seconds)
    if frontier.startswith("sqlite:"):
        return connect(f"sqlite:{sqlite_file(frontier)[0]}{FILE_SUFFIX}")
    if is_redis(frontier):
        place, _, query = frontier.partition("?")
        options = [option for option in query.split("&") if option and not option.startswith("shards=")]
        return connect("?".join([place, "&".join([*options, f"namespace={NAMESPACE}"])]))
    if frontier.partition(":")[0] == "memory":
        return in_process()
    raise UsageError(
        f"this frontier has no locks for spiders: {shown_address(frontier, is_server=True)}",
        hint="start the nodes with a --coordinator: redis://, zookeeper:// or sqlite:PATH",
    )
