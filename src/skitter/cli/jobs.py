"""``skitter jobs``: lists the jobs of a frontier, or of .skitter, with their states."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_frontier_option, add_verbosity_options

if TYPE_CHECKING:
    from skitter.app.views.jobs import JobView


def configure(parser: Parser) -> None:
    parser.describe(
        "[options]",
        text="List jobs, one per line: state, live workers, and requests unfinished, done and failed.",
        examples=[
            ("skitter jobs", "List the jobs of this folder"),
            ("skitter jobs --frontier redis://127.0.0.1:6379 --json", "List the jobs of a Redis server as JSON lines"),
        ],
    )
    add_frontier_option(parser, "the store (default: every file in .skitter)")
    parser.group("Output").add_argument(
        "--distinct",
        action="store_true",
        help="also estimate how many distinct URLs each job has done, and all jobs together",
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    import msgspec

    from skitter.app.frontiers import local_frontiers
    from skitter.app.views.jobs import DistinctTotal, jobs_of_frontier, jobs_of_frontiers
    from skitter.cli.output import error, note, print_json
    from skitter.cli.terminal_text import number
    from skitter.model.secrets import shown_frontier

    by_name = options.frontier is not None
    distinct = DistinctTotal() if options.distinct else None
    found = asyncio.run(
        jobs_of_frontier(options.frontier, distinct) if by_name else jobs_of_frontiers(local_frontiers(), distinct)
    )
    if options.json:
        for view in found:
            fields = msgspec.to_builtins(view)
            # "dead" is the former name of "failed", until 0.3.
            print_json(fields | {"dead": fields["failed"]} if "failed" in fields else fields)
        if distinct is not None:
            print_json({"jobs": len(found), "distinct": distinct.count()})
        return 0
    if not found:
        note(f"no jobs in {shown_frontier(options.frontier or '.skitter')}")
        return 0
    print("\n".join(_as_text(found, with_frontier=not by_name, with_distinct=options.distinct)))
    if distinct is not None:
        print(f"about {number(distinct.count())} distinct URLs in all")
    for view in found:
        if view.problem:
            error(view.problem, view.hint or "")
    return 0


def _as_text(found: list[JobView], *, with_frontier: bool, with_distinct: bool) -> list[str]:
    import time

    from skitter.cli.job_ref import is_starting, shown_state
    from skitter.cli.terminal_text import clean, number, table

    distinct = ("distinct",) if with_distinct else ()
    header = ("job", "state", "workers", "unfinished", "done", "failed", *distinct, "frontier" if with_frontier else "")
    rows: list[tuple[str, ...]] = [header]
    for view in found:
        counts = (view.workers, view.unfinished, view.done, view.failed, *([view.distinct] if with_distinct else []))
        figures = [number(figure) if isinstance(figure, int) else "-" for figure in counts]
        state = view.state
        if isinstance(view.workers, int):
            state = shown_state(
                state,
                view.reason or "",
                is_over=bool(view.ended_at),
                workers=view.workers,
                is_starting=is_starting(view.started_at or 0.0, view.seen or 0, time.time()),
            )
        if view.skipped_by:
            state += f", skipped by {clean(', '.join(view.skipped_by))}"
        rows.append((clean(view.job), state, *figures, clean(view.frontier) if with_frontier else ""))
    return table(rows, right=[2, 3, 4, 5, *([6] if with_distinct else [])])
