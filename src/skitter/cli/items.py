"""``skitter items``: shows some of a job's items, and how often each field is filled."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.delivery.item_preview import ItemPreview

SAMPLE = 3
MOST = 100_000
VALUE_CHARS = 60


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [options]",
        "--from SOURCE [options]",
        text="Show sample items and, for each field, how many items have a value in it, and of which types. Reads the\n"
        "first output of the job that is a readable file, or the outbox if there is none.",
        examples=[
            ("skitter items books", "Show three items of the job books, and its fields"),
            ("skitter items --from books.jsonl -n 10 --json", "Look at a results file"),
        ],
    )
    parser.add_argument(
        "--from",
        dest="file",
        metavar="SOURCE",
        help="read a results file, mongodb://…#COLLECTION or mongodb+ring://…#COLLECTION instead",
    )
    parser.add_argument(
        "-n", "--sample", type=int, default=SAMPLE, metavar="N", help=f"show N items (default {SAMPLE})"
    )
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"read at most N items (default {MOST})")
    add_job_options(parser)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    from skitter.app import preview_file, preview_job
    from skitter.cli.job_ref import locate
    from skitter.cli.output import print_json
    from skitter.cli.settings_layers import sink_password

    if options.sample < 0 or options.most < 1:
        raise UsageError("not a number of items", hint="-n takes 0 or more, --most 1 or more")
    job, amounts = "", {"sample": options.sample, "most": options.most}
    if options.file is not None:
        look = preview_file(options.file, password=sink_password(os.environ), **amounts)
    else:
        job_ref = locate(options)
        job, look = job_ref.job, asyncio.run(preview_job(job_ref.frontier, job_ref.job, **amounts))
    if options.json:
        counts = {"items": look.items, "undelivered": look.undelivered}
        print_json({"job": job, "source": look.source, **counts, "fields": look.fields, "sample": look.sample})
    else:
        print("\n".join(_as_text(look)))
    return 0


def _as_text(look: ItemPreview) -> list[str]:
    from skitter.cli.terminal_text import clean, count, number, shorten, table

    more = ", and perhaps more" if look.items == look.most else ""
    lines = [f"{count(look.items, 'item')} in {clean(look.source)}{more}"]
    if look.undelivered and look.source != "outbox":
        lines.append(f"{count(look.undelivered, 'item')} not yet in every output")
    if not look.items and look.source == "outbox":
        lines.append("items that every output has are removed from the outbox; --from FILE reads a results file")
    if look.items:
        rows = [("field", "filled", "items", "types")]
        for name, told in look.fields.items():
            rows.append((clean(name), f"{told['rate']:.1%}", number(told["filled"]), ", ".join(told["types"])))
        lines += ["", *table(rows, right=[1, 2])]
    for record in look.sample:
        lines += [
            "",
            *table([(clean(name), shorten(clean(str(value)), VALUE_CHARS)) for name, value in record.items()]),
        ]
    return lines
