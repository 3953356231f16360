"""Fetching one page with the politeness of a job: robots.txt, delays and back-off hold for all who fetch that way.

The page's request is added to a job of the store with a need of its own, so that only the worker that wants the page is
granted it, and only when its host may be asked. The page is handed to the caller, and the job keeps nothing of it but
its id.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from skitter._version import __version__
from skitter.app.crawl_node import opened
from skitter.app.crawl_source import seed_url
from skitter.app.failure_sentence import failure_sentence
from skitter.app.fetchers import make_fetcher
from skitter.app.inline_worker import renewed
from skitter.app.worker_config import job_settings
from skitter.app.worker_main import join, leave
from skitter.cluster.process_identity import heartbeat_of, worker_id
from skitter.errors import FetchError, JobError
from skitter.extract.response import Response
from skitter.fetch.contract import Fetcher
from skitter.frontier.contract import Frontier, WorkSource
from skitter.model.job import Job, JobSpec, State
from skitter.model.lease import ONCE, Call, Grant, Lease, Work
from skitter.model.outcome import Committed, Ending, Outcome, RobotsRecord
from skitter.model.page import Page
from skitter.model.page_record import KnownPage
from skitter.model.proxy import ProxySeen
from skitter.model.request import Entry, Fingerprinter, Request, decode
from skitter.model.session import Jar, JarRef, SessionLogin
from skitter.model.worker import WorkerHeartbeat
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.failure import Failure
from skitter.spiders.scrapy_settings import translated
from skitter.worker.loop import Worker

POLL_SECONDS = 0.2
_MAX_ATTEMPTS = 20
_GOES_ON = (Ending.RETRY, Ending.REDIRECTED)


class PageWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A page that somebody waits for."""

    url: str
    key: str
    """Names this fetch: with the same key it is the same request, which goes on where it was left."""
    job: str
    """Whose politeness it has. A job that is not there is begun, with ``settings``, which count only then."""
    settings: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}


class NotYet(msgspec.Struct, frozen=True):
    """The host may not be asked yet."""

    seconds: float
    """When to ask again: an estimate."""


async def fetch_page(frontier: str, wanted: PageWanted, *, wait_seconds: float) -> Page | NotYet:
    """The page, or NotYet if its host kept it waiting for so long. Raises FetchError if it cannot be had.

    A page that was fetched for the same key before, by a caller that was killed behind it, is fetched again.
    """
    async with opened(frontier, wanted.job, create=True) as store:
        entry = await _added(store, await _begun(store, wanted), wanted)
        # Read again: one that was finished goes on now, and a worker looks at the state first.
        job = await store.job()
        settings = job_settings(job, {"concurrency": 1, "shutdown_seconds": 5.0})
        fetcher = make_fetcher(settings)
        try:
            return await PageFetch(frontier, store, job, entry, settings, fetcher).run(wait_seconds)
        finally:
            await fetcher.close()


async def _begun(store: Frontier, wanted: PageWanted) -> Job:
    try:
        return await store.job()
    except JobError:
        own = translated("settings", wanted.settings, [])[0][1]
        settings = Settings.from_layers([("settings", own)])
        spec = JobSpec(name=wanted.job, spider="", settings=settings.job_wide(), version=__version__)
        await store.begin(spec)
        return await store.job()


async def _added(store: Frontier, job: Job, wanted: PageWanted) -> Entry:
    fingerprinter = Fingerprinter.of_job(job)
    digest = hashlib.blake2b(wanted.key.encode(), digest_size=8).hexdigest()
    request = Request(
        seed_url(wanted.url),
        headers=dict(wanted.headers),
        dont_filter=True,
        need=f"fetch.{digest}",
        errback="failed",
        seed=True,
    )
    for attempt in range(_MAX_ATTEMPTS):
        # Of one that has ended the page is gone with its worker: the next attempt is another request.
        entry = fingerprinter.entry(request, int(digest, 16) >> 1, attempt)
        if await store.add([entry]):
            return entry
        trace = await store.trace(entry.id, entry.host_key)
        if trace is not None and trace.state in ("queued", "delayed", "leased"):
            return entry
    raise FetchError("lost", f"fetched {_MAX_ATTEMPTS} times, and its worker was lost each time: {wanted.url}")


class _Catcher(Spider):
    """Keeps the page that it is given."""

    def __init__(self, need: str, handle_statuses: Sequence[int]) -> None:
        super().__init__()
        self._need = need
        self.handle_statuses = handle_statuses
        self.response: Response | None = None
        self.refused: Response | None = None

    def parse(self, response: Response) -> None:
        # Whoever adds a URL without a need to this job has no use for its page.
        if response.request.need == self._need:
            self.response = response

    def failed(self, failure: Failure) -> None:
        """An errback. That the request has failed is told by its outcome."""
        if failure.request.need == self._need:
            self.refused = failure.response


