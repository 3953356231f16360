"""``skitter pause``: starts no new requests; requests in flight end, and workers wait."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [options]",
        text="Start no new requests of a job until resume. Requests in flight end; the workers wait.",
        examples=[
            ("skitter pause books", "Pause a job of this folder"),
            (
                "skitter pause books --frontier redis://127.0.0.1:6379",
                "Pause a job in Redis, for all its workers",
            ),
        ],
    )
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_commands import run_job_command
    from skitter.model.job import Command

    return run_job_command(options, Command.PAUSE)
