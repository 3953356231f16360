"""A package that skitter does not know brings a frontier, a fetcher, a sink and an intake, and a crawl uses them."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).with_name("third_party")
SEED = "http://tiny.example/"
URLS = {SEED, *(f"{SEED}{number}" for number in range(1, 40))}


def install(package: Path, site: Path) -> None:
    """Leave a package as pip does, without pip: its modules, and a folder that says what it offers."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    site.mkdir()
    for module in package.glob("*.py"):
        shutil.copy(module, site)
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    metadata = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
    (info / "METADATA").write_text("".join(f"{name}: {value}\n" for name, value in metadata.items()))
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items()) for group, found in groups
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


class Tiny:
    """The command line, in an environment where the package is installed."""

    def __init__(self, skitter: Any) -> None:
        self.skitter = skitter
        self.calls = skitter.folder / "calls"
        self._environment = os.environ | {
            "PYTHONPATH": str(skitter.folder / "site"),
            "TINY_CALLS": str(self.calls),
            "SKITTER_FETCHER": "tiny",
            # Its pages are on a public host, which gets two of them a second otherwise.
            "SKITTER_DELAY_SECONDS": "0",
        }
        install(PACKAGE, skitter.folder / "site")

    def run(self, *words: object, **options: Any) -> Any:
        return self.skitter.run(*words, **{"env": self._environment} | options)

    def noted(self, what: str) -> Counter[str]:
        """How often each was called."""
        return Counter(name for kind, name, _ in self._lines() if kind == what)

    def processes(self, what: str) -> set[str]:
        return {process for kind, _, process in self._lines() if kind == what}

    def _lines(self) -> list[list[str]]:
        return [line.split(" ") for line in self.calls.read_text().splitlines()]


@pytest.fixture
def tiny(skitter: Any) -> Tiny:
    return Tiny(skitter)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crawl_with_parts_of_another_package(tiny: Tiny, workers: int) -> None:
    tiny.run("crawl", SEED, "--frontier", "tiny:jobs.db", "--job", "j", "-o", "out.jsonl", "--workers", workers)
    assert Counter(record["url"] for record in tiny.skitter.lines("out.jsonl")) == Counter(URLS)
    # Each page once, by the fetcher that the setting names, in worker processes.
    assert {f"{SEED[:-1]}{path}": count for path, count in tiny.noted("fetch").items()} == dict.fromkeys(URLS, 1)
    assert tiny.noted("fetcher") == {"tiny": workers, "close": workers}
    assert len(tiny.processes("fetcher")) == workers
    # The node opens the frontier, and each worker the same one by the same URL.
    calls = tiny.noted("frontier")
    assert calls["begin"] == 1
    assert calls["commit"] >= 1
    assert calls["lease"] + calls["commit"] >= len(URLS) / 64
    assert len(tiny.processes("open")) == 1 + workers
    assert tiny.noted("open")["patient"] >= workers


def test_commands_open_the_frontier_by_its_url(tiny: Tiny) -> None:
    crawl = tiny.run("crawl", SEED, "--frontier", "tiny:jobs.db", "--job", "j")
    assert "tiny:jobs.db" in crawl.stderr
    at = ["--frontier", "tiny:jobs.db"]
    assert "finished" in tiny.run("status", *at, "--job", "j").stdout
    assert "j" in tiny.run("jobs", *at).stdout.split()
    tiny.run("drop", *at, "--job", "j")
    assert "j" not in tiny.run("jobs", *at, code=None).stdout.split()


def test_a_frontier_that_is_not_shared_works_in_the_process_of_the_crawl(tiny: Tiny) -> None:
    tiny.run("crawl", SEED, "--frontier", "tiny-alone:jobs.db", "--job", "j", "-o", "out.jsonl")
    assert {record["url"] for record in tiny.skitter.lines("out.jsonl")} == URLS
    assert tiny.processes("fetch") == tiny.processes("open")
    refused = tiny.run("crawl", SEED, "--frontier", "tiny-alone:x.db", "--workers", 2, code=2)
    assert "error: one process only: --frontier tiny-alone:x.db with 2 workers" in refused.stderr


@pytest.mark.parametrize(("words", "what"), [(["jobs"], "listing jobs"), (["drop", "--job", "j"], "dropping a job")])
def test_what_a_frontier_cannot_do_is_said(tiny: Tiny, words: list[str], what: str) -> None:
    tiny.run("crawl", SEED, "--frontier", "tiny-alone:jobs.db", "--job", "j")
    refused = tiny.run(*words, "--frontier", "tiny-alone:jobs.db", code=2)
    assert f"error: not supported by this frontier: {what}: tiny-alone:jobs.db" in refused.stderr
    assert "hint: " in refused.stderr


def test_a_sink_of_another_package_gets_every_item(tiny: Tiny) -> None:
    tiny.run("crawl", SEED, "-o", "tiny:lines.jsonl")
    assert {record["url"] for record in tiny.skitter.lines("lines.jsonl")} == URLS


def test_an_intake_of_another_package_brings_requests(tiny: Tiny) -> None:
    tiny.run("crawl", "--intake", "tiny:numbers?pages=40", "--job", "j", "-o", "out.jsonl")
    assert {record["url"] for record in tiny.skitter.lines("out.jsonl")} == URLS - {SEED}
    assert tiny.noted("dead-letter") == {"nonsense": 1}
    assert tiny.noted("intake") == {"open": 1, "close": 1}
    refused = tiny.run("crawl", "--intake", "tiny-broken:x", code=2)
    assert "error: an intake cannot be used: tiny-broken" in refused.stderr
    assert "it has no open, read" in refused.stderr
    unknown = tiny.run("crawl", "--intake", "teeny:x", code=2)
    assert "tiny" in unknown.stderr.partition("hint:")[2]


def test_a_fetcher_that_nobody_has_is_an_error_that_lists_the_others(tiny: Tiny) -> None:
    refused = tiny.run("crawl", SEED, "--set", "fetcher=curly", code=2)
    assert "error: no such fetcher: curly" in refused.stderr
    assert "installed: curl, tiny" in refused.stderr
    assert not (tiny.skitter.folder / ".skitter").exists()


def test_a_worker_without_the_package_says_what_is_missing(tiny: Tiny) -> None:
    tiny.run("crawl", SEED, "--frontier", "sqlite:jobs.db", "--job", "j", "--max-pages", 1)
    tiny.run("resume", "--frontier", "sqlite:jobs.db", "--job", "j", code=None)
    alone = tiny.run("worker", "--frontier", "sqlite:jobs.db", "--job", "j", env=os.environ, code=None)
    assert alone.returncode == 2
    assert "error: no such fetcher: tiny" in alone.stderr
