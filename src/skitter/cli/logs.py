"""``skitter logs``: the events of a job, of all its nodes, from a stream of events or from the frontier."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options

if TYPE_CHECKING:
    from skitter.app.job_log import Record

LEVELS = ("debug", "info", "notice", "warning", "error")


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [options]",
        text="Print the events of a job on all its nodes, oldest first: from the stream that the nodes publish to, or\n"
        "from the frontier, which has states, workers and the newest failures.",
        examples=[
            ("skitter logs books --follow", "Follow the job books"),
            (
                "skitter logs books --events kafka://127.0.0.1/#events --since 1h --level warning",
                "Print the warnings and errors of the last hour",
            ),
        ],
    )
    add_job_options(parser)
    parser.add_argument(
        "--events",
        metavar="URL",
        help="the stream that the nodes publish to (default: the setting events; without one, the frontier)",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="print new events until Ctrl-C")
    parser.group("Filters").add_argument(
        "--since",
        metavar="TIME",
        help="start 10m ago, or at 2027-01-31 or 2027-01-31T18:00 (UTC) (default: the beginning)",
    )
    parser.group("Filters").add_argument(
        "--level", choices=LEVELS, default="info", help="lowest level to print (default info; with -v debug)"
    )
    parser.group("Filters").add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="EVENT",
        help="only this event, e.g. worker.died or 'job.*' (repeatable)",
    )
    parser.group("Filters").add_argument("--node", metavar="NAME", help="only events of this machine")
    add_verbosity_options(parser, json_help="print one JSON object per line, as --log-format json writes it")


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_ref import which_job
    from skitter.cli.output import note
    from skitter.model.secrets import shown_url

    shows = _filter(options)
    since = _since(options.since)
    url = options.events or _configured_stream()
    if url:
        if not options.job:
            raise which_job(options)
        note(f"from the stream of events: {shown_url(url)}")
        _print_stream(url, options, since, shows)
    else:
        note("from the frontier, which has states, workers and the newest failures; --events URL reads all events")
        _print_frontier(options, since, shows)
    return 0


def _print_stream(url: str, options: argparse.Namespace, since: float, shows: Callable[[Record], bool]) -> None:
    import time

    from skitter.app.job_log import stream_records
    from skitter.errors import UsageError
    from skitter.event_streams.stream_urls import event_stream_of

    reader = event_stream_of(url)
    if not reader.keeps_events:
        if not options.follow:
            raise UsageError(
                f"an exchange keeps no events: {reader.name}",
                hint="--follow shows new events",
            )
        since = time.time()
    try:
        for record in stream_records(reader, options.job, since, follow=options.follow):
            if shows(record):
                _print(record, options)
    finally:
        reader.close()


def _print_frontier(options: argparse.Namespace, since: float, shows: Callable[[Record], bool]) -> None:
    from skitter.app.job_log import frontier_records
    from skitter.cli.job_ref import ask, locate
    from skitter.frontier.contract import Frontier

    async def show(frontier: Frontier) -> None:
        async for record in frontier_records(frontier, since, follow=options.follow):
            if shows(record):
                _print(record, options)

    ask(locate(options), show)


def _print(record: Record, options: argparse.Namespace) -> None:
    import msgspec

    from skitter.cli.terminal_text import clean
    from skitter.observe.clean_text import clean_json
    from skitter.observe.log_lines import with_origin

    if options.json:
        print(clean_json(msgspec.json.encode(record).decode()), flush=True)
        return

    def text(name: str) -> str:
        return clean(str(record.get(name, "")))

    message = with_origin(text("message"), "", text("node"), text("worker"))
    print(f"{text('time')} {text('level'):<7} {text('event')}: {message}", flush=True)


def _filter(options: argparse.Namespace) -> Callable[[Record], bool]:
    import fnmatch

    lowest = 0 if options.verbose else LEVELS.index(options.level)

    def shows(record: dict[str, Any]) -> bool:
        level = record.get("level")
        return (
            (level not in LEVELS or LEVELS.index(level) >= lowest)
            and (not options.kind or any(fnmatch.fnmatchcase(record["event"], kind) for kind in options.kind))
            and (not options.node or record.get("node") == options.node)
        )

    return shows


def _since(text: str | None) -> float:
    import time
    from datetime import UTC

    from skitter.policy.schedule_times import parse_duration, parse_instant

    if text is None:
        return 0.0
    if "-" in text:
        return parse_instant(text, UTC, "--since")
    return time.time() - parse_duration(text, "--since")


def _configured_stream() -> str:
    """The setting ``events``, of the project file or of SKITTER_EVENTS."""
    import os
    from pathlib import Path

    from skitter.cli import settings_layers

    project = settings_layers.read_project(Path.cwd())
    own = settings_layers.collect_run(project=project, environment=os.environ, config=None, overrides=())
    return own.settings.logging.events
