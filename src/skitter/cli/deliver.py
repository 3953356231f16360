"""``skitter deliver``: writes a job's undelivered items to an output, and removes them from the job."""

from __future__ import annotations

import argparse
import os

from skitter.cli.arguments import Parser, add_job_options, add_output_options, add_verbosity_options
from skitter.errors import UsageError


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] -o OUTPUT [options]",
        text="Write items that are committed but not yet written to an output, if the process that was writing to it\n"
        "has ended. The output must be one that the job was started with.",
        examples=[
            ("skitter deliver books -o pages.jsonl", "Write the undelivered items of the job books"),
            (
                "skitter deliver books -o pages.jsonl --stay --frontier redis://127.0.0.1:6379",
                "Write the items of a running cluster on this machine, until the job ends",
            ),
        ],
    )
    add_output_options(parser, overwrite=False)
    parser.group("Output").add_argument(
        "--rest",
        action="store_true",
        help="the machine with the output is lost: write the remaining items to a new output",
    )
    parser.group("Output").add_argument(
        "--stay", action="store_true", help="keep writing new items until the job has ended"
    )
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.app import collect_outputs, make_delivery_node
    from skitter.cli.actor import cli_actor
    from skitter.cli.event_log import print_event
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.job_ref import locate
    from skitter.cli.output import note, print_json
    from skitter.cli.run_node import check_outputs, run_node
    from skitter.cli.settings_layers import sink_password
    from skitter.cli.terminal_text import count

    check_outputs(options)
    if not options.outputs:
        raise UsageError("no output given", hint='add -o OUTPUT; "-" is standard output')
    job_ref = locate(options)
    outputs = collect_outputs(typed=options.outputs, job=job_ref.job, password=sink_password(os.environ))
    node = make_delivery_node(
        frontier=job_ref.frontier,
        job=job_ref.job,
        outputs=outputs,
        on_event=print_event,
        rest=options.rest,
        stay=options.stay,
        actor=cli_actor(),
    )
    written, number = run_node(node, print_event)
    if written is None or number:
        return of_signal(number)
    delivered, rejected = written
    names = [target.name for target in outputs]
    if options.json:
        print_json({"job": job_ref.job, "delivered": delivered, "rejected": rejected, "outputs": names})
    else:
        refused = f", {count(rejected, 'item')} rejected" if rejected else ""
        note(f"{job_ref.job}: {count(delivered, 'item')} written to {', '.join(names)}{refused}")
    return 0
