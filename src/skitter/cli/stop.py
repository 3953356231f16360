"""``skitter stop``: let what is in flight end, then stop; ``crawl`` goes on from there."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_job_options, add_voice_options


def configure(parser: Parser) -> None:
    add_job_options(parser)
    add_voice_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_commands import steer
    from skitter.model.job import Command

    return steer(options, Command.STOP)
