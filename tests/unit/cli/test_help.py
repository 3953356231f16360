"""Every command has help that can be followed: a description, options in groups, and examples that parse."""

from __future__ import annotations

import shlex
from importlib import import_module

import pytest

from skitter.cli import COMMANDS
from skitter.cli.arguments import OPTION_GROUPS, Parser

GENERAL = {"-h", "--help", "--json", "-q", "--quiet", "-v", "--verbose", "-n", "--sample", "--most"}
"""Options that need no group of their own."""


def _parser(command: str) -> Parser:
    parser = Parser(prog=f"skitter {command}", description=COMMANDS[command])
    import_module(f"skitter.cli.{command}").configure(parser)
    return parser


def _number_of_options(command: str) -> int:
    return sum(bool(action.option_strings) for action in _parser(command)._actions)


def _words(example: str) -> list[str]:
    """What the shell hands to skitter: the part after a pipe, without a redirection."""
    return shlex.split(example.rpartition("| ")[2].partition(" > ")[0])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_two_examples_that_its_parser_accepts(command) -> None:
    examples = _parser(command).examples
    assert len(examples) >= 2
    for example, purpose in examples:
        program, name, *rest = _words(example)
        assert (program, name) == ("skitter", command)
        _parser(command).parse(rest)
        assert purpose


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_usage_and_example(command) -> None:
    parser = _parser(command)
    shown = parser.format_help()
    assert all(example in shown and purpose in shown for example, purpose in parser.examples)
    assert shown.splitlines()[0].startswith(f"usage: skitter {command}")


@pytest.mark.parametrize("command", [command for command in COMMANDS if _number_of_options(command) > 8])
def test_options_of_a_command_with_many_are_in_groups(command) -> None:
    general = {name for action in _parser(command)._optionals._group_actions for name in action.option_strings}
    assert general <= GENERAL | {"--file", "--priority", "--follow", "-f", "-c", "--code", "--url", "--repair"}


def test_shared_options_are_in_the_same_group_in_every_command() -> None:
    (group,) = [group for group in _parser("crawl").option_groups() if group.title == "Politeness and limits"]
    shown = {action.option_strings[0] for action in group._group_actions}
    assert shown == set(OPTION_GROUPS["Politeness and limits"])
