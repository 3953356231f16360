"""Checks of a node that comes to a job which exists: its spider, code and version, and whether others are at work."""

from __future__ import annotations

import msgspec

from skitter._version import __version__
from skitter.app.config import CrawlConfig
from skitter.app.worker_config import job_settings
from skitter.cluster.process_identity import is_alive
from skitter.delivery.job_sinks import OnEvent
from skitter.errors import JobError
from skitter.frontier.contract import Frontier
from skitter.model.job import Job, JobSpec, Report, State
from skitter.node.dead_workers import recover_dead_workers
from skitter.observe import events
from skitter.settings import Settings

_ENDED = (State.FINISHED, State.STOPPED)


async def settings_to_join(frontier: Frontier, config: CrawlConfig, on_event: OnEvent) -> tuple[CrawlConfig, bool]:
    """Whether other workers are at the job; then the config has the job's settings, which one more node keeps."""
    found = None if config.fresh else await _live_workers(frontier)
    if found is None:
        return config, False
    job, _ = found
    check_same_code(job, config.spec.code, config.spec.spider, on_event)
    defaults, theirs = Settings().job_wide(), job.spec.settings
    left = [
        f"{name}={value}"
        for name, value in config.spec.settings.items()
        if value not in (defaults[name], theirs.get(name))
    ]
    if left:
        on_event(events.JOB_SETTINGS_KEPT(settings=", ".join(left)))
    spec = msgspec.structs.replace(config.spec, settings=theirs, version=job.spec.version, code=job.spec.code)
    settings = job_settings(job, msgspec.to_builtins(config.settings.run))
    return msgspec.structs.replace(config, spec=spec, settings=settings), True


async def is_begun(frontier: Frontier, spec: JobSpec) -> bool:
    """Whether a run was begun for the spec's key: then nothing is forgotten, whatever the command says of fresh."""
    try:
        return bool(spec.run_keys) and (await frontier.job()).spec.is_begun(spec)
    except JobError:
        return False


async def is_over(frontier: Frontier) -> bool:
    """Whether the job is finished, every target has all of it, and ``on_close`` was called."""
    job = await frontier.job()
    finished = job.state is State.FINISHED and not job.awaits_close
    return finished and not any(sink.is_incomplete for sink in await frontier.sinks())


async def refuse_live_workers(frontier: Frontier) -> None:
    """JobError while workers are running: a run that is forgotten would take their work from under them."""
    await recover_dead_workers(frontier, lambda _: None)
    if (found := await _live_workers(frontier)) is not None:
        raise JobError(
            f"workers are running: {', '.join(found[1])}",
            hint="stop them first: skitter stop, then try again",
        )


async def _live_workers(frontier: Frontier) -> tuple[Job, list[str]] | None:
    """The job and the ids of its live workers; None: nobody is at it, or it has ended."""
    try:
        job = await frontier.job()
    except JobError:
        return None
    living = [worker.id for worker in await frontier.workers() if is_alive(worker, job)]
    return (job, living) if living and job.state not in _ENDED else None


def check_same_spider(job: Job, reference: str) -> None:
    """A node may keep the spider's file elsewhere; the class must be the job's."""
    ours, theirs = reference.rpartition(":")[2], job.spec.spider.rpartition(":")[2]
    if reference and ours != theirs:
        raise JobError(
            f"job {job.spec.name} has another spider: {job.spec.spider or 'the built-in one'}",
            hint="omit the spider, or name the spider of the job",
        )


def check_same_version(job: Job, on_event: OnEvent) -> None:
    """Another stored format is refused by the store itself. Of the same format, two versions may still differ in a rule
    that a frontier's scripts or a worker keep; nothing is lost by that, but a person should know."""
    theirs = job.spec.version
    if theirs and theirs != __version__ and job.state is not State.FINISHED:
        on_event(events.JOB_OTHER_VERSION(version=__version__, begun_by=theirs))


def check_same_code(job: Job, code: str, spider: str, on_event: OnEvent) -> None:
    """The right class with other content: an old file on one of the nodes, more likely than not."""
    if code and job.spec.code and code != job.spec.code:
        on_event(events.JOB_OTHER_CODE(spider=spider or job.spec.spider))


def refuse_other_code(job: Job, code: str) -> None:
    """JobError where ``check_same_code`` only warns, and for a file that is missing here."""
    if job.spec.code and code != job.spec.code:
        what = "is not the file that the job was started with" if code else "is missing on this node"
        raise JobError(f"{job.spec.spider} {what}", hint="use the same version on all nodes")


def spent_limit(report: Report) -> int:
    """Return the job's max_pages if it is reached, else 0: it cannot be resumed with the same limit."""
    limit: int = report.job.spec.settings.get("max_pages") or 0
    return limit if report.counts.done >= limit else 0
