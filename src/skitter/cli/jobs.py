"""``skitter jobs``: which jobs there are in a frontier, or in .skitter, and how they stand."""

from __future__ import annotations

import argparse
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_voice_options

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.errors import FrontierError
    from skitter.model.job import Report

    Found = tuple[JobRef, Report | FrontierError | None]


def configure(parser: Parser) -> None:
    parser.add_argument("--frontier", metavar="URL", help="default: every file in .skitter")
    add_voice_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    from skitter.cli.output import error, note, print_json
    from skitter.errors import FrontierError

    found = asyncio.run(_look(options.frontier))
    if options.json:
        for place, report in found:
            print_json(_as_json(place, report))
        return 0
    if not found:
        note(f"no jobs in {JobRef(options.frontier or '.skitter', '').shown}")
        return 0
    print("\n".join(_as_text(found, with_frontier=options.frontier is None)))
    for _, report in found:
        if isinstance(report, FrontierError):
            error(str(report), report.hint)
    return 0


async def _look(frontier: str | None) -> list[Found]:
    """One job that cannot be read does not hide the others."""
    from skitter.cli.job_ref import local_frontiers
    from skitter.errors import FrontierError

    if frontier is not None:
        return await _look_into(frontier)
    found: list[Found] = []
    for url in local_frontiers():
        try:
            found += await _look_into(url)
        except FrontierError as error:
            found.append((_place_of(url), error))
    return found


async def _look_into(url: str) -> list[Found]:
    from skitter.app import list_jobs
    from skitter.cli.job_ref import JobRef

    return [await _look_at(JobRef(url, name)) for name in await list_jobs(url)]


async def _look_at(place: JobRef) -> Found:
    from skitter.cli.job_ref import opened
    from skitter.errors import FormatError, JobError

    try:
        async with opened(place) as one:
            return place, await one.report(0)
    except JobError:
        # Listed before it began, or dropped half-way: drop removes what there is of it.
        return place, None
    except FormatError as error:
        return place, error


def _place_of(url: str) -> JobRef:
    """Of a file whose jobs cannot be read: its name is that of the job whose file it is."""
    from skitter.cli.job_ref import JobRef

    return JobRef(url, PurePath(url).stem)


def _as_json(place: JobRef, report: Report | FrontierError | None) -> dict[str, Any]:
    from skitter.cli.job_ref import live_workers
    from skitter.errors import FrontierError

    told: dict[str, Any] = {"job": place.job, "frontier": place.shown, "state": "unknown"}
    if report is None:
        return told
    if isinstance(report, FrontierError):
        return told | {"state": "unreadable", "problem": str(report), "hint": report.hint}
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


def _as_text(found: list[Found], *, with_frontier: bool) -> list[str]:
    from skitter.cli.job_ref import shown_state
    from skitter.cli.terminal_text import clean, number, table
    from skitter.model.job import Report

    rows: list[tuple[str, ...]] = [
        ("job", "state", "workers", "unfinished", "done", "dead", "frontier" if with_frontier else "")
    ]
    for place, report in found:
        told = _as_json(place, report)
        figures = [number(told[name]) if name in told else "-" for name in ("workers", "unfinished", "done", "dead")]
        state = shown_state(report) if isinstance(report, Report) else str(told["state"])
        rows.append((clean(place.job), state, *figures, place.shown if with_frontier else ""))
    return table(rows, right=[2, 3, 4, 5])
