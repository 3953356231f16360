"""Check of a command that is to be scheduled: it must be one, its arguments must parse, and its crawl must load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.app.schedules import CommandTarget

_REFUSED = {
    "schedule": "add schedules by hand or in skitter.toml",
    "scheduler": "start it with systemd or by hand",
    "serve": "start it with systemd or by hand",
}
_JOB_COMMANDS = ("crawl", "submit")
_REMOTE_OPTIONS = ("targets", "sitemap", "job", "fresh", "argument", "outputs", "overrides", "json", "quiet", "verbose")
"""Options of a job command that a user of a master may give."""
_REMOTE_SETTINGS = ("workers", "concurrency")
_HINT = "add it on the scheduler's machine: skitter schedule add"


def check_remote_command(words: Sequence[str], frontier: str) -> CommandTarget:
    """As ``check_command``, for a user of a master: crawls of the server's folder, and nothing that runs other code."""
    return check_command(words, frontier, is_remote=True)


def check_command(words: Sequence[str], frontier: str, *, is_remote: bool = False) -> CommandTarget:
    """Return what a command is about; UsageError for one that could not run. ``frontier``: of the schedules."""
    from importlib import import_module

    from skitter.app.schedules import CommandTarget
    from skitter.cli import COMMANDS
    from skitter.cli.arguments import Parser
    from skitter.errors import did_you_mean

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
        raise UsageError(f"this command cannot be scheduled: {name}", hint=_REFUSED[name])
    if is_remote and name not in _JOB_COMMANDS:
        raise UsageError(
            f"users of a server cannot schedule this command: {name}",
            hint="they may schedule crawl and submit; add others on the machine: skitter schedule add",
        )
    parser = Parser(prog=f"skitter {name}", description=COMMANDS[name])
    module = import_module(f"skitter.cli.{name}")
    module.configure(parser)
    try:
        options = parser.parse(words[1:])
    except SystemExit as end:
        raise UsageError(f"this would only print the help: {' '.join(words)}", hint="omit --help") from end
    if is_remote:
        _check_remote(options, parser.parse([]))
    takes = hasattr(options, "frontier") and options.frontier is None
    named = _typed_frontier(words) if getattr(options, "frontier", None) else ""
    job = _checked_job(name, options, frontier) if name in _JOB_COMMANDS else ""
    return CommandTarget(words, job=job, frontier=named, takes_frontier=takes)


def _check_remote(options: argparse.Namespace, defaults: argparse.Namespace) -> None:
    """Refuse what reads, writes or runs anything of the machine beside spiders and outputs below the folder.

    It comes before the spider is loaded. Everything that is not allowed by name is refused, also options to come.
    """
    from skitter.app.crawl_source import check_inside
    from skitter.app.remote_limits import check_remote_outputs, check_remote_settings, not_remote

    for dest, value in vars(options).items():
        if dest not in (*_REMOTE_OPTIONS, "command_line") and value != getattr(defaults, dest):
            raise not_remote(f"--{dest.replace('_', '-')}", _HINT)
    check_remote_settings([override.name for override in options.overrides], _REMOTE_SETTINGS, hint=_HINT)
    for word in options.targets:
        if "://" not in word:
            check_inside(word.partition(":")[0], "a spider")
    check_remote_outputs([output for output, _ in options.outputs], hint=_HINT)


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
        raise UsageError(f"a schedule sets its own run key: --run-key {options.run_key}", hint="omit --run-key")
    if any(target == "-" for target, _ in options.outputs):
        raise UsageError(
            "the output of a scheduled command is not read: -o -", hint="write the items to a file or a database"
        )
    if "-" in options.intakes:
        raise UsageError("a scheduled command has no input: --intake -", hint="read a file or a queue")
    if options.frontier is None and frontier:
        options.frontier = frontier
    with stdout_for_data():
        config, *_ = make_config(options)
    if not is_shared(config.frontier):
        raise UsageError(f"exists inside one process only: {config.frontier}", hint="use sqlite:PATH or redis://…")
    if name == "submit":
        check_submission(config)
    return config.spec.name