class PageFetch:
    """A worker that is granted one request, and what follows from it."""

    def __init__(
        self,
        url: str,
        store: Frontier,
        job: Job,
        entry: Entry,
        settings: Settings,
        fetcher: Fetcher,
        *,
        handle_statuses: Sequence[int] = (),
    ) -> None:
        """``url``: of the store. ``handle_statuses``: those besides 2xx whose pages are wanted."""
        self._url = url
        self._wanted_url = decode(entry.payload).url
        self._store = store
        self._job = job
        self._entry = entry
        self._settings = settings
        self._fetcher = fetcher
        self._catcher = _Catcher(entry.need, handle_statuses)
        self._source = _WatchedSource(store, entry.need)

    @property
    def response(self) -> Response | None:
        """What was answered last, whatever its status, after ``run``; also if that has raised FetchError."""
        return self._catcher.response or self._catcher.refused

    async def run(self, wait_seconds: float) -> Page | NotYet:
        """The page, or NotYet if its host kept it waiting for so long. Raises FetchError if it cannot be had."""
        settings = self._settings
        # Not the process alone: threads of one process may fetch at a time, and each is a worker.
        own_id = f"{worker_id()}:{self._entry.need}"
        worker = Worker(
            own_id,
            source=self._source,
            fetcher=self._fetcher,
            spider=self._catcher,
            job=self._job,
            settings=settings,
            heartbeat=heartbeat_of(""),
        )
        worker.needs = (self._entry.need,)
        await join(worker, self._source)
        running = asyncio.create_task(worker.run())
        try:
            async with renewed(worker, self._url, self._job.spec.name, self._store, settings.limits.lease_seconds):
                late = await self._wait(running, wait_seconds)
                worker.stop()
                await running
            await leave(worker, self._source)
        finally:
            running.cancel()
            await asyncio.wait([running])
        return self._result(late)

    async def _wait(self, running: asyncio.Task[State], wait_seconds: float) -> NotYet | None:
        """Until the request has ended, or is not to be waited for any longer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        until_ended: list[asyncio.Future[Any]] = [running, self._source.ended]
        while not running.done() and self._source.last is None:
            done, _ = await asyncio.wait(until_ended, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
            if done or self._source.in_flight or loop.time() < deadline:
                continue
            return NotYet(await self._ready_in_seconds())
        if running.done() and self._source.last is None:
            if (state := (await self._store.state()).state) is State.STOPPED:
                raise JobError(
                    f"the job is {state}: {self._job.spec.name}", hint="run skitter resume, or use another job"
                )
            await self._ready_in_seconds()
        return None

    async def _ready_in_seconds(self) -> float:
        """When the request may be fetched; FetchError if its host was given up, and the request with it."""
        trace = await self._store.trace(self._entry.id, self._entry.host_key)
        if trace is not None and trace.state == "failed":
            raise FetchError(trace.error_class, failure_sentence(trace.url, trace.error_class, trace.error))
        return trace.ready_in_seconds if trace is not None else 0.0

    def _result(self, late: NotYet | None) -> Page | NotYet:
        if self._catcher.response is not None:
            return self._catcher.response.page
        if (last := self._source.last) is not None:
            kind = last.error_class or last.ending.value
            raise FetchError(kind, failure_sentence(self._wanted_url, kind, last.error or kind))
        return late or NotYet(1.0)


class _WatchedSource:
    """The store, as a worker sees it, and what became of requests with one need."""

    def __init__(self, store: WorkSource, need: str) -> None:
        self._store = store
        self._need = need
        self.in_flight = False
        self.last: Outcome | None = None
        """How the last hop has ended, for good."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        grant = await self._store.lease(worker, limit, call)
        self._note(grant)
        return grant

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        committed = await self._store.commit(worker, outcomes, want, call)
        for outcome, accepted in zip(outcomes, committed.accepted, strict=True):
            if accepted and not outcome.more and self._is_wanted(outcome.lease):
                self.in_flight = False
                if outcome.ending not in _GOES_ON or (outcome.ending is Ending.REDIRECTED and not outcome.links):
                    self.last = outcome
                    self.ended.set_result(None)
        if committed.grant is not None:
            self._note(committed.grant)
        return committed

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        await self._store.release(leases, late=late, touched=touched)
        if any(map(self._is_wanted, leases)):
            self.in_flight = False

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        return await self._store.renew(worker, leases)

    async def tell(self, worker: str, heartbeat: WorkerHeartbeat | None) -> None:
        await self._store.tell(worker, heartbeat)

    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        return await self._store.robots(host_keys)

    async def log_in(self, login: SessionLogin, entries: Sequence[Entry], *, failed: bool = False) -> bool:
        return await self._store.log_in(login, entries, failed=failed)

    async def jars(self, wanted: Sequence[JarRef]) -> list[Jar]:
        return await self._store.jars(wanted)

    async def count_distinct(self, changes: bytes) -> None:
        await self._store.count_distinct(changes)

    async def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        return await self._store.known_pages(after, until, limit)

    async def proxies(self) -> list[ProxySeen]:
        return await self._store.proxies()

    def _note(self, grant: Grant) -> None:
        self.in_flight = self.in_flight or any(map(self._is_wanted, grant.leases))

    def _is_wanted(self, lease: Lease) -> bool:
        return lease.work is Work.PAGE and lease.request.need == self._need
