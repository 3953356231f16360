"""``skitter export``: copies the items of a job's outbox or a result file to another target."""

from __future__ import annotations

import argparse
import os

from skitter.cli.arguments import Parser, add_job_options, add_output_options, add_verbosity_options
from skitter.errors import UsageError


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] -o OUTPUT [options]",
        "--from SOURCE -o OUTPUT [options]",
        text="Copy the items of a job's outbox, of a results file or of MongoDB to another output. Nothing is removed\n"
        "from the source. An interrupted export starts over.",
        examples=[
            ("skitter export --from books.jsonl -O books.parquet", "Convert a results file"),
            ("skitter export books -o leftover.jsonl", "Copy the undelivered items of a job"),
        ],
    )
    parser.add_argument(
        "--from",
        dest="file",
        metavar="SOURCE",
        help="a results file, mongodb://…#COLLECTION or mongodb+ring://…#COLLECTION (default: the job's outbox)",
    )
    add_output_options(parser, overwrite=True)
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.app import collect_outputs, make_export_node
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
    if options.file is not None and (options.job or options.frontier):
        raise UsageError("--from and --job together", hint="--from FILE reads a file, --job NAME an outbox")
    job_ref = None if options.file is not None else locate(options)
    source = options.file if job_ref is None else (job_ref.frontier, job_ref.job)
    password = sink_password(os.environ)
    outputs = collect_outputs(typed=options.outputs, job="export", password=password)
    if any(target.name == options.file for target in outputs):
        raise UsageError(f"input and output are the same file: {options.file}", hint="choose another output with -o")
    result, number = run_node(make_export_node(source, outputs, on_event=print_event, password=password), print_event)
    if result is None or number:
        return of_signal(number)
    written, rejected = result
    names = [target.name for target in outputs]
    if options.json:
        print_json({"written": written, "rejected": rejected, "outputs": names})
    else:
        refused = f", {count(rejected, 'item')} rejected" if rejected else ""
        note(f"{count(written, 'item')} written to {', '.join(names)}{refused}")
    return 0
