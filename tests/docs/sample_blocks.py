"""Fenced code blocks of the documentation: how they are found, and what can be checked without running them.

The language of a block says what happens to it. ``python``, ``bash`` and ``toml`` are run or parsed (see
``sample_runner``), ``text``, ``pycon`` and other data are shown only. HTML comments directly above a block change it:

<!-- not run: REASON -->    not executed; its ``skitter`` lines are still parsed by the real argument parser
<!-- needs: redis -->       runs with a private server in place of redis://127.0.0.1:6379
<!-- fails -->              its exit status must not be 0
<!-- signature -->          python: a signature in a generated page
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import yaml

from skitter.cli import COMMANDS, RENAMED
from skitter.cli.arguments import Parser
from skitter.errors import SkitterError

EXECUTED = {"python", "bash"}
PARSED = {"toml", "json", "yaml"}
SHOWN = {
    "text",
    "pycon",
    "css",
    "csv",
    "diff",
    "dockerfile",
    "html",
    "http",
    "ini",
    "javascript",
    "nginx",
    "sql",
    "xml",
}
SERVERS = {"redis": "redis://127.0.0.1:6379"}
"""What ``needs`` may name, and the address that a block has for it."""

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[^\s`]*)[^\n]*$")
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->")
_FILE = re.compile(r"(?:#|//|--) ((?:[\w.-]+/)*[\w-]*\.[\w.]+)")
_OPERATORS = set("();<>|&")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block."""

    line: int
    """Of its fence, from 1 on."""
    language: str
    code: str
    marks: dict[str, str] = field(default_factory=dict)
    """The comments above it: the word before the colon, and what follows it."""

    @property
    def file(self) -> str:
        """The file that the block is, by its first line; empty: none."""
        match = _FILE.fullmatch(self.code.partition("\n")[0].strip())
        return match[1] if match and self.language != "bash" else ""

    @property
    def is_run(self) -> bool:
        return self.language in EXECUTED and not {"not run", "signature"} & self.marks.keys()


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks of a page, in order; one that does not end reaches to the end of the page."""
    lines = text.splitlines()
    found = []
    place = 0
    while place < len(lines):
        opened = _FENCE.match(lines[place])
        if opened is None:
            place += 1
            continue
        end = place + 1
        while end < len(lines) and lines[end].strip() != opened["fence"]:
            end += 1
        code = textwrap.dedent("\n".join(lines[place + 1 : end]) + "\n")
        found.append(
            Block(line=place + 1, language=opened["language"], code=code, marks=dict(_marks_above(lines, place)))
        )
        place = end + 1
    return found


def _marks_above(lines: list[str], place: int) -> Iterator[tuple[str, str]]:
    above = place - 1
    while above >= 0 and (match := _COMMENT.fullmatch(lines[above].strip())):
        name, _, value = match[1].partition(":")
        yield name.strip(), value.strip()
        above -= 1


def violations(text: str) -> list[str]:
    """``line: reason`` for each block that breaks a rule which can be checked without running it."""
    return [f"{block.line}: {reason}" for block in blocks_of(text) for reason in _flaws(block)]


def _flaws(block: Block) -> Iterator[str]:
    if not block.language:
        yield "a block without a language: write ```python, ```bash, ```toml or, for output, ```text"
        return
    if block.language not in EXECUTED | PARSED | SHOWN:
        yield f"a language that the documentation does not use: {block.language}"
        return
    yield from _wrong_marks(block)
    if flaw := _syntax_error(block):
        yield flaw
    if block.language == "bash" and not block.is_run:
        yield from wrong_commands(block.code)
    if block.language == "text":
        yield from wrong_commands("".join(f"{line[2:]}\n" for line in _prompted(block.code)))


def _prompted(code: str) -> Iterator[str]:
    """Lines of output that show a typed command, with the lines that continue it."""
    is_continued = False
    for line in code.splitlines():
        if line.startswith("$ ") or is_continued:
            yield line if line.startswith("$ ") else f"  {line}"
            is_continued = line.endswith("\\")


def _wrong_marks(block: Block) -> Iterator[str]:
    for name, value in block.marks.items():
        if name == "not run" and not value:
            yield "not run needs a reason: <!-- not run: REASON -->"
        if name == "needs" and (unknown := {word.strip() for word in value.split(",")} - SERVERS.keys()):
            yield f"needs names a server that the tests do not have: {', '.join(sorted(unknown))}"
        if name in ("not run", "needs", "fails", "signature") and block.language not in EXECUTED | {"toml"}:
            yield f"<!-- {name} --> stands above a block that is never run: {block.language}"
    if block.is_run:
        for name, address in SERVERS.items():
            if address in block.code and name not in block.marks.get("needs", ""):
                yield f"the block uses {address}: write <!-- needs: {name} --> above it"


def _syntax_error(block: Block) -> str:
    try:
        if block.language == "python" and "signature" in block.marks:
            ast.parse(f"def {block.code[block.code.index('(') - 1 :].strip()}: ...".replace("def ", "def f", 1))
        elif block.language == "python":
            compile(block.code, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        elif block.language == "toml":
            tomllib.loads(block.code)
        elif block.language == "json":
            _parse_json(block.code)
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.code))
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return f"not {block.language}: {error}"
    return ""


def _parse_json(text: str) -> None:
    """One value, or one a line."""
    try:
        json.loads(text)
    except ValueError:
        for line in filter(None, text.splitlines()):
            json.loads(line)


# ---- commands


def wrong_commands(script: str) -> Iterator[str]:
    """What the argument parser says about the ``skitter`` commands of a script that is not run."""
    for words in commands_of(script):
        if error := _parse_error(words):
            yield f"skitter {' '.join(words)}: {error}"


def commands_of(script: str) -> Iterator[list[str]]:
    """The arguments of each ``skitter`` command in a script, also behind other words (sudo, docker run)."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quotation of several lines: a program in it, or a JSON body
        for command in _split_at_operators(words):
            place = next((number for number, word in enumerate(command) if Path(word).name == "skitter"), None)
            if place is None:
                continue
            arguments = command[place + 1 :]
            is_first = all("=" in word for word in command[:place])
            if is_first or (arguments and RENAMED.get(arguments[0], arguments[0]) in COMMANDS):
                yield arguments


def _split_at_operators(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    is_redirection = False
    for word in words:
        if set(word) <= _OPERATORS and word:
            is_redirection = "<" in word or ">" in word
            if is_redirection:
                if command and command[-1] in ("1", "2"):
                    command.pop()
                continue
            yield command
            command = []
        elif is_redirection:
            is_redirection = False
        else:
            command.append(word)
    yield command


def _parse_error(words: list[str]) -> str:
    if not words or words[0] in ("--help", "--version", "-h", "help"):
        return ""
    name, *arguments = words
    name = RENAMED.get(name, name)
    if name not in COMMANDS:
        return "no such command"
    parser = Parser(prog=f"skitter {name}", description="")
    import_module(f"skitter.cli.{name}").configure(parser)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            parser.parse(arguments)
    except SkitterError as error:
        return f"{error} ({error.hint})" if error.hint else str(error)
    except SystemExit:  # --help
        return ""
    return ""
