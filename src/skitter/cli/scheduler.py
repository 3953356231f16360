"""``skitter scheduler``: runs the commands of schedules when they are due. Any number may run; one leads."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_frontier_option


def configure(parser: Parser) -> None:
    add_frontier_option(parser, "the store of the schedules and of their jobs; default: the current folder's .skitter")
    parser.add_argument("--log", default="-", metavar="FILE", help='where event lines go; "-" is stderr, the default')
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="text, the default, or json: one object a line"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    import os
    import sys

    from skitter.app.scheduler import make_scheduler_node
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.project_schedules import apply_project_schedules
    from skitter.cli.run_node import run_loop, run_node
    from skitter.cluster.process_identity import worker_id
    from skitter.settings import Logging

    frontier = options.frontier or ""
    program = [sys.executable, "-P", "-m", "skitter.cli.scheduled_process", str(os.getpid())]
    settings = Logging(log_file=options.log, log_format=options.log_format)
    with event_log_lines(settings, None, job="", verbose=options.verbose) as log:
        run_loop(apply_project_schedules(frontier, log.event))
        node = make_scheduler_node(frontier=frontier, owner=worker_id(), program=program, on_event=log.event)
        _, number = run_node(node, log.event)
    return of_signal(number) if number else 0
