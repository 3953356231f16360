"""``skitter resume``: continues a job after ``pause`` or ``stop``."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [options]",
        text="Continue a job after pause or stop. A job that has reached its max_pages stays stopped: run its crawl\n"
        "again with a higher --max-pages.",
        examples=[
            ("skitter resume books", "Continue a job of this folder"),
            ("skitter resume books --frontier redis://127.0.0.1:6379", "Continue a job in Redis"),
        ],
    )
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_commands import run_job_command
    from skitter.model.job import Command

    return run_job_command(options, Command.RESUME)
