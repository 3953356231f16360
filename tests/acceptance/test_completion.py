"""``skitter completion``: in a real bash, and in zsh and fish where they are installed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from skitter.testing.command_line import COMMANDS

ASK = """
source completion
ask() { COMP_WORDS=(skitter "$@"); COMP_CWORD=$#; _skitter; printf '%s;' "${COMPREPLY[@]}"; echo; }
"""


@pytest.fixture
def project(skitter: Any) -> Any:
    """A folder with a spider, two jobs and a page, and ``skitter`` on the path."""
    skitter.write("spiders/books.py", 'from skitter import Spider\nclass Books(Spider):\n    name = "books"\n')
    for name in ("a", "b.example"):
        skitter.write(f".skitter/{name}.db", "")
    skitter.write("page.html", "")
    skitter.write("bin/skitter", f'#!/bin/sh\nexec {sys.executable} -m skitter "$@"\n')
    (skitter.folder / "bin" / "skitter").chmod(0o700)
    return skitter


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb"}


def test_bash_completes_commands_options_and_values(project: Any) -> None:
    (project.folder / "completion").write_text(project.run("completion", "bash").stdout)
    cases = {
        "cra": "crawl",
        "": ";".join(COMMANDS),
        "crawl --max-": "--max-pages;--max-depth",
        "crawl b": "bin;books",
        "status --job ''": "a;b.example",
        "failed --class dns --job ''": "a;b.example",
        "failed --class dns ''": "a;b.example",
        "hosts ''": "a;b.example;give-up;list;pause;resume",
        "hosts a ''": "give-up;list;pause;resume",
        "sessions export p": "page.html",
        "set a delay": "delay_seconds=",
        "worker b": "b.example;bin;books",
        "crawl --log-format ''": "text;json",
        "new ''": "project;spider",
        "new project ''": "",
        "schedule re": "resume;remove",
        "crawl --set delay": "delay_seconds=",
        "set delay": "delay_seconds=",
        "shell p": "page.html",
        "crawl --cache s": "spiders",
        "parse https://a.example/ --spider b": "bin;books",
        "completion ''": "bash;zsh;fish",
        "nonsense ''": "",
    }
    script = ASK + "\n".join(f"ask {words or chr(39) * 2}" for words in cases)
    ended = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=project.folder,
        env=environment(project.folder),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert ended.stderr == ""
    answers = [line.strip(";") for line in ended.stdout.splitlines()]
    found = {words: sorted(line.split(";")) for words, line in zip(cases, answers, strict=True)}
    assert found == {words: sorted(line.split(";")) for words, line in cases.items()}


def test_a_tab_completes_at_the_prompt_of_bash(project: Any) -> None:
    (project.folder / "completion").write_text(project.run("completion", "bash").stdout)
    ours, theirs = pty.openpty()
    command = ["bash", "--norc", "--noprofile", "-i"]
    process = subprocess.Popen(
        command,
        cwd=project.folder,
        env=environment(project.folder),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, b"source completion && echo READ''Y\n")
    assert _read_until(ours, b"READY")
    os.write(ours, b"skitter sett\t")
    assert _read_until(ours, b"skitter settings ")
    process.kill()
    process.wait()
    os.close(ours)


def _read_until(descriptor: int, text: bytes) -> bool:
    written = b""
    while text not in written and select.select([descriptor], [], [], HANG_SECONDS)[0]:
        written += os.read(descriptor, 65536)
    return text in written


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_one_of_the_shell(skitter: Any, shell: str) -> None:
    script = skitter.run("completion", shell).stdout
    assert all(command in script for command in COMMANDS)
    assert "--max-pages" in script if shell == "zsh" else "-l max-pages" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, timeout=HANG_SECONDS, check=True)
