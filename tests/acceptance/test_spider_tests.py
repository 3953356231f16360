"""Tests of spiders as users write them: the pytest plugin, recorded pages, and the example."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from skitter import Request, Response, Spider, testing
from skitter.errors import UsageError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TEST = """
    import skitter

    class Shop(skitter.Spider):
        start_urls = ["{url}"]

        def parse(self, response):
            yield {{"title": response.title}}
            yield from response.follow_all(css="a")

    def test_shop(skitter_run):
        ran = skitter_run(Shop)
        assert [item["title"] for item in ran.items] == ["one", "two"]
        assert not ran.missing

    def test_given(skitter_run):
        assert skitter_run(Shop, {{"{url}": "<title>given</title>"}}).items == [{{"title": "given"}}]
"""


def run_pytest(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        env=os.environ | environment,
    )


def run_plugin(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """With this plugin alone: others take seconds to load."""
    return run_pytest(folder, "-p", "skitter.testing.pytest_plugin", *options, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def test_the_tests_of_the_examples_pass(tmp_path: Path) -> None:
    tested = sorted(path.parent for path in EXAMPLES.glob("*/test_*.py"))
    for folder in tested:
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    ended = run_pytest(tmp_path)
    assert ended.returncode == 0, ended.stdout
    assert f"{sum(folder_tests(folder) for folder in tested)} passed" in ended.stdout, ended.stdout


def folder_tests(folder: Path) -> int:
    return sum(path.read_text().count("\ndef test_") for path in folder.glob("test_*.py"))


def test_pages_are_recorded_once_and_then_no_network_is_used(tmp_path: Path, site: Any) -> None:
    site.page("/", "<title>one</title><a href=/2>x</a>", set_cookie="secret=1")
    site.page("/2", "<title>two</title>")
    (tmp_path / "test_shop.py").write_text(textwrap.dedent(TEST.format(url=site.url())))
    unrecorded = run_plugin(tmp_path)
    assert "no recorded pages: " in unrecorded.stdout
    assert "1 failed, 1 passed" in unrecorded.stdout
    assert site.seen == []
    recorded = run_plugin(tmp_path, "--skitter-record")
    assert "2 passed" in recorded.stdout, recorded.stdout
    assert site.paths() == ["/", "/2"]
    site.seen.clear()
    replayed = run_plugin(tmp_path)
    assert "2 passed" in replayed.stdout, replayed.stdout
    assert site.seen == []
    files = list((tmp_path / "recorded" / "test_shop" / "test_shop").iterdir())
    assert len([file for file in files if file.name.endswith(".page.json")]) == 3, "robots.txt too"
    assert not any("secret" in file.read_text() for file in files)


class Api(Spider):
    base = ""

    def start(self) -> Any:
        for number in (1, 2):
            yield Request(f"{self.base}/api", method="POST", body=str(number))
        yield Request(f"{self.base}/old")

    def parse(self, response: Response) -> Any:
        yield {"text": response.text, "type": response.headers["content-type"]}


def test_bodies_of_requests_redirects_and_failures_are_recorded(tmp_path: Path, site: Any) -> None:
    site.on("/api", lambda seen, _: (200, {"Content-Type": "application/json"}, b'{"n": ' + seen.body + b"}"))
    site.page("/old", status=302, location="/gone")
    site.page("/gone", "sorry", status=410)
    arguments = {"base": site.url("")}
    live = testing.record(Api, tmp_path / "pages", arguments=arguments)
    again = testing.run(Api, tmp_path / "pages", arguments=arguments)
    assert sorted(item["text"] for item in live.items) == ['{"n": 1}', '{"n": 2}']
    assert sorted(map(str, again.items)) == sorted(map(str, live.items))
    assert [failure.status for failure in again.failures] == [410]
    assert again.missing == []
    assert again.stats["redirected"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a recorded page"),
        ('{"format": 2, "url": "https://a.example/"}', "recorded in another format: .*: 2, and this is 1"),
        ('{"format": 1, "url": "https://a.example/", "body": "../secret"}', "lies elsewhere"),
    ],
)
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.page.json").write_text(text)
    with pytest.raises(UsageError, match=message):
        testing.run(Api, tmp_path, arguments={"base": "https://a.example"})


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="recorded pages: "):
        testing.record(Api, tmp_path / "file", arguments={"base": "https://a.example"})
