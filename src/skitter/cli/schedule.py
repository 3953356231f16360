"""``skitter schedule``: adds, lists, pauses and removes schedules, runs one now, and shows their history."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_frontier_option, add_verbosity_options, check_action, whole
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.app.schedules import Schedules, ScheduleView
    from skitter.model.schedule import HistoryRow

ACTIONS = ("add", "list", "show", "pause", "resume", "remove", "run", "history")
_ADD_OPTIONS = [
    (
        "--cron",
        "cron",
        "EXPRESSION",
        'minute hour day month weekday, e.g. "0 2 * * *"; with six fields the first is seconds',
    ),
    ("--every", "every", "DURATION", "instead of --cron: an interval such as 30s, 15m, 1h30m or 2d"),
    ("--timezone", "timezone", "ZONE", "time zone of the cron expression, e.g. Asia/Shanghai (default: UTC)"),
    ("--overlap", "overlap", "HOW", "if an earlier run is still running: skip (default), queue, replace or allow"),
    (
        "--catch-up",
        "catch_up",
        "HOW",
        "run the ticks that passed while no scheduler ran: none, latest (default) or all",
    ),
    (
        "--start-within",
        "start_within",
        "DURATION",
        "a tick that cannot start within this time is missed (default: no limit)",
    ),
    ("--jitter", "jitter", "DURATION", "delay each tick by a random time up to this"),
    ("--until", "until", "DATE", "end of the schedule, e.g. 2027-01-31 (00:00) or 2027-01-31T18:00"),
    ("--max-instances", "max_instances", "N", "with --overlap allow: maximum number of concurrent runs (default 10)"),
    ("--retries", "retries", "N", "number of times to run a failed command again (default 0); never after exit code 2"),
    ("--retry-delay", "retry_delay", "DURATION", "delay before a retry (default 60s)"),
]


def configure(parser: Parser) -> None:
    parser.describe(
        "add NAME --cron EXPRESSION [options] -- COMMAND ARGS",
        "add NAME --every DURATION [options] -- COMMAND ARGS",
        "list",
        "show|pause|resume|remove|run NAME",
        "history NAME [--limit N]",
        text="Manage schedules, which are stored next to the jobs of the frontier. skitter scheduler runs them.\n"
        "COMMAND is any skitter command except schedule, scheduler and serve, without the word skitter.",
        examples=[
            (
                'skitter schedule add nightly --cron "0 2 * * *" -- crawl http://127.0.0.1:8600/ --recrawl',
                "Crawl every night at two o'clock UTC",
            ),
            ("skitter schedule history nightly --limit 5", "Show the last five runs"),
        ],
    )
    parser.takes_command = True
    parser.add_argument("action", metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="name of the schedule; for add, COMMAND ARGS follow after --"
    )
    for option, dest, metavar, help_text in _ADD_OPTIONS:
        parser.group("Options of add").add_argument(option, dest=dest, metavar=metavar, help=help_text)
    parser.group("Options of add").add_argument(
        "--replace", action="store_true", help="change an existing schedule; its history stays"
    )
    parser.group("Options of history").add_argument(
        "--limit", type=whole, metavar="N", help="rows to show (default 20)"
    )
    add_frontier_option(parser, "the store of the schedules and their jobs (default: .skitter in the current folder)")
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    from skitter.app.schedules import Schedules
    from skitter.cli.actor import cli_actor
    from skitter.cli.scheduled_command import check_command

    _check_options(options)
    async with Schedules(options.frontier or "", check_command=check_command, actor=cli_actor()) as schedules:
        if options.action == "list":
            await _list(schedules, options)
        elif options.action == "add":
            await _add(schedules, options)
        elif options.action == "history":
            await _history(schedules, options)
        elif options.action == "remove":
            await schedules.remove(options.name)
            _answer(options, {"name": options.name, "removed": True}, f"{options.name}: removed")
        elif options.action == "run":
            await _run_now(schedules, options)
        else:
            actions = {"show": schedules.get, "pause": schedules.pause, "resume": schedules.resume}
            _print_view(await actions[options.action](options.name), options)
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """UsageError for options that do not belong to the action: none is silently ignored."""
    action = options.action
    check_action(action, ACTIONS, "schedule")
    if action == "list" and options.name is not None:
        raise UsageError(f"unexpected argument: {options.name}", hint=f"skitter schedule show {options.name}")
    if action != "list" and options.name is None:
        raise UsageError(f"no schedule given: schedule {action}", hint="skitter schedule list lists them")
    of_add = [option for option, dest, _, _ in _ADD_OPTIONS if getattr(options, dest) is not None]
    wrong = [*of_add, *(["--replace"] if options.replace else []), *(["--"] if options.command is not None else [])]
    if action != "add" and wrong:
        raise UsageError(f"only for schedule add: {wrong[0]}", hint="skitter schedule --help lists the options")
    if action != "history" and options.limit is not None:
        raise UsageError("only for schedule history: --limit", hint="skitter schedule --help lists the options")
    if action == "add" and not options.command:
        raise UsageError(
            "no command to schedule",
            hint=f"put it after --: skitter schedule add {options.name} --every 1h -- crawl URL",
        )


async def _add(schedules: Schedules, options: argparse.Namespace) -> None:
    from skitter.cli.output import note

    settings: dict[str, Any] = {
        dest: getattr(options, dest) for _, dest, _, _ in _ADD_OPTIONS if getattr(options, dest) is not None
    }
    for dest in ("max_instances", "retries"):
        if dest in settings:
            settings[dest] = _number(settings[dest], dest)
    view = await schedules.add(options.name, options.command, replace=options.replace, **settings)
    _print_view(view, options)
    if not await schedules.leader():
        at = f" --frontier {shlex.quote(options.frontier)}" if options.frontier else ""
        note(f"no scheduler is running; start one: skitter scheduler{at}")


def _number(text: str, dest: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"not a whole number: --{dest.replace('_', '-')} {text}", hint="as in 3")
    return int(text)


async def _list(schedules: Schedules, options: argparse.Namespace) -> None:
    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import clean, table

    found = await schedules.list()
    if options.json:
        for view in found:
            print_json(view)
        return
    if not found:
        note("no schedules here; add one: skitter schedule add NAME --every 1h -- COMMAND")
        return
    rows: list[Sequence[str]] = [("schedule", "when", "next", "last", "command")]
    for view in found:
        last = f"{view.last.outcome} {_shown(view.last.scheduled_at)}" if view.last is not None else "-"
        state = "paused" if view.paused else "running" if view.running else _shown(view.next_at)
        rows.append((view.name, clean(_when(view)), state, last, clean(shlex.join(view.command))))
    print("\n".join(table(rows)))


def _print_view(view: ScheduleView, options: argparse.Namespace) -> None:
    from skitter.cli.terminal_text import clean, duration, table

    facts = [
        ("schedule", view.name + (", paused" if view.paused else "")),
        ("command", f"skitter {shlex.join(view.command)}"),
        ("when", _when(view)),
        ("next", _shown(view.next_at)),
        ("overlap", view.overlap + (f", {view.max_instances} at most" if view.overlap == "allow" else "")),
        ("catch-up", str(view.catch_up)),
    ]
    if view.start_within_seconds is not None:
        facts.append(("start within", duration(view.start_within_seconds)))
    if view.jitter_seconds:
        facts.append(("jitter", duration(view.jitter_seconds)))
    if view.until is not None:
        facts.append(("until", _shown(view.until)))
    if view.retries:
        facts.append(("retries", f"{view.retries}, after {duration(view.retry_delay_seconds)}"))
    if view.job:
        facts.append(("job", view.job))
    if view.origin:
        facts.append(("from", view.origin))
    facts += [("running", _shown(at)) for at in view.running]
    facts += [("waiting", _shown(at)) for at in view.waiting[:10]]
    if view.last is not None:
        reason = f": {view.last.reason}" if view.last.reason else ""
        facts.append(("last", f"{_shown(view.last.scheduled_at)}, {view.last.outcome}{reason}"))
    _answer(options, view, "\n".join(table([(name, clean(text)) for name, text in facts])))


async def _run_now(schedules: Schedules, options: argparse.Namespace) -> None:
    from skitter.cli.output import warn

    at = await schedules.run(options.name)
    leader = await schedules.leader()
    _answer(
        options,
        {"name": options.name, "scheduled_at": at, "leader": leader},
        f"{options.name}: a tick at {_shown(at)}" + (f", for the scheduler {leader}" if leader else ""),
    )
    if not leader:
        warn("no scheduler is running: the run starts when one does")


async def _history(schedules: Schedules, options: argparse.Namespace) -> None:
    from skitter.app.schedules import HISTORY_LIMIT
    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import table

    rows = await schedules.history(options.name, options.limit or HISTORY_LIMIT)
    if options.json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        note(f"no tick of {options.name} has ended yet")
        return
    header = ("scheduled at", "started at", "took", "outcome", "exit", "reason")
    print("\n".join(table([header, *map(_history_cells, rows)])))


def _history_cells(row: HistoryRow) -> tuple[str, ...]:
    from skitter.cli.terminal_text import clean, duration

    took = duration(max(0.0, row.ended_at - row.started_at)) if row.ended_at and row.started_at else "-"
    code = str(row.exit_code) if row.exit_code is not None else "-"
    return (_shown(row.scheduled_at), _shown(row.started_at), took, str(row.outcome), code, clean(row.reason))


def _when(view: ScheduleView) -> str:
    if view.cron:
        return f"{view.cron} {view.timezone}"
    from skitter.cli.terminal_text import duration

    return f"every {duration(view.every_seconds or 0.0)}"


def _shown(at: float | None) -> str:
    from skitter.cli.terminal_text import instant

    return instant(at) if at else "-"


def _answer(options: argparse.Namespace, value: Any, text: str) -> None:
    from skitter.cli.output import print_json

    if options.json:
        print_json(value)
    else:
        print(text)
