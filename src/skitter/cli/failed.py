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
    from skitter.model.job import Dead

SHOWN = 50
"""The default --limit of text output; --json lists all."""


def configure(parser: Parser) -> None:
    parser.add_argument("--class", dest="error_class", default="", metavar="CLASS", help="only this class of error")
    parser.add_argument("--limit", metavar="N", help=f"at most N; default {SHOWN}, with --json all")
    parser.add_argument("--url", metavar="URL", help="only this one, with its traceback")
    add_job_options(parser)
    add_verbosity_options(parser, json_help="one JSON object a line")


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_ref import ask, locate

    limit = _limit(options)
    check_class(options.error_class)
    job_ref = locate(options)
    urls = [options.url] if options.url is not None else []
    ask(job_ref, lambda frontier: _list(frontier, job_ref, options, urls, limit))
    return 0


def check_class(error_class: str) -> None:
    """Raise UsageError for an unknown error class, which would match nothing."""
    from skitter.cli.arguments import did_you_mean
    from skitter.policy.retry import DEAD_CLASSES

    if error_class and error_class not in DEAD_CLASSES:
        near = did_you_mean(error_class, DEAD_CLASSES)
        listed = f"classes: {', '.join(DEAD_CLASSES)}"
        raise UsageError(f"no such class of errors: {error_class}", hint=f"{near} {listed}" if near else listed)


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

    from skitter.app.views.failed import count_dead, find_dead
    from skitter.cli.output import note, print_json

    shown = 0
    async for dead in find_dead(frontier, options.error_class, urls):
        if shown == limit:
            break
        shown += 1
        if options.json:
            print_json(msgspec.to_builtins(dead))
        else:
            print("\n".join(_described(dead, in_full=bool(options.verbose or urls))))
    if options.json:
        return
    report = await frontier.report(0)
    total = count_dead(report, options.error_class)
    if urls and not shown:
        note(f"not among the failed; to see what became of it: {job_ref.command('why', urls[0])}")
    elif not shown:
        note("nothing failed" + (f" with class {options.error_class}" if options.error_class else ""))
    elif not urls and total > shown:
        note(f"... and {total - shown:,} more; --limit N shows more, --json all")
    if shown:
        words = [*urls, "--class", options.error_class] if options.error_class else urls
        note(f"to try again: {job_ref.command('retry', *words)}")


def _described(dead: Dead, *, in_full: bool) -> list[str]:
    from skitter.cli.terminal_text import clean, clean_block, count, first_line, instant

    status = f" {dead.status}" if dead.status else ""
    lines = [f"{clean(dead.error_class)}{status}  {clean(dead.url)}"]
    details = [first_line(dead.error), count(dead.attempts, "attempt")]
    if dead.losses:
        details.append(f"lost {dead.losses} times with its worker")
    if dead.referrer:
        details.append(f"found on {clean(dead.referrer)}")
    lines.append("    " + ", ".join(detail for detail in details if detail))
    if in_full:
        lines.append(f"    at {instant(dead.ended_at)}")
        if len(dead.error.splitlines()) > 1:
            lines += [f"    | {line}" for line in clean_block(dead.error).splitlines()]
    return lines
