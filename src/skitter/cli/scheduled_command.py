"""Check of a command that is to be scheduled: it must be one, its arguments must parse, and its crawl must load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.app.schedules import CommandTarget

_REFUSED = {
    "schedule": "schedules are added by hand or in skitter.toml",
    "scheduler": "start it by systemd or by hand",
    "serve": "start it by systemd or by hand",
}
_JOB_COMMANDS = ("crawl", "submit")


def check_command(words: Sequence[str], frontier: str) -> CommandTarget:
    """Return what a command is about; UsageError for one that could not run. ``frontier``: of the schedules."""
    from importlib import import_module

    from skitter.app.schedules import CommandTarget
    from skitter.cli import COMMANDS
    from skitter.cli.arguments import Parser, did_you_mean

    words = list(words)
    if words[:1] == ["skitter"]:
        words = words[1:]
    if not words:
        raise UsageError("no command to schedule", hint='as in skitter schedule add news --every 1h -- crawl "news.py"')
    name = words[0]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or "skitter --help lists the commands"
        raise UsageError(f"no such command: {name}", hint=hint)
    if name in _REFUSED:
        raise UsageError(f"not a command for a schedule: {name}", hint=_REFUSED[name])
    parser = Parser(prog=f"skitter {name}", description=COMMANDS[name])
    module = import_module(f"skitter.cli.{name}")
    module.configure(parser)
    try:
        options = parser.parse(words[1:])
    except SystemExit as end:
        raise UsageError(f"it would only print its help: {' '.join(words)}", hint="leave --help away") from end
    takes = hasattr(options, "frontier") and options.frontier is None
    named = _typed_frontier(words) if getattr(options, "frontier", None) else ""
    job = _checked_job(name, options, frontier) if name in _JOB_COMMANDS else ""
    return CommandTarget(words, job=job, frontier=named, takes_frontier=takes)


def _typed_frontier(words: Sequence[str]) -> str:
    """Return the URL as it was typed: the parsed one may have the token of this environment, which is not stored."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--frontier":
            return following
        if word.startswith("--frontier="):
            return word.partition("=")[2]
    return ""


def _checked_job(name: str, options: argparse.Namespace, frontier: str) -> str:
    """Return the job of a crawl, which is loaded for that with its spider and settings."""
    from skitter.app.frontiers import is_shared
    from skitter.app.submit import check_submission
    from skitter.cli.crawl import make_config
    from skitter.cli.output import stdout_for_data

    if options.run_key:
        raise UsageError(f"a schedule gives its own: --run-key {options.run_key}", hint="leave --run-key away")
    if any(target == "-" for target, _ in options.outputs):
        raise UsageError("a scheduled command prints to nobody: -o -", hint="write the items to a file or a database")
    if "-" in options.intakes:
        raise UsageError("a scheduled command is told nothing: --intake -", hint="read a file or a queue")
    if options.frontier is None and frontier:
        options.frontier = frontier
    with stdout_for_data():
        config, _, _ = make_config(options)
    if not is_shared(config.frontier):
        raise UsageError(f"lives inside one crawl only: {config.frontier}", hint="use sqlite:PATH or redis://…")
    if name == "submit":
        check_submission(config)
    return config.spec.name
