"""The tutorials, command by command, in an empty folder: a spider with tests, and a cluster that loses a node."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from rig.processes import HANG_SECONDS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "tutorial"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BOOKS = 200


class Tutorial:
    """Runs the commands of a page in its folder, with the site and the Redis of the test in place of those it names."""

    def __init__(self, folder: Path, page: str, replaced: dict[str, str]) -> None:
        self.folder = folder
        self._text = (PAGES / page).read_text(encoding="utf-8")
        self._replaced = replaced
        (folder / "bin").mkdir()
        for name in ("skitter", "pytest"):
            (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {name} "$@"\n')
            (folder / "bin" / name).chmod(0o700)
        self._environment = os.environ | {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            # The plugins of this project take longer to load than the tests there take.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        self.printed: list[tuple[str, str]] = []
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def steps(self) -> list[tuple[str, str]]:
        """Files to write, as (name, text), and commands, as ("", command)."""
        found: list[tuple[str, str]] = []
        for kind, block in BLOCK.findall(self._text):
            if kind == "python":
                found.append((block.partition("\n")[0].removeprefix("# "), self.fitted(block)))
            elif kind == "bash":
                found += [("", command) for command in block.splitlines()]
        return found

    def fitted(self, text: str) -> str:
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def start(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self.fitted(command)}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, command: str) -> None:
        if command.startswith("cd "):
            self.folder /= command[3:]
            return
        self.end(command, self.start(command))

    def end(self, command: str, process: subprocess.Popen[str], before: str = "") -> None:
        out, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, f"{command}\n{out}\n{err}"
        self.printed.append((command, before + out))

    def answers(self, beginning: str) -> list[str]:
        return [out for command, out in self.printed if command.startswith(beginning)]

    def lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]


@pytest.fixture
def shop(skitter: Any) -> Iterator[str]:
    """The address of the demo site, without the slash at its end."""
    process = skitter.start("demo", "--bind", "127.0.0.1:0")
    try:
        yield process.stdout.readline().strip().rstrip("/")
    finally:
        process.terminate()
        process.communicate()


# tests/docs runs the same commands; what they print is compared here.
@pytest.mark.soak
def test_first_spider_leads_from_an_empty_folder_to_a_tested_spider_and_its_books(tmp_path: Path, shop: str) -> None:
    with Tutorial(tmp_path, "first-spider.md", {"http://127.0.0.1:8600": shop}) as tutorial:
        for name, text in tutorial.steps():
            if name:
                assert (tutorial.folder / name).exists(), "what the tutorial changes is there"
                (tutorial.folder / name).write_text(text)
            elif text != "skitter shell http://127.0.0.1:8600/":  # a prompt, without -c
                tutorial.run(text)

    assert tutorial.answers("skitter list") == ["shop  spiders/shop.py:Shop  Pages of 127.0.0.1.\n"]
    (links,) = tutorial.answers("skitter shell")
    assert links.startswith("['/books/1.html', '/books/2.html'")
    assert tutorial.answers("skitter check")[0] == "ok: spiders/shop.py:Shop\n"
    seeds, book = tutorial.answers("skitter parse")
    assert f"GET {shop}/books/1.html parse_book" in seeds
    assert '"title": "The Wide Clock"' in book
    assert ["2 passed" in out for out in tutorial.answers("pytest")] == [True, True]
    (settings,) = tutorial.answers("skitter settings")
    assert re.search(r"^delay_seconds +0\.5 +project: skitter\.toml$", settings, re.MULTILINE)
    (status,) = tutorial.answers("skitter status")
    assert f"{BOOKS + 10} responses from the cache" in status
    assert len({item["url"] for item in tutorial.lines("shop.jsonl")}) == len(tutorial.lines("shop.jsonl")) == BOOKS
    assert tutorial.answers("head -3 shop.csv")[0].startswith("url,title,author,price\n")


def test_first_cluster_finishes_after_one_of_its_nodes_was_killed(
    tmp_path: Path, shop: str, skitter: Any, services: Any, until: Any
) -> None:
    redis, job = services.need("redis")["url"], f"shop-{os.getpid()}"
    # Other tests use the same Redis: the job has a name of its own there.
    replaced = {
        "http://127.0.0.1:8600": shop,
        "status shop": f"status {job}",
        "worker shop": f"worker {job}",
        "-O books.jsonl": f"-O books.jsonl --job {job}",
        "redis://127.0.0.1:6379": redis,
    }
    with Tutorial(tmp_path, "first-cluster.md", replaced) as tutorial:
        steps = tutorial.steps()
        commands = [text for name, text in steps if not name]
        for name, text in steps:
            if name:
                (tmp_path / name).write_text(text)
        check, crawl, worker, watch = (
            next(command for command in commands if command.startswith(f"skitter {name}"))
            for name in ("check", "crawl", "worker", "status")
        )
        tutorial.run(check)
        first = tutorial.start(crawl)
        until(lambda: job in skitter.run("jobs", "--frontier", redis).stdout, first)
        second, watching = tutorial.start(worker), tutorial.start(watch)
        seen = _read_until(watching, "workers   2")

        (kill,) = (command for command in commands if command.startswith("pkill -9 -f "))
        assert kill.removeprefix("pkill -9 -f ").strip("'") in worker
        second.send_signal(signal.SIGKILL)
        second.communicate()
        # A reader waits for more than a minute here.
        skitter.run("set", "delay_seconds=0", "--frontier", redis, "--job", job)
        tutorial.end(crawl, first)
        tutorial.end(watch, watching, seen)

        assert "state     finished" in tutorial.answers("skitter status")[0]
        for command in commands[commands.index("wc -l books.jsonl") :]:
            tutorial.run(command)
        assert tutorial.answers("wc -l books.jsonl") == [f"{BOOKS} books.jsonl\n"]
        assert tutorial.answers("sort books.jsonl") == [""]


def _read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    seen = ""
    while text not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    return seen
