"""``skitter worker --every-job``: a node of a fleet, which serves every job of a frontier, or of .skitter."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from skitter.cli import exit_codes
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.app.fleet_node import FleetSummary
    from skitter.cli.run_messages import RunOutput


def run_fleet(options: argparse.Namespace) -> int:
    import socket
    from pathlib import Path

    from skitter.app.config import trusting_own_code
    from skitter.app.fleet_node import make_fleet_node
    from skitter.app.frontiers import is_shared, local_frontiers
    from skitter.cli import settings_layers
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.progress import PlainLines
    from skitter.cli.run_messages import RunOutput
    from skitter.cli.run_node import run_node
    from skitter.model.secrets import shown_frontier

    _check(options)
    url: str | None = options.frontier
    if url is not None and not is_shared(url):
        raise UsageError(f"cannot be shared with another process: {url}", hint="use --frontier sqlite:PATH")
    own, warnings, _, worker_note, _, _ = settings_layers.collect_run(
        project=settings_layers.read_project(Path.cwd()),
        environment=os.environ,
        config=options.config,
        overrides=options.overrides,
    )
    name = options.name or socket.gethostname()
    output = RunOutput(own.logging, job="", quiet=options.quiet)
    with output.errors_in_form(options.command_line):
        for warning in warnings:
            output.warn(warning)
        output.note(f"every job, frontier {'.skitter' if url is None else shown_frontier(url)}, node {name}")
        if worker_note:
            output.note(worker_note)
        # There is no one job whose progress could be shown.
        with (
            PlainLines() as progress,
            event_log_lines(own.logging, progress, job="", quiet=options.quiet, verbose=options.verbose) as log,
        ):
            node = make_fleet_node(
                stores=local_frontiers if url is None else lambda: [url],
                name=name,
                run=trusting_own_code(own).run,
                on_event=log.event,
                verbosity=-1 if options.quiet else options.verbose,
                event_level=log.level,
                print_fd=progress.print_fd,
                sink_password=settings_layers.sink_password(os.environ),
            )
            summary, number = run_node(node, log.event)
    return _print_summary(summary, number, options, output)


def _check(options: argparse.Namespace) -> None:
    for given, what in ((options.spider, options.spider), (options.job, "--job"), (options.stay, "--stay")):
        if given:
            raise UsageError(f"not with --every-job: {what}", hint="omit it, or omit --every-job")


def _print_summary(summary: FleetSummary | None, number: int, options: argparse.Namespace, output: RunOutput) -> int:
    import msgspec

    from skitter.cli.output import print_json
    from skitter.cli.terminal_text import clean, count

    if summary is not None:
        fields = msgspec.to_builtins(summary)
        if options.json:
            print_json(fields)
        lines = [f"{count(len(summary.served), 'job')} served in {count(sum(summary.served.values()), 'turn')}"]
        lines += [f"  skipped: {clean(job)}: {clean(reason)}" for job, reason in summary.skipped.items()]
        output.summary(lines, fields)
    return exit_codes.of_signal(number) if number else 0
