"""What the tests of deploy/ share: command lines in its files are read by skitter's own parsers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module

import pytest

from skitter.cli.arguments import Parser


@pytest.fixture(scope="session")
def parsed() -> Callable[[Sequence[str]], Namespace]:
    """The options of a command line; UsageError for one that skitter would refuse."""

    def parse(words: Sequence[str]) -> Namespace:
        module = import_module(f"skitter.cli.{words[0]}")
        parser = Parser(prog=f"skitter {words[0]}", description="")
        module.configure(parser)
        return parser.parse(list(words[1:]))

    return parse
