"""The shared part of ``pause``, ``resume`` and ``stop``: send the command, print the job's state."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.job_ref import act, live_workers, locate
from skitter.cli.output import note, print_json
from skitter.model.job import Command, State

if TYPE_CHECKING:
    from skitter.frontier.contract import Frontier
    from skitter.model.job import Job, Report


def run_job_command(options: argparse.Namespace, command: Command) -> int:
    """Send a command to a job; print its state to stdout and notes to stderr."""
    from skitter.app.job_checks import spent_limit

    job_ref = locate(options)

    async def send(frontier: Frontier) -> tuple[Job, Report]:
        return await frontier.command(command), await frontier.report(0)

    job, report = act(job_ref, send)
    workers = live_workers(report)
    if options.json:
        print_json({"job": job_ref.job, "state": job.state, "run": job.run, "reason": job.reason, "workers": workers})
    else:
        print(f"{job_ref.job}: {job.state}")
    if job.state is State.FINISHED:
        note("the job is finished: there is nothing to pause, resume or stop")
    elif command is Command.RESUME and (limit := spent_limit(report)):
        more = f"run the crawl again as it was started, with --max-pages {2 * limit}; or"
        larger = f"{job_ref.command('set')} max_pages={2 * limit}, and resume it"
        note(f"max_pages={limit} is reached, so the job stays {job.state}; to resume, {more} {larger}")
    elif job.state is State.RUNNING and not workers:
        note(f"no worker is running; run the same crawl again, or: {job_ref.command('worker')}")
    elif job.state is State.DRAINING:
        note(f"{report.counts.leased} requests are in flight; the job stops when they have ended")
    return 0
