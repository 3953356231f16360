"""``skitter submit``: begins a job, or resumes it, and leaves the work to a fleet (``skitter worker --every-job``).

With ``--intake`` it reads sources into the job until they are closed.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import (
    Parser,
    SetAction,
    add_output_options,
    add_verbosity_options,
    priority,
)
from skitter.cli.crawl import JOB_OPTIONS, add_definition_options, add_job_setting_options, make_config

if TYPE_CHECKING:
    from skitter.app import CrawlConfig


def configure(parser: Parser) -> None:
    parser.describe(
        "URL... [options]",
        "SPIDER [options]",
        "file.py:function URL... [options]",
        "[SPIDER] --intake URL [options]",
        text="Create a job, resume it or start its next run, as crawl would, without working on it: the nodes of a\n"
        "fleet (skitter worker --every-job) do the work. The job waits if no node is running.",
        examples=[
            (
                "skitter submit http://127.0.0.1:8600/ --frontier redis://127.0.0.1:6379 -o kafka://127.0.0.1/#pages",
                "Leave a crawl to the fleet; every node can reach the output",
            ),
            (
                "skitter submit books.py --priority high --deliver node1 -o books.jsonl",
                "Serve this job first; node1 writes the file",
            ),
        ],
    )
    add_definition_options(parser)
    add_output_options(parser, overwrite=False)
    parser.group("Job").add_argument(
        "--priority",
        action=SetAction,
        setting="job_priority",
        type=priority,
        metavar="N",
        help="priority of the job, the highest first: low, normal (default), high, critical, or a whole number",
    )
    add_job_setting_options(
        parser,
        [
            *JOB_OPTIONS,
            (
                "--deliver",
                "deliver_node",
                "NODE",
                "the node (worker --name) that writes files, sqlite: and s3:// outputs",
            ),
        ],
    )
    add_verbosity_options(parser, quiet=True)


def run(options: argparse.Namespace) -> int:
    from skitter.app.submit import make_submit_node
    from skitter.cli.event_log import print_event
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.output import note, print_json, stdout_for_data, warn
    from skitter.cli.run_node import run_node

    with stdout_for_data():
        config, warnings, *_ = make_config(options)
    say = (lambda _: None) if options.quiet else note
    for warning in [] if options.quiet else [*warnings, *_lost_passwords(config)]:
        warn(warning)
    on_event = (lambda _: None) if options.quiet else print_event
    submitted, signal = run_node(make_submit_node(config, on_event=on_event), on_event)
    if submitted is None:
        return of_signal(signal)
    if options.json:
        print_json(submitted)
    else:
        print(f"{submitted.job}: run {submitted.run} is {submitted.begun}, {submitted.state}")
    if not submitted.workers:
        at = f" --frontier {submitted.frontier}" if options.frontier else ""
        say(f"no worker is running; start a fleet node: skitter worker --every-job{at}")
    return of_signal(signal) if signal else 0


def _lost_passwords(config: CrawlConfig) -> list[str]:
    """Passwords are not stored with a job, so that nodes must have them by themselves."""
    named = [target.name for target in config.outputs if target.password and target.password != config.sink_password]
    return [
        f"the password is not kept: {name}; the nodes need SKITTER_SINK_PASSWORD or ?password_file=" for name in named
    ]
