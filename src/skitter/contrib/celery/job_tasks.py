"""Tasks for whole jobs: add, crawl, finished, export, status. URLs, pages and items stay in the frontier."""

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
from skitter.model.job import LIMITS, Report, State
from skitter.model.request import EXPECTED, Request
from skitter.observe import events
from skitter.settings import Run

log = logging.getLogger("skitter.events")
IDLE_SECONDS = 30.0
"""Pause between slices while nothing can be done for a job, because it is paused or an output is unavailable."""
POLL_SECONDS = (1.0, 30.0)
"""Pause between polls of ``finished``: grows from the first value to the second."""
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
    """Add URLs, or objects with the fields of a Request, to a job; a missing job is started, as by ``submit``.

    Return the job and the number of URLs. URLs that a retry adds again are duplicates.
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
            raise UsageError("no URLs", hint="give at least one URL")
        return {"job": ids[0].rpartition("/")[0], "urls": len(ids)}

    try:
        return run(work())
    except BackendError as error:
        self.retry_later(error)


def _request(fields: Mapping[str, Any]) -> Request:
    if unknown := sorted(fields.keys() - EXPECTED.keys()):
        raise RequestError(f"unknown field: {unknown[0]:.100}", hint=f"a request has the fields {', '.join(EXPECTED)}")
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
    """Work on a job until it is finished or stopped, in slices; each slice has its own message and process.

    With ``urls``, ``spider`` or ``sitemaps`` the job is started, resumed or run again, as by ``skitter submit``; with
    only ``job`` it must exist. Several crawl tasks can work on one job in parallel; with ``overlap="skip"`` the task
    returns at once if another one is working on it. ``settings`` may include the group ``run``: workers, concurrency.
    ``part`` is internal and identifies the slice.
    """
    if overlap not in OVERLAPS:
        raise UsageError(f"unknown overlap: {overlap}", hint=f"one of {', '.join(OVERLAPS)}")
    own_run = {name: value for name, value in (settings or {}).items() if name in Run.__struct_fields__}
    seconds = _slice_seconds(self, slice_seconds)
    try:
        if part is None:
            name = None if job is None else job_of(job)
            if overlap == "skip" and name is not None and (at_it := _other_crawl(self, name)):
                return {
                    "job": name,
                    "state": State.RUNNING.value,
                    "skipped": f"another task is working on the job: {at_it}",
                }
            if urls or spider or sitemaps:
                name = _begin(self, name, urls, spider, sitemaps, output, settings or {}, arguments or {}, fresh=fresh)
            if name is None:
                raise UsageError("neither a job nor anything to crawl", hint="give a job, URLs or a spider")
            # Continue in a new message before any work: if this one were delivered again after the end of the job, it
            # would start another run. The messages that follow only continue a run.
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
            # The message was delivered twice, and the slices of the other delivery continue: that one has the result.
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
    """Return settings that write the files of a job on this machine, unless they name another one."""
    return {"deliver_node": self.node, **settings} if output else settings


def _other_crawl(self: SkitterTask, job: str) -> str:
    """Return another crawl task with workers that sent a recent heartbeat, or an empty string if there is none."""

    async def work() -> str:
        async with AsyncClient(self.frontier) as client:
            for worker in await client.workers(job):
                crawl = worker.heartbeat.task.partition(" ")[0] if worker.heartbeat else ""
                if crawl and crawl != self.request.id and worker.silent_seconds < IDLE_SECONDS:
                    return crawl
        return ""

    try:
        return run(work())
    except JobError:
        return ""  # the job does not exist yet


# ---- finished, status, export


def _finished(self: SkitterTask, job: JobRef, *, poll_seconds: float = POLL_SECONDS[0]) -> dict[str, Any]:
    """Succeed when a job is finished and its outputs are complete, so that the next task of a chain can start.

    Between polls there is only a message with a countdown, so no worker is occupied. A job that was stopped by a
    command raises JobError; a job that has reached a limit counts as finished.
    """
    name = job_of(job)
    while True:
        try:
            report = _report(self, name)
        except BackendError as error:
            self.retry_later(error)
        state = report.job.state
        if state is State.STOPPED and report.job.reason not in LIMITS:
            raise JobError(f"the job was stopped: {name}", hint="a crawl task resumes it")
        if state in (State.FINISHED, State.STOPPED) and not _undelivered(report):
            return summary(report)
        self.tell_progress(**summary(report))
        later = min(POLL_SECONDS[1], poll_seconds * 1.5)
        if not self.request.is_eager and not self.request.called_directly:
            self.continue_later(countdown=poll_seconds, job=name, poll_seconds=later)
        time.sleep(poll_seconds)


def _status(self: SkitterTask, job: JobRef) -> dict[str, Any]:
    """Return the status of a job: state, run, counts, items, workers, outputs."""
    report = _report(self, job_of(job))
    return summary(report) | {
        "workers": [
            {"id": worker.id, "task": worker.heartbeat.task if worker.heartbeat else ""} for worker in report.workers
        ],
        "outputs": [{"target": sink.target, "undelivered": sink.undelivered} for sink in report.sinks],
    }


def _export(self: SkitterTask, job: JobRef, output: str | Sequence[str], *, overwrite: bool = True) -> dict[str, Any]:
    """Write the items in the outbox of a job to an output, like ``skitter export``; the outbox keeps them.

    If the message is delivered again, the output is overwritten (``overwrite``).
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


# ---- shared functions


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
    """Return the status of a job as a task result, whose size does not depend on the number of URLs."""
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
    """Return the meta of the state PROGRESS."""
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
