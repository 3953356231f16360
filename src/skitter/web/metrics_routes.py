"""``/metrics`` of all jobs of the stores, and ``/readyz``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

import msgspec
from aiohttp import web

from skitter.app.frontiers import is_missing_file
from skitter.app.schedules import CommandTarget, Schedules, ScheduleView
from skitter.app.views.metrics import JobFigures, build_info, job_samples, jobs_samples, read_job, schedule_samples
from skitter.cluster.process_identity import resident_bytes
from skitter.errors import FormatError, FrontierError, JobError, SkitterError, UsageError, VanishedError
from skitter.frontier.http.wire import Role
from skitter.model.job import State
from skitter.observe import metrics
from skitter.observe.metrics import JOB_METRICS, Sample
from skitter.web.api.schedules import may_see_schedule
from skitter.web.credentials import Credential
from skitter.web.frontier_routes import RefusedError, authorised
from skitter.web.stores import Store

READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
MAX_JOBS = 100
"""Jobs that have series of their own: those that run first, then by name. Each has 86."""
MAX_LOOKED_AT = 1_000
"""Jobs whose state is asked for, the first by name."""
SCRAPE_SECONDS = 25.0
READY_SECONDS = 5.0
READY_KEPT_SECONDS = 1.0
"""Anybody may ask whether the server is ready: the store is asked once in so long."""
_UNREADABLE = (FormatError, VanishedError)


def add_metrics_routes(app: web.Application, stores: Sequence[Store]) -> None:
    """Add ``/metrics``, and ``/readyz``, which is public."""
    app.router.add_get(METRICS_PATH, _Scrapes(stores).answer)
    app.router.add_get(READY_PATH, _Ready(stores).answer)


class _Ready:
    """Whether the stores answer."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        self._asked_at = float("-inf")
        self._problem = ""
        self._turn = asyncio.Lock()

    async def answer(self, _: web.Request) -> web.Response:
        async with self._turn:
            if time.monotonic() - self._asked_at > READY_KEPT_SECONDS:
                self._problem = await self._asked()
                self._asked_at = time.monotonic()
        # Why is for the log and for those with a credential.
        text = f"the store is unavailable: {self._problem}\n" if self._problem else "ok\n"
        return web.Response(text=text, status=503 if self._problem else 200)

    async def _asked(self) -> str:
        try:
            async with asyncio.timeout(READY_SECONDS):
                for store in self._stores:
                    await store.jobs()
        except TimeoutError:
            return "no answer in time"
        except SkitterError as error:
            return type(error).__name__
        return ""


class _Scrapes:
    """Reads all jobs of the stores for one scrape at a time."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        self._turn = asyncio.Lock()

    async def answer(self, request: web.Request) -> web.Response:
        credential = authorised(request, Role.VIEWER)
        kind, wants_open = metrics.content_type(request.headers.get("Accept", ""))
        try:
            async with asyncio.timeout(SCRAPE_SECONDS), self._turn:
                samples = await self._samples(credential)
        except TimeoutError as error:
            raise RefusedError(503, "the store does not answer in time") from error
        except FrontierError as error:
            # A scrape that fails shows as ``up`` 0; figures of half a store would look like a fall.
            raise RefusedError(503, str(error), hint=error.hint) from error
        text = metrics.render(samples, JOB_METRICS, open_metrics=wants_open)
        return web.Response(body=text.encode(), headers={"Content-Type": kind})

    async def _samples(self, credential: Credential) -> list[Sample]:
        began = time.monotonic()
        places = [(store, name) for store in self._stores for name in await store.jobs() if credential.may_see(name)]
        states = {place: await self._state(*place) for place in places[:MAX_LOOKED_AT]}
        readable = [place for place, state in states.items() if state in list(State)]
        chosen = sorted(readable, key=lambda place: (states[place] != State.RUNNING, place[1]))[:MAX_JOBS]
        samples = [build_info(), Sample(metrics.SERVER_MEMORY, (), resident_bytes())]
        for store, name in sorted(chosen, key=lambda place: (place[0].name, place[1])):
            figures = await self._figures(store, name)
            # One that was dropped meanwhile has no figures.
            samples += job_samples(figures) if figures is not None else ()
        samples += jobs_samples(states.values(), len(readable) - len(chosen) + len(places) - len(states))
        samples += await self._schedules(credential)
        return [*samples, Sample(metrics.SCRAPE_SECONDS, (), time.monotonic() - began)]

    async def _state(self, store: Store, job: str) -> str:
        try:
            async with store.use(job) as frontier:
                return (await frontier.state()).state
        except JobError:
            return "gone"
        except FrontierError as error:
            if isinstance(error, _UNREADABLE):
                return "unreadable"
            raise

    async def _figures(self, store: Store, job: str) -> JobFigures | None:
        try:
            async with store.use(job) as frontier:
                figures = await read_job(frontier, store.url_of(job))
        except (JobError, *_UNREADABLE):
            return None
        if len(self._stores) == 1:
            return figures
        # Two stores may have jobs of one name.
        status = msgspec.structs.replace(figures.status, job=f"{store.name}/{job}")
        return figures._replace(status=status)

    async def _schedules(self, credential: Credential) -> Iterator[Sample]:
        views: list[ScheduleView] = []
        for url in {store.schedules_url for store in self._stores}:
            if is_missing_file(url):
                continue
            try:
                opened = Schedules(url, check_command=_no_command)
            except UsageError:
                # It has no place for them: another master.
                continue
            async with opened as schedules:
                views += [view for view in await schedules.list() if may_see_schedule(credential, view)]
        return schedule_samples(views, time.time())


def _no_command(_words: object, _frontier: str) -> CommandTarget:
    raise AssertionError("only read")
