"""``/metrics`` of all jobs of a store, ``/readyz``, and how many workers a job could use, for autoscalers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from aiohttp import web

from skitter.app.frontiers import is_missing_file
from skitter.app.schedules import CommandTarget, Schedules
from skitter.app.views.metrics import (
    JobFigures,
    build_info,
    job_samples,
    jobs_samples,
    read_job,
    scale_view,
    schedule_samples,
)
from skitter.app.views.status import status_view
from skitter.errors import FormatError, FrontierError, JobError, SkitterError, VanishedError
from skitter.frontier.http.wire import Role
from skitter.model.job import State
from skitter.node.memory_watch import resident_bytes
from skitter.observe import metrics
from skitter.observe.metrics import JOB_METRICS, Sample
from skitter.web.credentials import Credential
from skitter.web.frontier_routes import FrontierRoutes, RefusedError, authorised, jobs_of_store

READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
SCALE_PATH = "/api/v1/jobs/{job}/scale"
MAX_JOBS = 100
"""Jobs that have series of their own: those that run first, then by name. Each has 86."""
MAX_LOOKED_AT = 1_000
"""Jobs whose state is asked for, the first by name."""
SCRAPE_SECONDS = 25.0
READY_SECONDS = 5.0
READY_KEPT_SECONDS = 1.0
"""Anybody may ask whether the server is ready: the store is asked once in so long."""
_UNREADABLE = (FormatError, VanishedError)
PER_WORKER = 1_000
"""Requests for which an autoscaler should have one worker, if it does not say."""


def add_metrics_routes(app: web.Application, routes: FrontierRoutes) -> Ready:
    """Add the routes. ``/readyz`` is answered without a credential, by what is returned."""
    scrapes, ready = _Scrapes(routes), Ready(lambda: jobs_of_store(routes.url))

    app.router.add_get(METRICS_PATH, scrapes.answer)
    app.router.add_get(READY_PATH, ready.answer)

    async def scale(request: web.Request) -> web.Response:
        return await _scale(request, routes)

    app.router.add_get(SCALE_PATH, scale)
    return ready


class Ready:
    """Whether the store answers."""

    def __init__(self, ask: Callable[[], Awaitable[object]]) -> None:
        self._ask = ask
        self._asked_at = float("-inf")
        self._problem = ""
        self._turn = asyncio.Lock()

    async def answer(self, _: web.Request) -> web.Response:
        async with self._turn:
            if time.monotonic() - self._asked_at > READY_KEPT_SECONDS:
                self._problem = await self._asked()
                self._asked_at = time.monotonic()
        # Why is for the log and for those with a credential.
        text = f"the store is away: {self._problem}\n" if self._problem else "ok\n"
        return web.Response(text=text, status=503 if self._problem else 200)

    async def _asked(self) -> str:
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._ask()
        except TimeoutError:
            return "no answer in time"
        except SkitterError as error:
            return type(error).__name__
        return ""


class _Scrapes:
    """Reads all jobs of the store for one scrape at a time."""

    def __init__(self, routes: FrontierRoutes) -> None:
        self._routes = routes
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
        names = [name for name in await jobs_of_store(self._routes.url) if credential.may_see(name)]
        states = {name: await self._state(name) for name in names[:MAX_LOOKED_AT]}
        readable = [name for name, state in states.items() if state in list(State)]
        chosen = sorted(readable, key=lambda name: (states[name] != State.RUNNING, name))[:MAX_JOBS]
        samples = [build_info(), Sample(metrics.SERVER_MEMORY, (), resident_bytes())]
        for name in sorted(chosen):
            figures = await self._figures(name)
            # One that was dropped meanwhile has no figures.
            samples += job_samples(figures) if figures is not None else ()
        samples += jobs_samples(states.values(), len(readable) - len(chosen) + len(names) - len(states))
        samples += await self._schedules()
        return [*samples, Sample(metrics.SCRAPE_SECONDS, (), time.monotonic() - began)]

    async def _state(self, job: str) -> str:
        try:
            async with self._routes.jobs.use(job) as frontier:
                return (await frontier.state()).state
        except JobError:
            return "gone"
        except FrontierError as error:
            if isinstance(error, _UNREADABLE):
                return "unreadable"
            raise

    async def _figures(self, job: str) -> JobFigures | None:
        try:
            async with self._routes.jobs.use(job) as frontier:
                return await read_job(frontier, self._routes.url)
        except (JobError, *_UNREADABLE):
            return None

    async def _schedules(self) -> Iterator[Sample]:
        url = self._routes.url
        if is_missing_file(url):
            return schedule_samples((), time.time())
        async with Schedules(url, check_command=_no_command) as schedules:
            return schedule_samples(await schedules.list(), time.time())


async def _scale(request: web.Request, routes: FrontierRoutes) -> web.Response:
    authorised(request, Role.VIEWER)
    text = request.query.get("per_worker", str(PER_WORKER))
    if not text.isdecimal() or not 0 < int(text[:10]) < 10**9:
        raise RefusedError(400, f"not a whole number above zero: per_worker={text[:20]}")
    job = request.match_info["job"]
    try:
        async with asyncio.timeout(READY_SECONDS), routes.jobs.use(job) as frontier:
            status = status_view(await frontier.report(0), routes.url)
    except TimeoutError as error:
        raise RefusedError(503, "the store does not answer in time") from error
    except JobError as error:
        raise RefusedError(404, str(error), hint=error.hint) from error
    return web.json_response(scale_view(status, int(text))._asdict())


def _no_command(_words: object, _frontier: str) -> CommandTarget:
    raise AssertionError("only read")
