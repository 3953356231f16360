"""The tutorial "first project", command by command: from an empty folder to a crawl on Redis with two nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "first-project.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTS, BOOKS = 3, 3
TITLES = sorted(f"Book {number}" for number in range(1, LISTS * BOOKS + 1))


class Shop:
    """Lists of books, each with a link to the next, and a page for each book, of which one can be held back."""

    def __init__(self, site: Any) -> None:
        self.may_end = threading.Event()
        self.may_end.set()
        for number in range(1, LISTS + 1):
            books = range(BOOKS * (number - 1) + 1, BOOKS * number + 1)
            items = "".join(f"<article><h3><a href='/book/{book}'>{book}</a></h3></article>" for book in books)
            following = f"<li class=next><a href='/list/{number + 1}'>next</a></li>" if number < LISTS else ""
            site.page("/" if number == 1 else f"/list/{number}", items + following)
        for book in range(1, BOOKS * LISTS + 1):
            site.page(f"/book/{book}", f"<h1>Book {book}</h1><p class=price>{book}.00</p>")
        held = site.answers["/book/2"]

        def answer(*_: object) -> Any:
            self.may_end.wait(25)
            return held

        site.on("/book/2", answer)


class Tutorial:
    """Runs the commands of the page in its folder, with this site and this Redis in place of those that it names."""

    def __init__(self, folder: Path, replaced: dict[str, str], job: str) -> None:
        self.folder = folder
        self.job = job
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

    def steps(self) -> list[tuple[str, str]]:
        """Files to write, as (name, text), and commands, as ("", command)."""
        found: list[tuple[str, str]] = []
        for kind, block in BLOCK.findall(PAGE.read_text()):
            if kind == "python":
                found.append((block.partition("\n")[0].removeprefix("# "), self._fitted(block)))
            elif not kind:
                found += [("", command) for command in block.splitlines()]
        return found

    def _fitted(self, text: str) -> str:
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def start(self, command: str) -> subprocess.Popen[str]:
        # Other tests use the same Redis: the job has a name of its own there.
        fitted = re.sub(r"--job shop(?= --frontier)", f"--job {self.job}", self._fitted(command))
        fitted = fitted.replace("-o books.jsonl", f"-o books.jsonl --job {self.job}")
        return subprocess.Popen(
            ["bash", "-c", f"exec {fitted}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str) -> None:
        if command.startswith("cd "):
            self.folder /= command[3:]
            return
        self.end(command, self.start(command))

    def end(self, command: str, process: subprocess.Popen[str], before: str = "") -> None:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, f"{command}\n{out}\n{err}"
        self.printed.append((command, before + out))

    def answers(self, beginning: str) -> list[str]:
        return [out for command, out in self.printed if command.startswith(beginning)]


@pytest.fixture
def tutorial(tmp_path: Path, site: Any, services: Any) -> Tutorial:
    replaced = {
        "https://books.example": site.base,
        "books.example": "127.0.0.1",
        "redis://127.0.0.1:6379": services.need("redis")["url"],
    }
    return Tutorial(tmp_path, replaced, f"shop-{os.getpid()}-{site.base.rpartition(':')[2]}")


def test_the_commands_of_the_tutorial_lead_to_a_crawl_with_two_nodes(
    skitter: Any, site: Any, services: Any, until: Any, tutorial: Tutorial
) -> None:
    shop, place = Shop(site), ("--frontier", services.need("redis")["url"])
    nodes: dict[str, subprocess.Popen[str]] = {}
    for name, text in tutorial.steps():
        if name:
            assert (tutorial.folder / name).exists(), "what the tutorial changes is there"
            (tutorial.folder / name).write_text(text)
        elif "--frontier" not in text or "--connect" in text:
            tutorial.run(text)
        elif "--watch" in text:
            _watch_until_two_workers(tutorial, text, shop)
        else:
            shop.may_end.clear()
            node = nodes[text] = tutorial.start(text)
            # A person who types the next command comes after the job has begun.
            until(lambda: tutorial.job in skitter.run("jobs", *place).stdout, node)
    for command, node in nodes.items():
        tutorial.end(command, node)
    assert len(nodes) == 2

    assert tutorial.answers("skitter list") == ["shop  spiders/shop.py:Shop  Pages of 127.0.0.1.\n"]
    assert tutorial.answers("skitter shell https://books.example/ -c")[0].startswith("['/book/1', '/book/2'")
    assert tutorial.answers("skitter check")[0] == "ok: spiders/shop.py:Shop\n"
    seeds, book = tutorial.answers("skitter parse")
    assert f"GET {site.url('/book/1')} parse_book" in seeds
    assert '"title": "Book 1"' in book
    assert ["2 passed" in out for out in tutorial.answers("pytest")] == [True, True]
    (settings,) = tutorial.answers("skitter settings")
    assert re.search(r"^delay_seconds +0\.5 +project: skitter\.toml$", settings, re.MULTILINE)
    status, watched = tutorial.answers("skitter status")
    assert f"{LISTS * BOOKS + LISTS} answers from a cache" in status
    assert "state     finished" in watched
    for name in ("shop.jsonl", "books.jsonl"):
        items = [json.loads(line) for line in (tutorial.folder / name).read_text().splitlines()]
        assert sorted(item["title"] for item in items) == TITLES


def _watch_until_two_workers(tutorial: Tutorial, command: str, shop: Shop) -> None:
    """The job cannot end before both nodes were seen at it."""
    process = tutorial.start(command)
    assert process.stdout is not None
    seen = ""
    while "workers   2\n" not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    shop.may_end.set()
    tutorial.end(command, process, seen)
