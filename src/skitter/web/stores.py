"""The stores that a master serves: each has a short name, and opens the frontiers of its jobs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from skitter import private_files
from skitter.app.frontiers import (
    default_frontier,
    drop_job,
    is_missing_file,
    is_shared,
    list_jobs,
    local_frontiers,
    open_frontier,
    sqlite_file,
)
from skitter.concurrency import open_in_thread
from skitter.errors import FrontierError, MissingJobError, UsageError
from skitter.frontier.contract import Frontier
from skitter.model.audit import Actor
from skitter.model.secrets import shown_frontier
from skitter.web.open_jobs import OpenJobs

LOCAL = "local"
"""The name of the folder .skitter."""
_NAMED = re.compile(r"([A-Za-z][\w-]{0,30})=(.+)")
_NOT_IN_NAMES = re.compile(r"[^\w-]+")


class Store:
    """The jobs that one URL reaches."""

    def __init__(self, name: str, url: str, open_job: Callable[[str], Frontier] | None = None) -> None:
        """``open_job``: for tests, in place of the frontiers of the URL."""
        self.name = name
        self.url = url
        self._opened = OpenJobs(open_job or self._open)

    @property
    def shown(self) -> str:
        """Its URL, without a password."""
        return shown_frontier(self.url)

    @property
    def schedules_url(self) -> str:
        """Where its schedules are."""
        return self.url

    def url_of(self, job: str) -> str:  # noqa: ARG002  of a folder, each job has its own
        """The frontier of a job."""
        return self.url

    async def check(self) -> None:
        """Raise FrontierError or UsageError if it cannot be served."""
        if not is_shared(self.url):
            raise UsageError(f"exists inside one process only: {self.shown}", hint="serve sqlite:PATH or redis://HOST")
        await self.jobs()

    async def jobs(self) -> list[str]:
        """The names of its jobs. It is made if it is not there: a SQLite file goes with its last job."""
        # In a thread: a file may be locked by another process.
        frontier = await open_in_thread(open_frontier, self.url, "any", create=True)
        await frontier.close()
        return await list_jobs(self.url)

    async def check_job(self, job: str) -> None:
        """Raise MissingJobError if opening the frontier of this job would make a file for it."""

    def use(self, job: str, *, alone: bool = False) -> AbstractAsyncContextManager[Frontier]:
        """The frontier of a job: see ``OpenJobs.use``."""
        return self._opened.use(job, alone=alone)

    async def drop(self, job: str, actor: Actor) -> bool:
        """Remove a job; False: there was none."""
        await self._opened.forget(job)
        return job in await self.jobs() and await drop_job(self.url_of(job), job, actor)

    async def close(self) -> None:
        await self._opened.close()

    def _open(self, job: str) -> Frontier:
        # Patient: a store that is unavailable now is waited for by the call, and by its client after that.
        return open_frontier(self.url_of(job), job, create=True, patient=True)


class FolderStore(Store):
    """The files of jobs in .skitter: usually one for each job."""

    def __init__(self) -> None:
        super().__init__(LOCAL, "")
        self._files: dict[str, str] = {}
        """The file of each job, as they were last listed."""

    @property
    def shown(self) -> str:
        return str(private_files.FOLDER)

    def url_of(self, job: str) -> str:
        own = default_frontier(job)
        return own if not is_missing_file(own) else self._files.get(job, own)

    async def check(self) -> None:
        await self.jobs()

    async def jobs(self) -> list[str]:
        """All jobs of all files. A file that cannot be read is listed by its name, and tells the rest when asked."""
        files: dict[str, str] = {}
        for url in await asyncio.to_thread(local_frontiers):
            try:
                names = await list_jobs(url)
            except FrontierError:
                names = [Path(sqlite_file(url)[0]).stem]
            files.update(dict.fromkeys(names, url))
        self._files = files
        return sorted(files)

    async def check_job(self, job: str) -> None:
        if is_missing_file(self.url_of(job)) and job not in await self.jobs():
            raise MissingJobError(f"no such job: {job}", hint="skitter jobs lists the existing jobs")


def stores_of(frontiers: Sequence[str]) -> list[Store]:
    """The stores of ``--frontier [NAME=]URL``, each with a name of its own; without any, the folder .skitter."""
    if not frontiers:
        return [FolderStore()]
    stores: dict[str, Store] = {}
    for text in frontiers:
        named = _NAMED.fullmatch(text)
        # A URL may have an = too, in its options; its scheme ends before that.
        given, url = (named[1], named[2]) if named and ":" not in named[1] else ("", text)
        if given in stores:
            raise UsageError(
                f"two stores of the same name: {given}", hint="as in --frontier one=URL --frontier two=URL"
            )
        name = given or _free_name(_default_name(url), stores)
        stores[name] = Store(name, url)
    return list(stores.values())


def _default_name(url: str) -> str:
    """A short name made of a URL: a file's name, or a server's host."""
    if url.startswith("sqlite:"):
        text = sqlite_file(url)[0].stem
    else:
        text = shown_frontier(url).partition("://")[2].rpartition("@")[2].partition("?")[0].partition(":")[0]
    return _NOT_IN_NAMES.sub("-", text).strip("-")[:30] or "store"


def _free_name(name: str, taken: dict[str, Store]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
