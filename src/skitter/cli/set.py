"""``skitter set``: changes settings of a job while it runs, for all its workers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options

if TYPE_CHECKING:
    from skitter.frontier.contract import Frontier
    from skitter.model.job import Job, Report


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] KEY=VALUE... [options]",
        text="Change delays, limits and budgets of a running job, for all its workers. If one setting cannot be\n"
        "changed, none is.",
        examples=[
            ("skitter set books delay_seconds=2 per_host=1", "Slow a job down"),
            (
                "skitter set books max_pages=none --frontier redis://127.0.0.1:6379",
                "Remove the page limit of a job in Redis",
            ),
        ],
    )
    add_job_options(parser)
    parser.add_argument("settings", nargs="+", metavar="KEY=VALUE", help="e.g. delay_seconds=2 or max_pages=none")
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.arguments import key_value
    from skitter.cli.job_ref import act, live_workers, locate
    from skitter.cli.output import note, print_json
    from skitter.model.job import State
    from skitter.settings import settings_text

    pairs = (key_value(text, "skitter set") for text in options.settings)
    values = {name.replace("-", "_"): value for name, value in pairs}
    job_ref = locate(options)

    async def change(frontier: Frontier) -> tuple[Job, Report]:
        return await frontier.change_settings(values), await frontier.report(0)

    job, report = act(job_ref, change)
    workers = live_workers(report)
    settings = {name: job.spec.settings[name] for name in values}
    if options.json:
        print_json({"job": job_ref.job, "state": job.state, "run": job.run, "settings": settings, "workers": workers})
    else:
        print(f"{job_ref.job}: {settings_text(settings)}")
    if job.state is State.STOPPED:
        note(f"the job is stopped; the new settings apply when it is resumed: {job_ref.command('resume')}")
    elif not workers:
        note(f"no worker is running; run the same crawl again, or: {job_ref.command('worker')}")
    return 0
