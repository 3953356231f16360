"""``skitter failed``: lists the requests that failed for good, with the reasons."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.frontier.contract import Frontier
    from skitter.model.job import FailedRequest

SHOWN = 50
"""The default --limit of text output; --json lists all."""


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [options]",
        text="List the requests that failed for good, with the reasons. With -v, tracebacks are shown too.",
        examples=[
            ("skitter failed books", "List the failed requests of the job books"),
            ("skitter failed books --class timeout --json", "Print those that timed out as JSON lines"),
        ],
    )
    parser.add_argument("--class", dest="error_class", default="", metavar="CLASS", help="only this error class")
    parser.add_argument("--limit", metavar="N", help=f"show at most N (default {SHOWN}; with --json all)")
    parser.add_argument("--url", metavar="URL", help="only this URL, with its traceback")
    add_job_options(parser)
    add_verbosity_options(parser, json_help="print one JSON object per line")


def run(options: argparse.Namespace) -> int:
    from skitter.app.views.failed import check_error_class
    from skitter.cli.job_ref import ask, locate

    limit = _limit(options)
    check_error_class(options.error_class)
    job_ref = locate(options)
    urls = [options.url] if options.url is not None else []
    ask(job_ref, lambda frontier: _list(frontier, job_ref, options, urls, limit))
    return 0


def _limit(options: argparse.Namespace) -> int | None:
    if options.limit is None:
        return None if options.json else SHOWN
    if not options.limit.isdecimal() or not int(options.limit):
        raise UsageError(f"not a number from 1: --limit {options.limit}", hint="as in --limit 100")
    return int(options.limit)


async def _list(
    frontier: Frontier, job_ref: JobRef, options: argparse.Namespace, urls: Sequence[str], limit: int | None
) -> None:
    import msgspec

    from skitter.app.views.failed import count_failed, find_failed
    from skitter.cli.output import note, print_json

    shown = 0
    async for failed in find_failed(frontier, options.error_class, urls):
        if shown == limit:
            break
        shown += 1
        if options.json:
            print_json(msgspec.to_builtins(failed))
        else:
            print("\n".join(_described(failed, in_full=bool(options.verbose or urls))))
    if options.json:
        return
    report = await frontier.report(0)
    total = count_failed(report, options.error_class)
    if urls and not shown:
        note(f"no failed request with this URL; to see what happened to it: {job_ref.command('why', urls[0])}")
    elif not shown:
        note("nothing failed" + (f" with class {options.error_class}" if options.error_class else ""))
    elif not urls and total > shown:
        note(f"... and {total - shown:,} more; --limit N shows more, --json all")
    if shown:
        words = [*urls, "--class", options.error_class] if options.error_class else urls
        note(f"to try again: {job_ref.command('retry', *words)}")


def _described(failed: FailedRequest, *, in_full: bool) -> list[str]:
    from skitter.cli.terminal_text import clean, clean_block, count, first_line, instant

    status = f" {failed.status}" if failed.status else ""
    lines = [f"{clean(failed.error_class)}{status}  {clean(failed.url)}"]
    details = [first_line(failed.error), count(failed.attempts, "attempt")]
    if failed.losses:
        details.append(f"lost {failed.losses} times with its worker")
    if failed.referrer:
        details.append(f"found on {clean(failed.referrer)}")
    lines.append("    " + ", ".join(detail for detail in details if detail))
    if in_full:
        lines.append(f"    at {instant(failed.ended_at)}")
        if len(failed.error.splitlines()) > 1:
            lines += [f"    | {line}" for line in clean_block(failed.error).splitlines()]
    return lines
