"""Changes of jobs: commands, settings, retries, new runs, submissions, repairs, drops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec

from skitter.app.crawl_source import check_inside, seed_url
from skitter.app.frontiers import default_frontier
from skitter.app.host_list import key_of
from skitter.app.job_checks import refuse_live_workers, spent_limit
from skitter.app.remote_limits import check_remote_outputs, check_remote_settings
from skitter.app.submit import Submitted, submission_config, submit_job
from skitter.app.views.failed import check_error_class
from skitter.app.views.fsck import check_job
from skitter.cluster.process_identity import live_workers
from skitter.errors import DamageError, JobError, MissingJobError
from skitter.frontier.contract import Frontier, acting_for
from skitter.frontier.http.wire import Role
from skitter.model.consistency import Consistency
from skitter.model.host import HostCommand
from skitter.model.job import Begun, Command, Job, State
from skitter.model.request import Fingerprinter, Request
from skitter.web.api.failures import host_of, newest_failed
from skitter.web.api.job_reads import opened_job
from skitter.web.api.live_figures import LiveFigures
from skitter.web.api.route import Answer, Call, check_scope
from skitter.web.frontier_routes import RefusedError, not_permitted
from skitter.web.stores import FolderStore, Store

MAX_URLS = 1_000
MAX_IDS = 1_000
RETRY_LOOKED_AT = 10_000
"""Failures that one retry by host looks through."""
MAX_BAN_SECONDS = 30 * 86_400.0
_LOCAL_HINT = "give it on the machine: skitter submit"

Url = Annotated[str, msgspec.Meta(min_length=1, max_length=8_000)]
Urls = Annotated[list[Url], msgspec.Meta(max_length=MAX_URLS)]
Names = dict[Annotated[str, msgspec.Meta(max_length=200)], Any]
RequestId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]


class SubmitBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to begin, or to resume."""

    urls: Urls = []
    sitemaps: Urls = []
    spider: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    """``file.py:Class`` below the folder that the server was started in; null: the built-in one."""
    job: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    output: Annotated[list[Url], msgspec.Meta(max_length=20)] = []
    """Targets that every node can write; without any, items are kept for programs."""
    settings: Names = {}
    arguments: dict[str, str] = {}
    fresh: bool = False


class UrlsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """URLs to add to a job."""

    urls: Annotated[list[Url], msgspec.Meta(min_length=1, max_length=MAX_URLS)]
    priority: Annotated[int, msgspec.Meta(ge=-(10**9), le=10**9)] = 0


class SettingsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings to change, as ``skitter set`` takes them."""

    settings: Names


class RetryBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which failures to queue again: those named, or all of a class and a host; nothing: all."""

    ids: Annotated[list[RequestId], msgspec.Meta(max_length=MAX_IDS)] = []
    error_class: Annotated[str, msgspec.Meta(max_length=100)] = msgspec.field(default="", name="class")
    host: Annotated[str, msgspec.Meta(max_length=2_000)] = ""


class HostBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A host, as the list of hosts shows it: ``https://shop.example``."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]


class BanBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How long to ban a proxy, and at which host; 0 ends its bans."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_BAN_SECONDS)] = 3600.0
    host: Annotated[str, msgspec.Meta(max_length=2_000)] = ""


class FsckBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether to mend what can be mended without loss."""

    repair: bool = False


class Commanded(msgspec.Struct, frozen=True, kw_only=True):
    """A job after a command."""

    job: str
    state: str
    run: int
    reason: str
    workers: int
    spent_max_pages: int = 0
    """After ``resume``: the job's max_pages, if it is reached. The job stays stopped until that is larger."""
    hint: str = ""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A job after a change of its settings."""

    job: str
    state: str
    run: int
    settings: dict[str, Any]
    workers: int


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was begun."""

    job: str
    state: str
    run: int
    begun: Begun


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """URLs that were added."""

    job: str
    added: int
    """How many were new to the job."""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """Failures that are queued again."""

    job: str
    state: str
    retried: int
    more: bool
    """A retry by host has not looked through all failures: ask again."""


