"""``skitter drop``: removes a job and all of its data for good."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.errors import UsageError
    from skitter.model.job import Report


def configure(parser: Parser) -> None:
    parser.describe(
        "JOB [options]",
        text="Delete a job and all its data: its queue, the URLs it has seen, failed requests and undelivered items.\n"
        "This cannot be undone, and is refused while workers are working on the job.",
        examples=[
            ("skitter drop books", "Delete the job books of this folder"),
            ("skitter drop books --frontier redis://127.0.0.1:6379", "Delete a job in Redis"),
        ],
    )
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    from skitter.cli.job_ref import locate
    from skitter.cli.output import print_json
    from skitter.errors import UsageError

    if options.job is None:
        raise UsageError("which job?", hint="name it: skitter drop JOB; dropping it cannot be undone")
    job_ref = locate(options)
    dropped = asyncio.run(_drop(job_ref))
    if not dropped:
        raise UsageError(f"no such job: {job_ref.job}", hint="skitter jobs lists the existing jobs")
    if options.json:
        print_json({"job": job_ref.job, "dropped": True})
    else:
        print(f"{job_ref.job}: dropped")
    return 0


async def _drop(job_ref: JobRef) -> bool:
    from skitter.app import drop_job
    from skitter.cli.actor import cli_actor
    from skitter.cli.job_ref import live_workers, opened
    from skitter.errors import DamageError, JobError

    async with opened(job_ref) as frontier:
        try:
            report = await frontier.report(0)
        except (JobError, DamageError):
            # A damaged job has no workers, and can only be dropped.
            report = None
    if report is not None and live_workers(report):
        raise _refusal(report, job_ref)
    return await drop_job(job_ref.frontier, job_ref.job, cli_actor())


def _refusal(report: Report, job_ref: JobRef) -> UsageError:
    """Return the error for a job with live workers; its hint depends on whether they run with --stay."""
    from skitter.cli.job_ref import is_alive
    from skitter.errors import UsageError
    from skitter.model.job import State

    living = [worker for worker in report.workers if is_alive(worker, report)]
    who = ", ".join(
        f"process {one.heartbeat.pid} on {one.heartbeat.host_name}" if one.heartbeat else one.id for one in living
    )
    if report.job.state in (State.FINISHED, State.STOPPED):
        hint = "they wait for more work (--stay): end each with Ctrl-C or kill, then drop the job"
    else:
        hint = f"stop them first: {job_ref.command('stop')}; a worker with --stay must be ended with Ctrl-C or kill"
    return UsageError(f"workers are running: {job_ref.job}: {who}", hint=hint)
