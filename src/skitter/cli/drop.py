"""``skitter drop``: remove a job and everything of it. Nothing brings it back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_voice_options

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.errors import UsageError
    from skitter.model.job import Report


def configure(parser: Parser) -> None:
    add_job_options(parser)
    add_voice_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    from skitter.cli.job_ref import locate
    from skitter.cli.output import print_json
    from skitter.errors import UsageError

    if options.job is None:
        raise UsageError("which job?", hint="name it with --job NAME: what is dropped is gone")
    place = locate(options)
    dropped = asyncio.run(_drop(place))
    if not dropped:
        raise UsageError(f"no such job: {place.job}", hint="skitter jobs lists those that there are")
    if options.json:
        print_json({"job": place.job, "dropped": True})
    else:
        print(f"{place.job}: dropped")
    return 0


async def _drop(place: JobRef) -> bool:
    from skitter.app import drop_job
    from skitter.cli.job_ref import live_workers, opened
    from skitter.errors import DamageError, JobError

    async with opened(place) as frontier:
        try:
            report = await frontier.report(0)
        except (JobError, DamageError):
            # Nobody can work on a job that is damaged, and to drop it is what is left.
            report = None
    if report is not None and live_workers(report):
        raise _refusal(report, place)
    return await drop_job(place.frontier, place.job)


def _refusal(report: Report, place: JobRef) -> UsageError:
    """Workers that end with the job are stopped; those that wait for more (--stay) are ended where they run."""
    from skitter.cli.job_ref import is_alive
    from skitter.errors import UsageError
    from skitter.model.job import State

    living = [worker for worker in report.workers if is_alive(worker, report)]
    who = ", ".join(f"process {one.card.pid} on {one.card.host_name}" if one.card else one.id for one in living)
    if report.job.state in (State.FINISHED, State.STOPPED):
        hint = "they wait for more work (--stay): end each by Ctrl-C or kill, and drop it then"
    else:
        hint = f"stop them first: {place.command('stop')}; one that has --stay ends by Ctrl-C or kill only"
    return UsageError(f"workers are at the job: {place.job}: {who}", hint=hint)
