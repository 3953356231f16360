"""``skitter drop``: remove a job and everything of it. Nothing brings it back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_voice_options

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef


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
    from skitter.errors import DamageError, JobError, UsageError

    async with opened(place) as frontier:
        try:
            workers = live_workers(await frontier.report(0))
        except (JobError, DamageError):
            # Nobody can work on a job that is damaged, and to drop it is what is left.
            workers = 0
    if workers:
        raise UsageError(f"workers are at the job: {place.job}", hint=f"stop them first: {place.command('stop')}")
    return await drop_job(place.frontier, place.job)
