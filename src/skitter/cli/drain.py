"""``skitter drain``: writes a job's undelivered items to an output, and removes them from the job."""

from __future__ import annotations

import argparse
import os

from skitter.cli.arguments import Parser, add_job_options, add_output_options, add_verbosity_options
from skitter.errors import UsageError


def configure(parser: Parser) -> None:
    add_output_options(parser, overwrite=False)
    parser.add_argument(
        "--rest",
        action="store_true",
        help="what was written so far is gone with its machine: write what is left into a new file",
    )
    parser.add_argument("--stay", action="store_true", help="go on as items come, until the job is over")
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.app import collect_outputs, make_drain_node
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
        raise UsageError("no output given", hint='-o FILE says where the items go; "-" is stdout')
    job_ref = locate(options)
    outputs = collect_outputs(typed=options.outputs, job=job_ref.job, password=sink_password(os.environ))
    node = make_drain_node(
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
