"""Whatever is typed is answered in words, with the exit code that was promised."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from skitter import __version__
from skitter.cli import COMMANDS
from skitter.errors import FrontierError, SettingsError


def test_help_lists_every_command(skitter) -> None:
    said = skitter("--help")
    assert said.code == 0
    assert said.err == ""
    assert all(f"  {name} " in said.out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(skitter, command) -> None:
    said = skitter(command, "--help")
    assert said.code == 0
    assert said.out.startswith(f"usage: skitter {command}")


def test_version(skitter) -> None:
    assert skitter("--version").out == f"skitter {__version__}\n"


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ([], "error: no command given", "skitter --help"),
        (["crwal"], "error: no such command: crwal", "did you mean crawl ?"),
        (["--job", "x"], "error: the command comes first: --job", "skitter COMMAND"),
        (["https://a.example/"], "error: no such command: https://a.example/", "skitter crawl https://a.example/"),
        (["crawl", "https://a.example/", "--max-pagse", "3"], "error: no such option: --max-pagse", "--max-pages ?"),
        (["crawl", "https://a.example/", "--max-pagse=3"], "error: no such option: --max-pagse", "--max-pages ?"),
        (["status", "--jsn"], "error: no such option: --jsn", "did you mean --json ?"),
        (["status", "books"], "error: unexpected argument: books", "usage: skitter status"),
        (["crawl", "-o"], "error: argument -o/--output: expected one argument", "skitter crawl --help"),
        (["crawl", "https://a.example/", "--job"], "error: argument --job: expected one argument", "--help"),
    ],
)
def test_a_mistake_is_a_usage_error_with_a_hint(skitter, words, error, hint) -> None:
    code, out, err = skitter(*words)
    first, second = err.splitlines()[:2]
    assert code == 2
    assert out == ""
    assert first == error
    assert second.startswith("hint: ")
    assert hint in second


@pytest.mark.parametrize(
    "asked", [["--log-format", "json"], ["--log-format=json"], ["--set", "log_format=json"], ["--log", "-"]]
)
@pytest.mark.parametrize("wrong", [["--max-pagse", "3"], ["--max-pages", "many"], ["--job", "a/b"]])
def test_a_mistake_before_a_crawl_begins_is_one_line_of_json_where_json_was_asked_for(
    skitter, monkeypatch, asked, wrong
) -> None:
    if "--log" in asked:
        monkeypatch.setenv("SKITTER_LOG_FORMAT", "json")
    code, out, err = skitter("crawl", "https://a.example/", *wrong, *asked)
    (line,) = err.splitlines()
    told = json.loads(line)
    assert (code, out) == (2, "")
    assert (told["event"], told["level"], told["exit_code"]) == ("command.failed", "error", 2)
    assert told["error"]
    assert told["hint"]


def test_a_mistake_is_text_where_json_goes_to_a_file(skitter) -> None:
    asked = ("--log", "events.jsonl", "--log-format", "json")
    assert skitter("crawl", "https://a.example/", "--max-pagse", 3, *asked).err.startswith("error: no such option")


def test_options_are_never_abbreviated(skitter) -> None:
    assert "no such option: --max-page" in skitter("crawl", "https://a.example/", "--max-page", 3).err


@pytest.mark.parametrize(
    ("error", "code"), [(SettingsError("bad", hint="mend it"), 2), (FrontierError("unavailable", hint="start it"), 3)]
)
def test_the_error_decides_the_exit_code(skitter, fake_app, error, code) -> None:
    fake_app.answer = error
    said = skitter("crawl", "https://a.example/", "-q")
    assert said.code == code
    assert said.err == f"error: {error}\nhint: {error.hint}\n"


def test_an_error_among_failed_tasks_is_found(skitter, fake_app) -> None:
    fake_app.answer = ExceptionGroup(
        "tasks", [ValueError("noise"), ExceptionGroup("more", [FrontierError("unavailable")])]
    )
    said = skitter("crawl", "https://a.example/", "-q")
    assert (said.code, said.err) == (3, "error: unavailable\n")


def test_the_unexpected_has_no_traceback_and_says_how_to_get_one(skitter, fake_app) -> None:
    fake_app.answer = ZeroDivisionError("oh \x1b[2Jdear")
    said = skitter("crawl", "https://a.example/", "-q")
    assert said.code == 1
    assert said.err.splitlines() == [
        "error: ZeroDivisionError: oh [2Jdear",
        "hint: run the same command with -v for the details",
    ]


def test_verbose_shows_the_traceback(skitter, fake_app) -> None:
    fake_app.answer = ZeroDivisionError("oh")
    assert "Traceback (most recent call last)" in skitter("crawl", "https://a.example/", "-v").err


def test_ctrl_c_is_130(skitter, fake_app) -> None:
    fake_app.answer = KeyboardInterrupt()
    said = skitter("crawl", "https://a.example/", "-q")
    assert (said.code, said.err) == (130, "")


def test_a_reader_that_has_gone_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "skitter", "--help"], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")
