"""``skitter resume``: continues a job after ``pause`` or ``stop``."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options


def configure(parser: Parser) -> None:
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_commands import run_job_command
    from skitter.model.job import Command

    return run_job_command(options, Command.RESUME)
