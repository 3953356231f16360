"""Tasks about whole jobs: add, crawl, finished, export, status. URLs, pages and items stay in the frontier."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from celery import shared_task
from celery.exceptions import Ignore

from skitter.app import collect_outputs, make_export_node
from skitter.app.client import AsyncClient
from skitter.app.crawl_node import opened
from skitter.app.script import run
from skitter.app.submit import submission_config, submit_job
from skitter.app.worker_slice import Progress, SliceConfig
from skitter.contrib.celery.base_task import JobRef, SkitterTask, job_of
from skitter.contrib.celery.crawl_slice import SliceRun
from skitter.contrib.celery.slice_length import slice_seconds as length_of
from skitter.delivery.stream_runner import CLIENT
from skitter.errors import BackendError, JobError, RequestError, UsageError
from skitter.model.job import Report, State, StopReason
from skitter.model.request import EXPECTED, Request
from skitter.observe import events
from skitter.settings import Run

log = logging.getLogger("skitter.events")
IDLE_SECONDS = 30.0
"""Between two looks at a job for which nothing can be done, because it is paused or an output is away."""
POLL_SECONDS = (1.0, 30.0)
"""Of ``finished``: from the first look on, longer and longer up to the second."""
OVERLAPS = ("join", "skip")
Outputs = str | Sequence[str] | None


def _add(
    self: SkitterTask,
    urls: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    job: str | None = None,
    *,
    spider: str | None = None,
    priority: int = 0,
    meta: Mapping[str, Any] | None = None,
    output: Outputs = None,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Add URLs, or objects with the fields of a Request, to a job; one that is not there is begun, as by ``submit``.

    Returns the job and how many URLs it was given. Added again, after a retry, they are known already.
    """
    given = [urls] if isinstance(urls, (str, Mapping)) else list(urls)
    requests = [each if isinstance(each, str) else _request(each) for each in given]

    async def work() -> dict[str, Any]:
        async with AsyncClient(self.frontier) as client:
            ids = await client.submit(
                requests,
                job=job,
                spider=spider,
                priority=priority,
                meta=meta,
                output=output,
                settings=_with_deliver_node(self, settings or {}, output),
                arguments=arguments,
            )
        if not ids:
            raise UsageError("no URLs", hint="give at least one")
        return {"job": ids[0].rpartition("/")[0], "urls": len(ids)}

    try:
        return run(work())
    except BackendError as error:
        self.retry_later(error)


def _request(fields: Mapping[str, Any]) -> Request:
    if unknown := sorted(fields.keys() - EXPECTED.keys()):
        raise RequestError(f"an unknown field: {unknown[0]:.100}", hint=f"a request has {', '.join(EXPECTED)}")
    return Request(**fields)


# ---- crawl


