"""The generated parts of docs/reference/cli.md: the table of commands, and usage, options and examples of each command.

The page is a mixture: what stands between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->`` is made from the
parsers, and everything else is written by hand.
"""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from pathlib import Path

from skitter.cli import COMMAND_GROUPS, COMMANDS
from skitter.cli.arguments import Parser

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
BLOCK = re.compile(r"(<!-- begin: ([a-z]+) -->\n).*?(<!-- end: \2 -->\n)", re.DOTALL)
OVERVIEW = "commands"
LINKS = {
    "--cache": "../how-to/cache.md",
    "--config": "foreign-settings.md",
    "--coordinator": "../how-to/coordinator.md",
    "--events": "../how-to/publish-events.md",
    "--every-job": "../how-to/fleets.md",
    "--intake": "../how-to/intakes.md",
    "--log": "../how-to/log-files.md",
    "--metrics": "metrics.md",
    "--output": "../how-to/outputs.md",
    "--proxies": "../how-to/proxies.md",
    "--recrawl": "../how-to/recrawl.md",
    "--set": "settings.md",
    "--sitemap": "../how-to/sitemaps.md",
    "--token-file": "../how-to/masters.md#tokens-and-roles",
    "--users": "../how-to/access.md",
    "--allow-submit": "../how-to/masters.md#new-work-from-operators",
}
"""Where more about an option is."""


def page() -> str:
    """Return the page with all its generated parts anew; SystemExit if a command has none."""
    text = PAGE.read_text(encoding="utf-8")
    missing = {*COMMANDS, OVERVIEW} - {name for _, name, _ in BLOCK.findall(text)}
    if missing:
        raise SystemExit(f"error: {PAGE.name} has no <!-- begin: … --> for: {', '.join(sorted(missing))}")
    return BLOCK.sub(lambda found: f"{found[1]}\n{_generated(found[2])}\n{found[3]}", text)


def _generated(name: str) -> str:
    return _overview() if name == OVERVIEW else _command(name)


def parser_of(command: str) -> Parser:
    parser = Parser(prog=f"skitter {command}", description=COMMANDS[command])
    import_module(f"skitter.cli.{command}").configure(parser)
    return parser


def _overview() -> str:
    lines = []
    for title, commands in COMMAND_GROUPS.items():
        lines += [f"**{title}**", "", "| command | |", "| --- | --- |"]
        lines += [f"| [`{name}`](#{_anchor(name)}) | {summary} |" for name, summary in commands.items()]
        lines.append("")
    return "\n".join(lines)


def _anchor(command: str) -> str:
    return "pause-resume-stop" if command in ("pause", "resume", "stop") else command


def _command(name: str) -> str:
    parser = parser_of(name)
    usages = str(parser.usage).replace("\n       ", "\n")
    lines = [" ".join(str(parser.description).split()), "", "```text", usages, "```", "", *_tables(name, parser)]
    lines += ["<!-- not run: examples of options -->", "```bash"]
    for example, purpose in parser.examples:
        lines += [f"# {purpose}", example]
    return "\n".join([*lines, "```", ""])


def _tables(name: str, parser: Parser) -> list[str]:
    """A table for each group. Options that are the same for crawl, or for all commands, are only named."""
    common = _rows(parser_of("pause"))
    of_crawl = {} if name == "crawl" else _rows(parser_of("crawl"))
    lines, shared = [], []
    for group in parser.option_groups():
        rows, as_for_crawl = [], []
        for action in group._group_actions:  # noqa: SLF001  argparse has no other way to tell them
            row = _row(action)
            if action.dest == "help":
                continue
            if action.option_strings and name != "crawl" and common.get(row[0]) == row[1]:
                shared.append(row[0])
            elif action.option_strings and of_crawl.get(row[0]) == row[1]:
                as_for_crawl.append(row[0])
            else:
                rows.append(f"| {row[0]} | {row[1]} |")
        if as_for_crawl:
            rows.append(f"| {', '.join(as_for_crawl)} | as for [`crawl`](#crawl) |")
        if rows:
            lines += [f"**{group.title}**", "", f"| {_header(group)} | |", "| --- | --- |", *rows, ""]
    return [*lines, f"[Common options](#common-options): {', '.join(shared)}.", ""] if shared else lines


def _header(group: argparse._ArgumentGroup) -> str:
    return "argument" if group.title == "Arguments" else "option"


def _rows(parser: Parser) -> dict[str, str]:
    return dict(_row(action) for action in parser._actions)  # noqa: SLF001


def _row(action: argparse.Action) -> tuple[str, str]:
    value = "" if action.nargs == 0 else str(action.metavar or "|".join(map(str, action.choices or [])))
    shown = f" [{value}]" if action.nargs == "?" and action.option_strings else f" {value}"
    names = action.option_strings or [""]
    first = ", ".join(f"`{(name + shown if value else name).strip()}`" for name in names)
    link = next((f" ([more]({LINKS[name]}))" for name in names if name in LINKS), "")
    text = (action.help or "").replace("%%", "%").replace("*", "\\*")
    return first.replace("|", "\\|"), f"{text}{link}".replace("|", "\\|")
