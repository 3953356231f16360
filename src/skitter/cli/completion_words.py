"""What a shell can complete, read from the parsers of all commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from itertools import zip_longest
from typing import NamedTuple

from skitter.cli import COMMANDS
from skitter.cli.arguments import Parser
from skitter.settings import names as setting_names

ANY, FILE, FOLDER, JOB, SPIDER, SETTING = "any", "file", "folder", "job", "spider", "setting"
"""Kinds of values. ``spider``: the names of the project's, and files."""
_KIND_OF_METAVAR = {
    "FILE": FILE,
    "DIR": FOLDER,
    "JOB": JOB,
    "PATH": FILE,
    "SPIDER": SPIDER,
    "OUTPUT": FILE,
    "URL|FILE": FILE,
    "URL|SPIDER": SPIDER,
}
_KIND_OF_OPTION = {"--job": JOB, "--set": SETTING}
_CHOICES = {
    "--catch-up": ("none", "latest", "all"),
    "--log-format": ("text", "json"),
    "--overlap": ("skip", "queue", "replace", "allow"),
    "--priority": ("low", "normal", "high", "critical"),
}


class Value(NamedTuple):
    """What may stand in a place: words, or a kind of thing."""

    kind: str = ANY
    choices: tuple[str, ...] = ()
    metavar: str = ""


class Option(NamedTuple):
    names: tuple[str, ...]
    help: str
    value: Value | None
    """None: it is a flag."""


class Command(NamedTuple):
    name: str
    help: str
    options: list[Option]
    arguments: list[Sequence[Value]]
    """What is not an option, by place: each has one or several values. The last one counts for all that follow."""


def command_words() -> list[Command]:
    """Return every command with what may follow it."""
    return [_command(name, summary) for name, summary in COMMANDS.items()]


def settings_words() -> list[str]:
    """Return ``NAME=`` of every setting."""
    return [f"{name}=" for name in setting_names()]


def _command(name: str, summary: str) -> Command:
    parser = Parser(prog=f"skitter {name}", description=summary)
    module = import_module(f"skitter.cli.{name}")
    module.configure(parser)
    command, arguments = Command(name, summary, [], []), list[Value]()
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to tell them
        if action.option_strings:
            value = None if action.nargs == 0 else _value(action)
            command.options.append(Option(tuple(action.option_strings), _plain(action.help), value))
        elif action.dest == "action" and hasattr(module, "ACTIONS"):
            arguments.append(Value(choices=module.ACTIONS, metavar="ACTION"))
        elif action.metavar == "KEY=VALUE":
            arguments.append(Value(SETTING, metavar="KEY=VALUE"))
        else:
            arguments.append(_value(action))
    # Without the word of the job, each of the others stands one place earlier.
    follows = arguments[1:] if arguments and arguments[0].kind == JOB else []
    command.arguments.extend([value for value in pair if value] for pair in zip_longest(arguments, follows))
    return command


def _value(action: argparse.Action) -> Value:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    choices = tuple(map(str, action.choices or ()))
    for option in action.option_strings:
        choices = choices or _CHOICES.get(option, ())
        if option in _KIND_OF_OPTION:
            return Value(_KIND_OF_OPTION[option], (), metavar)
    return Value(_KIND_OF_METAVAR.get(metavar, ANY), choices, metavar)


def _plain(text: str | None) -> str:
    return (text or "").replace("%%", "%")
