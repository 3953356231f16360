"""``skitter jobs``: lists the jobs of a frontier, or of .skitter, with their states."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_verbosity_options

if TYPE_CHECKING:
    from skitter.app.views.jobs import JobView


def configure(parser: Parser) -> None:
    parser.add_argument("--frontier", metavar="URL", help="default: every file in .skitter")
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    from skitter.app.views.jobs import jobs_of_frontier, jobs_of_frontiers
    from skitter.cli.job_ref import local_frontiers
    from skitter.cli.output import error, note, print_json
    from skitter.model.secrets import shown_frontier

    by_name = options.frontier is not None
    found = asyncio.run(jobs_of_frontier(options.frontier) if by_name else jobs_of_frontiers(local_frontiers()))
    if options.json:
        for view in found:
            print_json(view)
        return 0
    if not found:
        note(f"no jobs in {shown_frontier(options.frontier or '.skitter')}")
        return 0
    print("\n".join(_as_text(found, with_frontier=not by_name)))
    for view in found:
        if view.problem:
            error(view.problem, view.hint or "")
    return 0


def _as_text(found: list[JobView], *, with_frontier: bool) -> list[str]:
    import time

    from skitter.cli.job_ref import is_starting, shown_state
    from skitter.cli.terminal_text import clean, number, table

    header = ("job", "state", "workers", "unfinished", "done", "dead", "frontier" if with_frontier else "")
    rows: list[tuple[str, ...]] = [header]
    for view in found:
        counts = (view.workers, view.unfinished, view.done, view.dead)
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
        rows.append((clean(view.job), state, *figures, clean(view.frontier) if with_frontier else ""))
    return table(rows, right=[2, 3, 4, 5])
