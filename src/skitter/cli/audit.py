"""``skitter audit``: lists what operators did, verifies the trail, prints its head, exports and prunes it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_frontier_option, add_verbosity_options, whole
from skitter.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.app.audit import Trails
    from skitter.model.audit import AuditRow

LIMIT = 50
SHOWN_CHARS = 60
"""Of the values of a row in the table; --json has all."""
_FILTERS = ("job", "actor", "action", "since", "limit")


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [filters] [--frontier URL]",
        "--verify [--head HASH] [--frontier URL]",
        "--head | --export | --prune WHEN [--frontier URL]",
        text="List what operators did to the jobs and schedules of a store, the newest first. The entries form a\n"
        "chain of hashes, so that a later change can be detected.",
        examples=[
            ("skitter audit books --since 2d", "Show what was done to the job books in the last two days"),
            ("skitter audit --verify", "Verify the trail of every store in .skitter"),
        ],
    )
    parser.take_job_word()
    parser.group("Filters").add_argument(
        "--job", metavar="NAME", help="only actions on this job, even if it was dropped"
    )
    parser.group("Filters").add_argument(
        "--actor", metavar="WHO", help="only actors whose name begins with this; cli: selects all commands"
    )
    parser.group("Filters").add_argument(
        "--action", metavar="WHAT", help="only actions whose name begins with this, e.g. schedule."
    )
    parser.group("Filters").add_argument(
        "--since", metavar="WHEN", help="only actions since a date (UTC), or in the last 90m, 2d and so on"
    )
    parser.group("Filters").add_argument(
        "--limit", type=whole, metavar="N", help=f"show the newest N (default {LIMIT})"
    )
    parser.group("Actions").add_argument(
        "--export", action="store_true", help="print every stored entry as JSON lines, oldest first"
    )
    parser.group("Actions").add_argument(
        "--verify", action="store_true", help="verify that no entry was changed, removed, inserted or moved"
    )
    parser.group("Actions").add_argument(
        "--head",
        nargs="?",
        const="",
        metavar="HASH",
        help="print the hash of the last entry, to be stored elsewhere; with --verify: fail if this entry is missing",
    )
    parser.group("Actions").add_argument(
        "--prune", metavar="WHEN", help="remove entries older than a date or a duration such as 365d; this is recorded"
    )
    add_frontier_option(parser, "the store (default: every file in .skitter)")
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    _check(options)
    return asyncio.run(_run(options))


def _check(options: argparse.Namespace) -> None:
    """UsageError for options that do not belong together: none is silently ignored."""
    if options.verify and options.head == "":
        raise UsageError(
            "no hash given: --verify --head", hint="skitter audit --head prints one, to be stored elsewhere"
        )
    if options.head and not options.verify:
        raise UsageError(f"only with --verify: --head {options.head}", hint="skitter audit --verify --head HASH")
    prints_head = options.head is not None and not options.verify
    chosen = [
        name
        for name, is_chosen in (
            ("--verify", options.verify),
            ("--head", prints_head),
            ("--export", options.export),
            ("--prune", options.prune is not None),
        )
        if is_chosen
    ]
    given = [f"--{name}" for name in _FILTERS if getattr(options, name) is not None]
    if len(chosen) > 1 or (chosen and given):
        raise UsageError(
            f"cannot be combined: {' '.join([*chosen, *given])}", hint="filters apply only to the list of actions"
        )


async def _run(options: argparse.Namespace) -> int:
    from skitter.app.audit import Trails

    async with Trails(options.frontier or "") as trails:
        if options.verify:
            return await _verify(trails, options)
        if options.head is not None:
            await _print_head(trails, options)
        elif options.export:
            await _export(trails)
        elif options.prune is not None:
            await _prune(trails, options)
        else:
            await _list(trails, options)
    return 0


async def _list(trails: Trails, options: argparse.Namespace) -> None:
    from skitter.app.audit import TrailFilter
    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import table

    since = _time(options.since, "--since") if options.since is not None else 0.0
    limit = LIMIT if options.limit is None else options.limit
    words = {name: getattr(options, name) or "" for name in ("job", "actor", "action")}
    rows = await trails.rows(TrailFilter(since=since, limit=limit, **words))
    if options.json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        note("no actions are recorded here" + (" that matches" if any(words.values()) or since else ""))
        return
    header = ("when", "who", "what", "job", "outcome", "details", "before", "after")
    print("\n".join(table([header, *map(_cells, rows)])))


def _cells(row: AuditRow) -> Sequence[str]:
    from skitter.cli.terminal_text import clean, instant

    who = f"{row.actor} ({row.claim})" if row.claim else row.actor
    facts = (row.action, row.job or "-", row.outcome)
    values = (_text(values) for values in (row.details, row.before, row.after))
    return tuple(clean(cell) for cell in (instant(row.at), who, *facts, *values))


def _text(values: dict[str, Any]) -> str:
    """Values in a line."""
    import msgspec

    parts = (
        f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in values.items()
    )
    line = " ".join(parts)
    return (line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…") or "-"


async def _verify(trails: Trails, options: argparse.Namespace) -> int:
    from skitter.cli.exit_codes import FAILED
    from skitter.cli.output import print_json
    from skitter.cli.terminal_text import clean, count, number

    found = await trails.verify([options.head] if options.head else [])
    if options.json:
        print_json(found)
    else:
        for problem in found.problems:
            print(clean(problem))
        result = "intact" if found.ok else count(len(found.problems), "problem")
        print(f"{number(found.entries)} entries: {result}")
    return 0 if found.ok else FAILED


async def _print_head(trails: Trails, options: argparse.Namespace) -> None:
    from skitter.cli.output import print_json

    if options.json:
        print_json({"head": await trails.head(), "chains": await trails.chains()})
    else:
        print(await trails.head())


async def _export(trails: Trails) -> None:
    from skitter.audit.entry import line_of

    async for _, stored in trails.export():
        # As it is stored, secrets were left out before: any change would not fit its hash.
        print(line_of(stored).decode("utf-8", "backslashreplace"))


async def _prune(trails: Trails, options: argparse.Namespace) -> None:
    from skitter.cli.actor import cli_actor
    from skitter.cli.output import print_json
    from skitter.cli.terminal_text import number

    removed = await trails.prune(_time(options.prune, "--prune"), cli_actor())
    if options.json:
        print_json({"removed": removed, "head": await trails.head()})
    else:
        print(f"{number(removed)} entries removed")


def _time(text: str, what: str) -> float:
    """Return the time of a date, or so long ago."""
    import time
    from datetime import UTC

    from skitter.policy.schedule_times import parse_duration, parse_instant

    if text[:4].isdecimal() and "-" in text:
        return parse_instant(text, UTC, what)
    return time.time() - parse_duration(text, what)
