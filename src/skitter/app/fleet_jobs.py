"""The jobs that a fleet's node finds in its stores, polled: new ones within a second, and at little cost when idle."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import msgspec

from skitter.app.frontiers import is_missing_file, list_jobs, open_frontier
from skitter.cluster.process_identity import is_alive
from skitter.concurrency import open_in_thread
from skitter.delivery.archive import unserved_archives
from skitter.delivery.job_sinks import STDOUT, OnEvent
from skitter.delivery.stream_runner import CLIENT
from skitter.errors import FormatError, FrontierError, JobError, SkitterError
from skitter.frontier.contract import Frontier
from skitter.model.job import Job, State
from skitter.model.secrets import shown_address
from skitter.model.worker import WorkerSeen
from skitter.observe import events
from skitter.settings import Fleet
from skitter.sinks.file_targets import archive_of
from skitter.sinks.targets import is_on_one_machine

ENDED_PER_LOOK = 10
"""Jobs that have ended of which one look asks whether they were reopened: of a hundred, each every ten seconds."""
SPECIFICATION_SECONDS = 10.0
"""How long a job's specification is believed: whoever resumes a job may give it another priority."""


class JobKey(NamedTuple):
    """A job of a store."""

    frontier: str
    job: str


class FleetJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a fleet's node sees it."""

    key: JobKey
    state: State
    run: int
    fleet: Fleet
    workers: list[WorkerSeen]
    """Those that are alive."""
    undelivered: list[str]
    """Targets of a job that has ended which this node can write, and nobody does."""
    files: list[str]
    """Files that this node is to write, and nobody writes to."""


class FleetJobs:
    """Polls the jobs of stores. Frontiers of jobs that are not over stay open."""

    def __init__(self, stores: Callable[[], Iterable[str]], node: str, on_event: OnEvent) -> None:
        """``stores`` gives the URLs of all frontiers, each time anew; ``node`` is the name of this node."""
        self._stores = stores
        self._node = node
        self._on_event = on_event
        self._open: dict[JobKey, Frontier] = {}
        self._specs: dict[JobKey, tuple[int, float, Job]] = {}
        self._ended: dict[JobKey, int] = {}
        """Jobs with nothing left to do, and their runs; those that were asked longest ago first."""
        self._unavailable_since: dict[str, float] = {}
        self._looked = False
        self.listed: set[JobKey] = set()
        """All jobs of the last look."""

    async def look(self) -> tuple[dict[JobKey, FleetJob], dict[JobKey, SkitterError]]:
        """All jobs with something to do, and those that cannot be read. Raises the first look's FrontierError."""
        keys = await self._list()
        self._looked, self.listed = True, set(keys)
        await self.forget(set(self._open) - self.listed)
        self._ended = {key: run for key, run in self._ended.items() if key in self.listed}
        asked_again = list(self._ended)[:ENDED_PER_LOOK]
        found: dict[JobKey, FleetJob] = {}
        unreadable: dict[JobKey, SkitterError] = {}
        for key in keys:
            if (key in self._ended and key not in asked_again) or key.frontier in self._unavailable_since:
                continue
            try:
                job = await self._look_at(key)
            except SkitterError as error:
                await self.forget([key])
                # One that was dropped a moment ago or is about to begin is no problem, and a store that is unavailable
                # is
                # waited for.
                if isinstance(error, FormatError) or not isinstance(error, (FrontierError, JobError)):
                    unreadable[key] = error
                continue
            if job is not None:
                found[key] = job
        return found, unreadable

    async def frontier(self, key: JobKey) -> Frontier:
        """The frontier of a job, which stays open until the job is over or forgotten."""
        if key not in self._open:
            # In a thread: a file may be locked, by a worker that stands still and that this process has to end.
            opened = await open_in_thread(open_frontier, *key, create=False)
            self._open[key] = opened
        return self._open[key]

    async def forget(self, keys: Collection[JobKey]) -> None:
        """Close the frontiers of these jobs."""
        for key in keys:
            self._specs.pop(key, None)
            if (frontier := self._open.pop(key, None)) is not None:
                with contextlib.suppress(FrontierError):
                    await frontier.close()

    async def close(self) -> None:
        await self.forget(list(self._open))

    async def _list(self) -> list[JobKey]:
        keys: list[JobKey] = []
        # One that is not there has no job yet.
        stores = [url for url in self._stores() if not is_missing_file(url)]
        for url in stores:
            try:
                keys += [JobKey(url, name) for name in await list_jobs(url)]
            except FrontierError as error:
                if not self._looked and len(stores) == 1:
                    raise
                # Its jobs are served by processes that wait by themselves.
                keys += [key for key in self.listed if key.frontier == url]
                if url not in self._unavailable_since:
                    self._unavailable_since[url] = time.monotonic()
                    self._on_event(events.FRONTIER_AWAY(store=shown_address(url), reason=str(error)))
            else:
                if (since := self._unavailable_since.pop(url, None)) is not None:
                    away_seconds = round(time.monotonic() - since, 1)
                    self._on_event(events.FRONTIER_BACK(store=shown_address(url), seconds=away_seconds))
        return keys

    async def _look_at(self, key: JobKey) -> FleetJob | None:
        """The job; None: there is nothing to do for it."""
        frontier = await self.frontier(key)
        state = await frontier.state()
        has_ended = state.state in (State.FINISHED, State.STOPPED)
        if self._ended.pop(key, None) == state.run and has_ended:
            self._ended[key] = state.run
            await self.forget([key])
            return None
        job = await self._specification(key, frontier, state.run)
        fleet, sinks = _fleet_settings(job), await frontier.sinks()
        finished = state.state is State.FINISHED
        left = [sink for sink in sinks if not sink.owner and (sink.is_incomplete if finished else sink.undelivered)]
        undelivered = [sink.target for sink in left if has_ended and not is_on_one_machine(sink.target)]
        if finished:
            undelivered += unserved_archives(sinks, finished=True)
        files = [
            sink.target
            for sink in (left if has_ended else sinks)
            if fleet.deliver_node == self._node and not sink.owner and is_node_file(sink.target)
        ]
        # One that somebody delivers to is looked at again: that process may die.
        if has_ended and not undelivered and not files and not any(sink.owner for sink in sinks):
            self._ended[key] = state.run
            await self.forget([key])
            return None
        workers = [] if has_ended else await frontier.workers()
        return FleetJob(
            key=key,
            state=state.state,
            run=state.run,
            fleet=fleet,
            workers=[worker for worker in workers if is_alive(worker, job)],
            undelivered=undelivered,
            files=files,
        )

    async def _specification(self, key: JobKey, frontier: Frontier, run: int) -> Job:
        known_run, read_at, job = self._specs.get(key, (0, 0.0, None))
        if job is None or known_run != run or time.monotonic() - read_at > SPECIFICATION_SECONDS:
            job = await frontier.job()
            self._specs[key] = (run, time.monotonic(), job)
        return job


def is_node_file(target: str) -> bool:
    """Whether it is written by the node that the job names (``deliver_node``)."""
    return target not in (CLIENT, STDOUT) and is_on_one_machine(target) and archive_of(target) is None


def _fleet_settings(job: Job) -> Fleet:
    """The job's settings of the group ``fleet``; another version of skitter may have stored others."""
    stored = {name: job.spec.settings[name] for name in Fleet.__struct_fields__ if name in job.spec.settings}
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(stored, Fleet)
    return Fleet()
