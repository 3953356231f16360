"""Reads of jobs: the list, one job, and everything that belongs to it. Each is bounded, whatever the job's size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from skitter._version import __version__
from skitter.app.host_list import host_page
from skitter.app.views.jobs import JobView, job_view, problem_view
from skitter.app.views.metrics import ScaleView, scale_view
from skitter.app.views.proxies import ProxyView, proxy_view
from skitter.app.views.sessions import SessionView, session_view
from skitter.app.views.settings import JobSetting, job_setting_rows
from skitter.app.views.status import StatusView, WorkerView, status_view
from skitter.app.views.why import WhyView, why_url
from skitter.delivery.item_preview import preview_job
from skitter.errors import FrontierError, JobError
from skitter.frontier.contract import Frontier
from skitter.model.host import HostFilter
from skitter.model.intake import IntakeSeen
from skitter.model.job import HostSeen, Report, SinkSeen
from skitter.model.store_capacity import StoreCapacity
from skitter.model.url import MAX_URL_CHARS
from skitter.web.api.live_figures import POLL_SECONDS, LiveFigures, Sample
from skitter.web.api.route import MAX_PAGE_LIMIT, PAGE_LIMIT, Call, Page, Rows, StoreQuery
from skitter.web.frontier_routes import RefusedError
from skitter.web.stores import Store

JOBS_AT_ONCE = 8
MAX_JOBS_READ = 400
"""Of one page of the list, with a filter by state."""
LISTED_SEEDS = 20
LISTED_WORKERS = 20
MAX_DEEP_HOSTS = 100
MAX_CURSOR_CHARS = 400

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_LIMIT)]
Cursor = Annotated[str, msgspec.Meta(max_length=MAX_CURSOR_CHARS)]
Text = Annotated[str, msgspec.Meta(max_length=1_000)]


class PageQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of a list."""

    limit: Limit = PAGE_LIMIT
    after: Cursor = ""


class JobsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    search: Text = ""
    """A part of the name, in any case."""
    state: Literal[
        "", "running", "paused", "draining", "stopped", "finished", "unknown", "unreadable", "interrupted"
    ] = ""


class HistoryQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since: float = 0.0


class HostsQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["slow", "deep", "all", "paused", "blocked", "given_up"] = "slow"
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_DEEP_HOSTS)] = PAGE_LIMIT
    """Of ``slow`` and ``deep`` so many at most, and there is no further page; of the others about so many."""
    after: Cursor = ""
    search: Text = ""
    """A part of the host, in any case; not for ``slow`` and ``deep``."""


class WorkersQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    alive: bool | None = None


class ItemsQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sample: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20
    most: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1_000


class ScaleQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    per_worker: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 1_000
    """Requests for which there should be one worker."""


class WhyQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_URL_CHARS)]


class StoreRow(msgspec.Struct, frozen=True, kw_only=True):
    """A store that is served."""

    name: str
    frontier: str
    """Its URL, without a password."""


class StoresAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The stores, and the version of this server."""

    rows: list[StoreRow]
    version: str


class JobRow(JobView, frozen=True, kw_only=True):
    """A job in the list."""

    store: str


class JobDetail(StatusView, frozen=True, kw_only=True):
    """A job: what ``skitter status --json`` shows, with the first of its seeds, sitemaps and workers."""

    store: str
    seed_count: int


class HistoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a job, the oldest first."""

    rows: list[Sample]
    sample_seconds: float


class ItemsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What ``skitter items --json`` shows."""

    job: str
    source: str
    items: int
    undelivered: int
    fields: dict[str, Any]
    sample: list[dict[str, Any]]


class JobReads:
    """The handlers."""

    def __init__(self, figures: LiveFigures) -> None:
        self._figures = figures

    async def stores(self, call: Call) -> StoresAnswer:
        rows = [StoreRow(name=store.name, frontier=store.shown) for store in call.stores.values()]
        return StoresAnswer(rows=rows, version=__version__)

    async def jobs(self, call: Call) -> Page[JobRow]:
        query: JobsQuery = call.query
        wanted = [place async for place in self._places(call)]
        found: list[JobRow] = []
        read, last = 0, ""
        while wanted and len(found) < query.limit and read < MAX_JOBS_READ:
            chunk, wanted = wanted[:JOBS_AT_ONCE], wanted[JOBS_AT_ONCE:]
            views = await asyncio.gather(*(self._row(*place) for place in chunk))
            for (store, job), view in zip(chunk, views, strict=True):
                if len(found) == query.limit:
                    return Page(rows=found, next=last)
                read, last = read + 1, f"{store.name}/{job}"
                if _is_in_state(view, query.state):
                    found.append(view)
        return Page(rows=found, next=last if wanted else None)

    async def job(self, call: Call) -> JobDetail:
        return self.detail(call.store, await self._report(call))

    def detail(self, store: Store, report: Report) -> JobDetail:
        """One job as it is shown."""
        view = status_view(report, store.url_of(report.job.spec.name))
        silent_first = sorted(view.worker_list, key=lambda worker: (worker.alive, worker.id))
        fields = {name: getattr(view, name) for name in StatusView.__struct_fields__} | {
            "pages_per_second": round(view.pages_per_second, 2),
            "overdue_seconds": round(view.overdue_seconds, 3),
            "seeds": view.seeds[:LISTED_SEEDS],
            "sitemaps": view.sitemaps[:LISTED_SEEDS],
            "worker_list": silent_first[:LISTED_WORKERS],
        }
        return JobDetail(**fields, store=store.name, seed_count=len(view.seeds))

    async def history(self, call: Call) -> HistoryAnswer:
        rows = await self._figures.history(call.store, call.job, call.query.since)
        return HistoryAnswer(rows=rows, sample_seconds=POLL_SECONDS)

    async def hosts(self, call: Call) -> Page[HostSeen]:
        query: HostsQuery = call.query
        if query.kind == "slow":
            return Page(rows=(await self._report(call)).hosts[: query.limit], next=None)
        async with opened_job(call) as frontier:
            if query.kind == "deep":
                return Page(rows=(await frontier.report(0, query.limit)).crowded[: query.limit], next=None)
            page = await host_page(frontier, HostFilter(query.kind), query.limit, query.after, query.search)
        return Page(rows=page.hosts, next=page.after or None)

    async def workers(self, call: Call) -> Page[WorkerView]:
        query: WorkersQuery = call.query
        view = status_view(await self._report(call), "")
        listed = sorted(view.worker_list, key=lambda worker: worker.id)
        rows = [
            worker
            for worker in listed
            if worker.id > query.after and (query.alive is None or worker.alive is query.alive)
        ]
        return Page(rows=rows[: query.limit], next=rows[query.limit - 1].id if len(rows) > query.limit else None)

    async def items(self, call: Call) -> ItemsAnswer:
        query: ItemsQuery = call.query
        async with opened_job(call) as frontier:
            look = await preview_job(frontier, sample=query.sample, most=query.most, below=Path.cwd())
        return ItemsAnswer(
            job=call.job,
            source=look.source,
            items=look.items,
            undelivered=look.undelivered,
            fields=look.fields,
            sample=look.sample,
        )

    async def sinks(self, call: Call) -> Rows[SinkSeen]:
        return Rows(rows=(await self._report(call)).sinks)

    async def intakes(self, call: Call) -> Rows[IntakeSeen]:
        return Rows(rows=(await self._report(call)).intakes)

    async def why(self, call: Call) -> WhyView:
        async with opened_job(call) as frontier:
            return await why_url(frontier, call.query.url)

    async def settings(self, call: Call) -> Rows[JobSetting]:
        return Rows(rows=job_setting_rows((await self._report(call)).job.spec))

    async def proxies(self, call: Call) -> Rows[ProxyView]:
        async with opened_job(call) as frontier:
            return Rows(rows=[proxy_view(proxy) for proxy in await frontier.proxies()])

    async def sessions(self, call: Call) -> Rows[SessionView]:
        async with opened_job(call) as frontier:
            return Rows(rows=[session_view(session) for session in await frontier.sessions()])

    async def scale(self, call: Call) -> ScaleView:
        return scale_view(status_view(await self._report(call), call.store.url_of(call.job)), call.query.per_worker)

    async def capacity(self, call: Call) -> Rows[StoreCapacity]:
        async with opened_job(call) as frontier:
            return Rows(rows=await frontier.capacity())

    # ---- the parts

    async def _report(self, call: Call) -> Report:
        return await self._figures.report(call.store, call.job)

    async def _places(self, call: Call) -> AsyncIterator[tuple[Store, str]]:
        """The jobs that a call may see, in order, after its cursor."""
        query: JobsQuery = call.query
        after_store, _, after_job = query.after.partition("/")
        chosen = call.chosen_stores()
        if query.after and after_store not in [store.name for store in chosen]:
            raise RefusedError(400, "invalid cursor of this list: after", hint="use the value of next")
        passed = not query.after
        for store in chosen:
            is_start = store.name == after_store
            if not (passed or is_start):
                continue
            for job in sorted(await store.jobs()):
                is_after = passed or job > after_job
                if is_after and call.credential.may_see(job) and query.search.lower() in job.lower():
                    yield store, job
            passed = passed or is_start

    async def _row(self, store: Store, job: str) -> JobRow:
        try:
            view = job_view(await self._figures.report(store, job), store.url_of(job))
        except (JobError, FrontierError) as error:
            # One file that cannot be read does not hide the others.
            view = problem_view(store.url_of(job), job, error)
        fields = {name: getattr(view, name) for name in JobView.__struct_fields__}
        return JobRow(**fields, store=store.name)


@asynccontextmanager
async def opened_job(call: Call, *, alone: bool = False) -> AsyncIterator[Frontier]:
    """The frontier of a call's job, which must be there."""
    await call.store.check_job(call.job)
    async with call.store.use(call.job, alone=alone) as frontier:
        yield frontier


def _is_in_state(view: JobRow, state: str) -> bool:
    if state == "interrupted":
        return view.state == "running" and not view.workers
    return not state or view.state == state
