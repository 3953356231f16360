"""``skitter jobs``: which jobs there are in a frontier, or in .skitter, and how they stand."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_voice_options

if TYPE_CHECKING:
    from skitter.cli.jobs import Place
    from skitter.model.job import Report


def configure(parser: Parser) -> None:
    parser.add_argument("--frontier", metavar="URL", help="default: every file in .skitter")
    add_voice_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    from skitter.cli.jobs import Place
    from skitter.cli.output import note, print_json

    found = asyncio.run(_look(options.frontier))
    if options.json:
        for place, report in found:
            print_json(_as_json(place, report))
        return 0
    if not found:
        note(f"no jobs in {Place(options.frontier or '.skitter', '').shown}")
        return 0
    print("\n".join(_as_text(found, with_frontier=options.frontier is None)))
    return 0


async def _look(frontier: str | None) -> list[tuple[Place, Report | None]]:
    from skitter.app import list_jobs
    from skitter.cli.jobs import Place, local_frontiers, opened
    from skitter.errors import JobError

    found: list[tuple[Place, Report | None]] = []
    for url in [frontier] if frontier is not None else local_frontiers():
        for name in await list_jobs(url):
            place = Place(url, name)
            async with opened(place) as one:
                try:
                    found.append((place, await one.report(0)))
                except JobError:
                    # Listed before it began, or dropped half-way: drop removes what there is of it.
                    found.append((place, None))
    return found


def _as_json(place: Place, report: Report | None) -> dict[str, Any]:
    from skitter.cli.jobs import live_workers

    told: dict[str, Any] = {"job": place.job, "frontier": place.shown, "state": "unknown"}
    if report is None:
        return told
    counts = report.counts
    return told | {
        "state": report.job.state,
        "run": report.job.run,
        "unfinished": counts.unfinished,
        "done": counts.done,
        "dead": counts.dead,
        "seen": counts.seen,
        "workers": live_workers(report),
        "started_at": report.job.started_at,
        "ended_at": report.job.ended_at,
    }


def _as_text(found: list[tuple[Place, Report | None]], *, with_frontier: bool) -> list[str]:
    from skitter.cli.text import clean, number, table

    rows = [("job", "state", "workers", "unfinished", "done", "dead", "frontier" if with_frontier else "")]
    for place, report in found:
        told = _as_json(place, report)
        figures = [number(told[name]) if name in told else "-" for name in ("workers", "unfinished", "done", "dead")]
        rows.append((clean(place.job), told["state"], *figures, place.shown if with_frontier else ""))
    return table(rows, right=[2, 3, 4, 5])
