"""``skitter scheduler``: runs the commands of schedules when they are due. Any number may run; one leads."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_frontier_option, add_metrics_options


def configure(parser: Parser) -> None:
    parser.describe(
        "[options]",
        text="Run the commands of schedules when they are due, as child processes in the current folder, until Ctrl-C\n"
        "or SIGTERM. Any number of schedulers may run for a store: one leads, another takes over if it fails.",
        examples=[
            ("skitter scheduler", "Run the schedules of this folder"),
            (
                "skitter scheduler --frontier redis://127.0.0.1:6379 --log scheduler.log",
                "Run the schedules of a Redis server",
            ),
        ],
    )
    add_frontier_option(parser, "the store of the schedules and their jobs (default: .skitter in the current folder)")
    add_metrics_options(parser)
    parser.add_argument(
        "--log", default="-", metavar="FILE", help='append event lines to this file; "-" is standard error (default)'
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="text (default) or json: one object per line"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print more, and tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    import os
    import sys

    from skitter.app.scheduler import make_scheduler_node
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.project_schedules import apply_project_schedules
    from skitter.cli.run_node import run_loop, run_node
    from skitter.cluster.process_identity import worker_id
    from skitter.settings import Logging, Run

    frontier = options.frontier or ""
    program = [sys.executable, "-P", "-m", "skitter.cli.scheduled_process", str(os.getpid())]
    settings = Logging(log_file=options.log, log_format=options.log_format)
    with event_log_lines(settings, None, job="", verbose=options.verbose) as log:
        run_loop(apply_project_schedules(frontier, log.event))
        node = make_scheduler_node(
            frontier=frontier,
            owner=worker_id(),
            program=program,
            on_event=log.event,
            run=Run(metrics=options.metrics, metrics_token_file=options.metrics_token_file),
        )
        _, number = run_node(node, log.event)
    return of_signal(number) if number else 0
