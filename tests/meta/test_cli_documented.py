"""A command or an option that nobody can read about does not exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from skitter.cli import COMMANDS
from skitter.cli.arguments import Parser
from skitter.spiders.foreign_settings import COUNTERPARTS, FAMILIES, FOREIGN, SWITCHES, TOGETHER
from skitter.spiders.scrapy_names import META, REFUSED, SETTINGS, WARNED, WARNED_METHODS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
FOREIGN_PAGE = (DOCS / "reference" / "foreign-settings.md").read_text(encoding="utf-8")
SCRAPY_PAGE = (DOCS / "how-to" / "migrate-from-scrapy.md").read_text(encoding="utf-8")
SHARED = {"--frontier", "--job", "--json", "-v", "--verbose"}
"""Described once, under "Which job"."""


def _options(command: str) -> list[str]:
    parser = Parser(prog=command, description="")
    import_module(f"skitter.cli.{command}").configure(parser)
    return [text for action in parser._actions for text in action.option_strings if text not in ("-h", "--help")]


def _section(command: str) -> str:
    """The part of the page under the command's heading."""
    for heading, text in re.findall(r"^## ([a-z, ]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL):
        if command in heading.split(", "):
            return text
    return ""


def _is_documented(command: str, option: str) -> bool:
    described = re.compile(rf"^\| .*`{option}[` ]", re.MULTILINE)
    is_shared = command != "crawl" and option in SHARED
    return bool(described.search(_section(command)) or (is_shared and described.search(PAGE)))


def test_command_is_documented() -> None:
    assert [command for command in COMMANDS if f"skitter {command}" not in _section(command)] == []


def test_option_is_documented() -> None:
    options = [(command, option) for command in COMMANDS for option in _options(command)]
    assert len(options) > 300
    assert [pair for pair in options if not _is_documented(*pair)] == []


def test_every_documented_option_exists() -> None:
    known = {option for command in COMMANDS for option in _options(command)} | {"--help", "--version"}
    assert set(re.findall(r"`(--?[a-zA-Z][a-z-]*)", PAGE)) <= known


def test_foreign_setting_is_documented() -> None:
    for name, (ours, *_) in FOREIGN.items():
        rows = [line for line in FOREIGN_PAGE.splitlines() if line.startswith("| ") and f"`{name}`" in line]
        assert [f"`{ours}`" in row for row in rows] == [True], name


def test_foreign_settings_without_a_counterpart_are_documented() -> None:
    names = {*SWITCHES, *TOGETHER, *COUNTERPARTS, *(f"{prefix}…" for prefix, _ in FAMILIES)}
    assert [name for name in names if not re.search(rf"^\| .*`{name}`.* \| ", FOREIGN_PAGE, re.MULTILINE)] == []


def test_what_scrapy_gives_a_meaning_is_documented() -> None:
    names = {*META, *REFUSED, *WARNED, *WARNED_METHODS, *SETTINGS}
    assert [name for name in names if not re.search(rf"^\| .*`{name}`.* \| ", SCRAPY_PAGE, re.MULTILINE)] == []


def test_settings_of_scrapy_stand_in_the_table_that_says_whether_they_are_read() -> None:
    read, not_read = (
        SCRAPY_PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0].split("have no corresponding setting")
    )
    table = "\n".join(line.split("|")[1] for line in read.splitlines() if line.startswith("|"))
    assert {name for name in re.findall(r"`([A-Z_]+)`", table) if name in COUNTERPARTS} == set()
    table = "\n".join(line.split("|")[1] for line in not_read.splitlines() if line.startswith("|"))
    assert {name for name in re.findall(r"`([A-Z_]+)`", table) if name in {*FOREIGN, *SWITCHES, *TOGETHER}} == set()
