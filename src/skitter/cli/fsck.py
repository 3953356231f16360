"""``skitter fsck``: compares everything that is stored of a job, and mends what can be mended without loss."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.model.consistency import Consistency, Finding

SHOWN = 50
"""Findings that are shown as text; -v and --json list more."""


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [--repair] [options]",
        text="Compare all stored data of a job: counts, queues, leases, hosts, items and sequences. The job\n"
        "may be running. The exit code is 1 if something is wrong.",
        examples=[
            ("skitter fsck books", "Check a job"),
            ("skitter fsck books --repair --frontier redis://127.0.0.1:6379", "Repair a paused job in Redis"),
        ],
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="repair what can be repaired without loss; the job must be paused or stopped, without live workers",
    )
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.app.views.fsck import check_job
    from skitter.cli.exit_codes import FAILED
    from skitter.cli.job_ref import act, locate
    from skitter.cli.output import print_json

    job_ref = locate(options)
    report = act(job_ref, lambda frontier: check_job(frontier, repair=options.repair))
    left = report.total - report.mended
    if options.json:
        print_json({"job": job_ref.job, "consistent": not left, "found": report.total, "report": report})
    else:
        _print(job_ref, report, listed=len(report.findings) if options.verbose else SHOWN, repair=options.repair)
    return FAILED if left else 0


def _print(job_ref: JobRef, report: Consistency, *, listed: int, repair: bool) -> None:
    from skitter.cli.output import note
    from skitter.cli.terminal_text import count, number

    for finding in report.findings[:listed]:
        print(_described(finding))
    if len(report.findings) > listed:
        note(f"... and {number(report.total - listed)} more; -v shows more")
    left = report.total - report.mended
    looked = ", ".join(f"{number(n)} {kind}" for kind, n in report.checked.items())
    if not report.total:
        print(f"{job_ref.job}: consistent")
    elif repair:
        print(f"{job_ref.job}: {count(report.total, 'finding')}, {number(report.mended)} repaired, {number(left)} left")
    else:
        print(f"{job_ref.job}: {count(report.total, 'finding')}")
    if looked:
        note(f"checked {looked}")
    for text in report.unchecked:
        note(f"not compared: {text}; pause the job and check it again")
    if left and not repair and any(finding.mendable for finding in report.findings):
        note(f"to repair what can be repaired: {job_ref.command('fsck', '--repair')}")


def _described(finding: Finding) -> str:
    from skitter.cli.terminal_text import clean

    if finding.mended:
        state = "repaired"
    else:
        state = "can be repaired" if finding.mendable else "cannot be repaired"
    details = f": {finding.what}: {finding.found}, expected {finding.expected}" if finding.expected else ""
    return f"{finding.code}  {clean(finding.place + details)} ({state})"