class HostOrdered(msgspec.Struct, frozen=True, kw_only=True):
    """A host after a command: ``none``, ``paused`` or ``given_up``, by an operator."""

    job: str
    host: str
    before: str
    after: str


class Banned(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy that was banned, or whose bans have ended."""

    job: str
    id: str
    host: str
    banned_seconds: float


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a consistency check has found."""

    job: str
    consistent: bool
    found: int
    report: Consistency


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is gone."""

    job: str
    dropped: bool


class JobChanges:
    """The handlers. After each, the job is read anew."""

    def __init__(self, figures: LiveFigures) -> None:
        self._figures = figures

    async def pause(self, call: Call) -> Commanded:
        return await self._command(call, Command.PAUSE)

    async def resume(self, call: Call) -> Commanded:
        return await self._command(call, Command.RESUME)

    async def stop(self, call: Call) -> Commanded:
        return await self._command(call, Command.STOP)

    async def change_settings(self, call: Call) -> Changed:
        values = {name.replace("-", "_"): value for name, value in call.body.settings.items()}
        if not values:
            raise RefusedError(400, "no setting to change", hint='as in {"settings": {"delay_seconds": 2}}')
        async with self._changed(call) as frontier:
            job = await frontier.change_settings(values)
        settings = {name: job.spec.settings[name] for name in values}
        workers = await self._workers(call)
        return Changed(job=call.job, state=job.state, run=job.run, settings=settings, workers=workers)

    async def new_run(self, call: Call) -> Answer:
        async with self._changed(call) as frontier:
            job = await frontier.job()
            await refuse_live_workers(frontier)
            spec = msgspec.structs.replace(job.spec, changed_from={}, run_keys=[], settings=_given_settings(job))
            sinks = [sink.target for sink in await frontier.sinks()]
            begun = await frontier.begin(spec, fresh=True, sinks=sinks)
            state = await frontier.state()
        return Answer(value=NewRun(job=call.job, state=state.state, run=state.run, begun=begun), status=201)

    async def add_urls(self, call: Call) -> Added:
        body: UrlsBody = call.body
        requests = [Request(seed_url(url), seed=True, priority=body.priority) for url in body.urls]
        async with self._changed(call) as frontier:
            fingerprinter = Fingerprinter.of_job(await frontier.job())
            added = await frontier.add([fingerprinter.entry(request) for request in requests])
        return Added(job=call.job, added=added)

    async def retry(self, call: Call) -> Retried:
        body: RetryBody = call.body
        check_error_class(body.error_class)
        more = False
        async with self._changed(call) as frontier:
            if body.ids:
                retried = await frontier.revive(body.error_class, [_signed(text) for text in body.ids])
            elif body.host:
                found, looked_at = [], 0
                async for failed in newest_failed(frontier, RETRY_LOOKED_AT, body.error_class):
                    looked_at += 1
                    if body.host in host_of(failed.url):
                        found.append(failed.id)
                # No ids would mean all of them.
                retried = await frontier.revive(body.error_class, found) if found else 0
                more = looked_at == RETRY_LOOKED_AT and retried > 0
            else:
                retried = await frontier.revive(body.error_class)
            state = await frontier.state()
        return Retried(job=call.job, state=state.state, retried=retried, more=more)

    async def pause_host(self, call: Call) -> HostOrdered:
        return await self._command_host(call, HostCommand.PAUSE)

    async def resume_host(self, call: Call) -> HostOrdered:
        return await self._command_host(call, HostCommand.RESUME)

    async def give_up_host(self, call: Call) -> HostOrdered:
        return await self._command_host(call, HostCommand.GIVE_UP)

    async def _command_host(self, call: Call, command: HostCommand) -> HostOrdered:
        key = key_of(call.body.host)
        async with self._changed(call) as frontier:
            before = await frontier.command_host(key, command)
        if before is None:
            raise RefusedError(404, f"no such host: {key[:200]}", hint="the list of hosts has the existing ones")
        return HostOrdered(job=call.job, host=key, before=before.name.lower(), after=command.halt.name.lower())

    async def ban_proxy(self, call: Call) -> Banned:
        body, proxy = call.body, call.names["proxy"]
        host = body.host.rstrip("/")
        async with self._changed(call) as frontier:
            if not await frontier.ban_proxy(proxy, host, body.seconds):
                raise RefusedError(404, f"no such proxy: {proxy[:100]}", hint="the list of proxies has their ids")
        return Banned(job=call.job, id=proxy, host=host, banned_seconds=body.seconds)

    async def check(self, call: Call) -> Checked:
        repair: bool = call.body.repair
        if repair and call.credential.role < Role.ADMIN:
            raise not_permitted(call.credential, Role.ADMIN)
        async with self._changed(call, alone=True) as frontier:
            report = await check_job(frontier, repair=repair)
        left = report.total - report.mended
        return Checked(job=call.job, consistent=not left, found=report.total, report=report)

    async def drop(self, call: Call) -> Dropped:
        async with self._changed(call) as frontier:
            try:
                living = live_workers(await frontier.report(0))
            except (MissingJobError, DamageError):
                # A damaged job has no workers, and can only be dropped.
                living = []
        if living:
            raise JobError(
                f"workers are running: {call.job}: {', '.join(worker.id for worker in living[:5])}",
                hint="stop the job first; a worker with --stay must be ended with Ctrl-C or kill",
            )
        if not await call.store.drop(call.job, call.actor):
            raise MissingJobError(f"no such job: {call.job}", hint="the list of jobs has the existing ones")
        self._figures.forget(call.store, call.job)
        return Dropped(job=call.job, dropped=True)

    async def submit(self, call: Call) -> Answer:
        body: SubmitBody = call.body
        store = call.store
        if body.spider is not None:
            check_inside(body.spider.partition(":")[0], "a spider")
        # Before the settings are read: that imports what they name.
        check_remote_settings(body.settings, hint=_LOCAL_HINT)
        check_remote_outputs(body.output, hint=_LOCAL_HINT)

        def configure(frontier: str) -> Any:
            return submission_config(
                body.spider,
                body.urls,
                sitemaps=body.sitemaps,
                output=body.output,
                job=body.job,
                frontier=frontier,
                settings=body.settings,
                arguments=body.arguments,
                fresh=body.fresh,
            )

        # In a thread: the spider's file is run.
        config = await asyncio.to_thread(configure, _submission_url(store, body.job or ""))
        if isinstance(store, FolderStore):
            config = msgspec.structs.replace(config, frontier=_submission_url(store, config.spec.name))
        check_scope(call.credential, config.spec.name)
        submitted: Submitted = await submit_job(config, on_event=lambda _: None, keeps_items=True, actor=call.actor)
        self._figures.forget(store, submitted.job)
        return Answer(value=submitted, status=201)

    # ---- the parts

    async def _command(self, call: Call, command: Command) -> Commanded:
        async with self._changed(call) as frontier:
            job = await frontier.command(command)
        report = await self._figures.report(call.store, call.job)
        spent = spent_limit(report) if command is Command.RESUME and job.state is not State.FINISHED else 0
        return Commanded(
            job=call.job,
            state=job.state,
            run=job.run,
            reason=job.reason,
            workers=len(live_workers(report)),
            spent_max_pages=spent,
            hint=f"max_pages={spent} is reached: set a higher limit, then resume again" if spent else "",
        )

    async def _workers(self, call: Call) -> int:
        return len(live_workers(await self._figures.report(call.store, call.job)))

    @asynccontextmanager
    async def _changed(self, call: Call, *, alone: bool = False) -> AsyncIterator[Frontier]:
        """The frontier of a job that is about to be changed; its figures are read anew afterwards."""
        try:
            async with opened_job(call, alone=alone) as frontier:
                yield acting_for(frontier, call.actor)
        finally:
            self._figures.forget(call.store, call.job)


def _given_settings(job: Job) -> dict[str, Any]:
    """The settings that the job's command gave: what was changed while it ran belongs to that run."""
    return {**job.spec.settings, **job.spec.changed_from}


def _signed(text: str) -> int:
    number = int(text, 16)
    return number - 2**64 if number >= 2**63 else number


def _submission_url(store: Store, job: str) -> str:
    return default_frontier(job or "job") if isinstance(store, FolderStore) else store.url