def _crawl(
    self: SkitterTask,
    job: JobRef | None = None,
    *,
    urls: Sequence[str] = (),
    spider: str | None = None,
    sitemaps: Sequence[str] = (),
    output: Outputs = None,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    fresh: bool = False,
    overlap: str = "join",
    slice_seconds: float | None = None,
    part: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Work for a job until it is finished or stopped, in slices: each is a message and a process of its own.

    With ``urls``, ``spider`` or ``sitemaps`` the job is begun, resumed or run again, as by ``skitter submit``; with a
    ``job`` alone it is there already. Several crawl tasks of one job work side by side. ``overlap="skip"``: return at
    once if another one is at the job. ``settings`` may name those of the group ``run`` too: workers, concurrency.
    ``part`` is the task's own, and tells one slice from the next.
    """
    if overlap not in OVERLAPS:
        raise UsageError(f"not a way to overlap: {overlap}", hint=f"one of {', '.join(OVERLAPS)}")
    own_run = {name: value for name, value in (settings or {}).items() if name in Run.__struct_fields__}
    seconds = _slice_seconds(self, slice_seconds)
    try:
        if part is None:
            name = None if job is None else job_of(job)
            if overlap == "skip" and name is not None and (at_it := _other_crawl(self, name)):
                return {"job": name, "state": State.RUNNING.value, "skipped": f"another task is at it: {at_it}"}
            if urls or spider or sitemaps:
                name = _begin(self, name, urls, spider, sitemaps, output, settings or {}, arguments or {}, fresh=fresh)
            if name is None:
                raise UsageError("neither a job nor anything to crawl", hint="give a job, URLs or a spider")
            # At once, before any work: were this message delivered again after the end of the job, it would begin
            # another run. What follows only goes on.
            part = _next_part({"number": 0})
            if not self.request.is_eager and not self.request.called_directly:
                self.continue_later(job=name, settings=own_run, slice_seconds=slice_seconds, part=part)
            job = name
        return _work(self, job_of(job or ""), own_run, seconds, slice_seconds, part)
    except BackendError as error:
        self.retry_later(error)


def _work(
    self: SkitterTask,
    job: str,
    own_run: dict[str, Any],
    seconds: float,
    asked_seconds: float | None,
    part: Mapping[str, Any],
) -> dict[str, Any]:
    eager = self.request.is_eager or self.request.called_directly
    while True:
        report = _report(self, job)
        if _is_over(report):
            return summary(report)
        slice_run = SliceRun(
            SliceConfig(
                frontier=self.frontier,
                job=job,
                seconds=seconds,
                crawl=self.request.id or "",
                number=int(part["number"]),
                token=str(part["token"]),
                node=self.node,
                run=own_run,
                sink_password=self.app.conf.get("skitter_sink_password"),
            ),
            shutdown_fd=getattr(getattr(self.app, "skitter_shutdown", None), "fd", None),
            on_progress=lambda progress: self.tell_progress(**progress_of(job, progress)),
        )
        ended = slice_run.run()
        if ended.superseded:
            # Its message came twice, and the other one's slices go on: that one has the result.
            raise Ignore
        if ended.over:
            return summary(_report(self, job))
        part = _next_part(part)
        if eager:
            time.sleep(IDLE_SECONDS if ended.idle else 0)
            continue
        self.continue_later(
            countdown=IDLE_SECONDS if ended.idle else 0.0,
            job=job,
            settings=own_run,
            slice_seconds=asked_seconds,
            part=part,
        )


def _next_part(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"number": int(part["number"]) + 1, "token": secrets.token_hex(4)}


def _slice_seconds(self: SkitterTask, asked: float | None) -> float:
    conf = self.app.conf
    hard, soft = self.request.timelimit or (None, None)
    return length_of(
        conf.get("skitter_slice_seconds") if asked is None else asked,
        broker=str(conf.broker_read_url or conf.broker_url or ""),
        transport_options=conf.broker_transport_options or {},
        prefetch=conf.worker_prefetch_multiplier,
        time_limits=(
            hard or self.time_limit or conf.task_time_limit,
            soft or self.soft_time_limit or conf.task_soft_time_limit,
        ),
    )


def _begin(
    self: SkitterTask,
    job: str | None,
    urls: Sequence[str],
    spider: str | None,
    sitemaps: Sequence[str],
    output: Outputs,
    settings: Mapping[str, Any],
    arguments: Mapping[str, str],
    *,
    fresh: bool,
) -> str:
    config = submission_config(
        spider,
        [urls] if isinstance(urls, str) else urls,
        sitemaps=sitemaps,
        output=output,
        job=job,
        frontier=self.frontier,
        settings=_with_deliver_node(self, settings, output),
        arguments=arguments,
        fresh=fresh,
        sink_password=self.app.conf.get("skitter_sink_password"),
    )
    return run(submit_job(config, on_event=_log_event, keeps_items=True)).job


def _with_deliver_node(self: SkitterTask, settings: Mapping[str, Any], output: Outputs) -> Mapping[str, Any]:
    """Files of a job are written on the machine that begins it, unless its settings say another."""
    return {"deliver_node": self.node, **settings} if output else settings


def _other_crawl(self: SkitterTask, job: str) -> str:
    """Another crawl task whose workers were heard from lately; empty: there is none."""

    async def work() -> str:
        async with AsyncClient(self.frontier) as client:
            for worker in await client.workers(job):
                crawl = worker.card.task.partition(" ")[0] if worker.card else ""
                if crawl and crawl != self.request.id and worker.silent_seconds < IDLE_SECONDS:
                    return crawl
        return ""

    try:
        return run(work())
    except JobError:
        return ""  # it has not begun


# ---- finished, status, export


def _finished(self: SkitterTask, job: JobRef, *, poll_seconds: float = POLL_SECONDS[0]) -> dict[str, Any]:
    """Succeed when a job is finished and its outputs are complete: what follows in a chain begins then.

    Between two looks there is only a message with a countdown, and no worker waits. A job that a command has stopped
    is a JobError; one that has reached ``max_pages`` is finished.
    """
    name = job_of(job)
    while True:
        try:
            report = _report(self, name)
        except BackendError as error:
            self.retry_later(error)
        state = report.job.state
        if state is State.STOPPED and report.job.reason != StopReason.MAX_PAGES:
            raise JobError(f"the job was stopped: {name}", hint="crawl goes on with it")
        if state in (State.FINISHED, State.STOPPED) and not _undelivered(report):
            return summary(report)
        self.tell_progress(**summary(report))
        later = min(POLL_SECONDS[1], poll_seconds * 1.5)
        if not self.request.is_eager and not self.request.called_directly:
            self.continue_later(countdown=poll_seconds, job=name, poll_seconds=later)
        time.sleep(poll_seconds)


def _status(self: SkitterTask, job: JobRef) -> dict[str, Any]:
    """How a job stands: state, run, counts, items, workers, outputs."""
    report = _report(self, job_of(job))
    return summary(report) | {
        "workers": [{"id": worker.id, "task": worker.card.task if worker.card else ""} for worker in report.workers],
        "outputs": [{"target": sink.target, "undelivered": sink.undelivered} for sink in report.sinks],
    }


def _export(self: SkitterTask, job: JobRef, output: str | Sequence[str], *, overwrite: bool = True) -> dict[str, Any]:
    """Write the items that the job's outbox holds to a target, as ``skitter export``; the outbox keeps them.

    Delivered again, it writes the target anew (``overwrite``).
    """
    name = job_of(job)
    targets = [output] if isinstance(output, str) else list(output)
    password = self.app.conf.get("skitter_sink_password")
    outputs = collect_outputs(typed=[(each, overwrite) for each in targets], job=name, password=password)
    try:
        result = run(_written(make_export_node((self.frontier, name), outputs, on_event=_log_event)))
    except BackendError as error:
        self.retry_later(error)
    written, rejected = result or (0, 0)
    return {"job": name, "written": written, "rejected": rejected, "outputs": [target.name for target in outputs]}


async def _written(node: Any) -> tuple[int, int] | None:
    result: tuple[int, int] | None = await node.run()
    return result


# ---- what they share


def _report(self: SkitterTask, job: str) -> Report:
    async def work() -> Report:
        async with opened(self.frontier, job, create=False) as frontier:
            return await frontier.report(0)

    return run(work())


def _undelivered(report: Report) -> bool:
    finished = report.job.state is State.FINISHED
    return any(
        sink.target != CLIENT and (sink.is_incomplete if finished else sink.undelivered) for sink in report.sinks
    )


def _is_over(report: Report) -> bool:
    return report.job.state is State.STOPPED or (report.job.state is State.FINISHED and not _undelivered(report))


def summary(report: Report) -> dict[str, Any]:
    """How a job stands, as a result: of one size, however many URLs it has."""
    return {
        "job": report.job.spec.name,
        "state": report.job.state.value,
        "run": report.job.run,
        "reason": report.job.reason,
        "counts": msgspec.to_builtins(report.counts),
        "items": report.items,
        "undelivered": report.undelivered,
        "errors": dict(report.errors),
    }


def progress_of(job: str, progress: Progress) -> dict[str, Any]:
    """What the state PROGRESS has as its meta."""
    return {"job": job, **{name: value for name, value in msgspec.to_builtins(progress).items() if name != "type"}}


def _log_event(event: events.Event) -> None:
    log.log(event.level, "%s", event.text)


TASKS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "add": (_add, {"name": "skitter.add", "bind": True}),
    "crawl": (_crawl, {"name": "skitter.crawl", "bind": True}),
    "finished": (_finished, {"name": "skitter.finished", "bind": True}),
    "export": (_export, {"name": "skitter.export", "bind": True}),
    "status": (_status, {"name": "skitter.status", "bind": True}),
}


def _shared(name: str) -> Any:
    function, options = TASKS[name]
    return shared_task(base=SkitterTask, **options)(function)


add = _shared("add")
crawl = _shared("crawl")
finished = _shared("finished")
export = _shared("export")
status = _shared("status")
