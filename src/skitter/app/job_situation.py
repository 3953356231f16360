"""What a scheduled command would find of its job: nothing in its way, others at work, or the word of an operator."""

from __future__ import annotations

from skitter.app.crawl_node import opened
from skitter.app.frontiers import is_missing_file
from skitter.cluster.process_identity import is_alive
from skitter.errors import JobError
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.audit import Actor
from skitter.model.job import Command, Job, State, StopReason
from skitter.model.schedule import JobSituation


async def job_situation(frontier_url: str, job_name: str) -> JobSituation:
    """Return the situation of a job. BackendError: its store cannot be asked."""
    if is_missing_file(frontier_url):
        return JobSituation.STARTABLE
    async with opened(frontier_url, job_name, create=False) as frontier:
        try:
            job = await frontier.job()
        except JobError:
            return JobSituation.STARTABLE
        return await _situation(frontier, job)


async def _situation(frontier: Frontier, job: Job) -> JobSituation:
    if job.state is State.PAUSED:
        return JobSituation.PAUSED
    if job.state in (State.RUNNING, State.DRAINING):
        if any(is_alive(worker, job) for worker in await frontier.workers()):
            return JobSituation.WORKING
        # Without workers a job that runs is an interrupted one, which the command resumes.
        return JobSituation.STOPPED if job.state is State.DRAINING else JobSituation.STARTABLE
    by_command = job.state is State.STOPPED and job.reason == StopReason.COMMAND
    return JobSituation.STOPPED if by_command else JobSituation.STARTABLE


async def stop_job(frontier_url: str, job_name: str, actor: Actor) -> None:
    """Ask a job to stop, wherever its workers are."""
    async with opened(frontier_url, job_name, create=False) as frontier:
        # It is asked again and again until it has ended, which is one mutation.
        if (await frontier.state()).state is State.RUNNING:
            await acting_for(frontier, actor).command(Command.STOP)
