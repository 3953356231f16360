"""``skitter retry``: queues failed requests again: all, one class, or named URLs. A finished job is reopened."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.frontier.contract import Frontier
    from skitter.model.job import Report


def configure(parser: Parser) -> None:
    parser.add_argument("urls", nargs="*", metavar="URL", help="default: everything that failed")
    parser.add_argument("--class", dest="error_class", default="", metavar="CLASS", help="only this class of error")
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.failed import check_class
    from skitter.cli.job_ref import act, locate
    from skitter.cli.output import error, print_json
    from skitter.cli.terminal_text import count

    check_class(options.error_class)
    job_ref = locate(options)
    revived, report = act(job_ref, lambda frontier: _revive(frontier, options))
    if options.json:
        print_json({"job": job_ref.job, "state": report.job.state, "retried": revived})
    else:
        print(f"{job_ref.job}: {count(revived, 'request')} queued again")
        _hints(job_ref, options, revived, report)
    if options.urls and not revived:
        error(f"not among the failed: {options.urls[0]}", job_ref.command("why", options.urls[0]) + " tells more")
        return 2
    return 0


async def _revive(frontier: Frontier, options: argparse.Namespace) -> tuple[int, Report]:
    from skitter.app.views.failed import find_dead

    if options.urls:
        ids = [dead.id async for dead in find_dead(frontier, options.error_class, options.urls)]
        # No ids would mean all of them.
        revived = await frontier.revive(options.error_class, ids) if ids else 0
    else:
        revived = await frontier.revive(options.error_class)
    return revived, await frontier.report(0)


def _hints(job_ref: JobRef, options: argparse.Namespace, revived: int, report: Report) -> None:
    from skitter.cli.job_ref import live_workers
    from skitter.cli.output import note
    from skitter.cli.terminal_text import by_class

    if revived and not live_workers(report):
        note(f"no worker is at it; run the same crawl again, or: {job_ref.command('worker')}")
    elif not revived and options.error_class and report.counts.dead:
        note("classes that failed: " + ", ".join(f"{name} {n}" for name, n in by_class(report.errors)))
