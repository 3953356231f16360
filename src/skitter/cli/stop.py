"""``skitter stop``: lets requests in flight end, then stops the job; ``crawl`` continues it."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [options]",
        text="Let the requests in flight end, then stop the job and its workers. The same crawl resumes it.",
        examples=[
            ("skitter stop books", "Stop a job of this folder"),
            (
                "skitter stop books --frontier redis://127.0.0.1:6379 --json",
                "Stop a job in Redis, and print its state as JSON",
            ),
        ],
    )
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_commands import run_job_command
    from skitter.model.job import Command

    return run_job_command(options, Command.STOP)
