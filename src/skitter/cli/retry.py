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
    parser.describe(
        "[JOB] [URL...] [options]",
        text="Queue failed requests again, with a new set of attempts: all of them, those of one class, or the given\n"
        "URLs. A finished job is reopened.",
        examples=[
            ("skitter retry books --class timeout", "Queue the requests that timed out again"),
            ("skitter retry books http://127.0.0.1:8600/errors/flaky", "Queue one URL again"),
        ],
    )
    add_job_options(parser)
    parser.add_argument("urls", nargs="*", metavar="URL", help="failed URLs (default: all)")
    parser.add_argument("--class", dest="error_class", default="", metavar="CLASS", help="only this error class")
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.app.views.failed import check_error_class
    from skitter.cli.job_ref import act, locate
    from skitter.cli.output import error, print_json
    from skitter.cli.terminal_text import count

    check_error_class(options.error_class)
    job_ref = locate(options)
    retried, report = act(job_ref, lambda frontier: _retry(frontier, options))
    if options.json:
        print_json({"job": job_ref.job, "state": report.job.state, "retried": retried})
    else:
        print(f"{job_ref.job}: {count(retried, 'request')} queued again")
        _hints(job_ref, options, retried, report)
    if options.urls and not retried:
        error(
            f"no failed request with this URL: {options.urls[0]}",
            job_ref.command("why", options.urls[0]) + " shows more",
        )
        return 2
    return 0


async def _retry(frontier: Frontier, options: argparse.Namespace) -> tuple[int, Report]:
    from skitter.app.views.failed import retry_failed

    return await retry_failed(frontier, options.error_class, options.urls or None), await frontier.report(0)


def _hints(job_ref: JobRef, options: argparse.Namespace, retried: int, report: Report) -> None:
    from skitter.cli.job_ref import live_workers
    from skitter.cli.output import note
    from skitter.cli.terminal_text import by_class

    if retried and not live_workers(report):
        note(f"no worker is running; run the same crawl again, or: {job_ref.command('worker')}")
    elif not retried and options.error_class and report.counts.failed:
        note("classes that failed: " + ", ".join(f"{name} {n}" for name, n in by_class(report.errors)))
