"""``list``, ``check`` and ``settings``: what a project has, whether it holds together, and what counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

SHOP = """
    from skitter import Request, Spider

    class Base(Spider):
        def parse(self, response):
            yield Request("/a", callback="parse_book")

    class Shop(Base):
        '''Books of the shop.

        And more.'''
        name = "shop"
        start_urls = ["https://shop.example/"]
        custom_settings = {"delay_seconds": 2}

        def parse_book(self, response): ...
"""


@pytest.fixture
def write(folder: Path) -> Callable[[str, str], None]:
    def to(name: str, text: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))

    return to


def test_list_reads_and_runs_nothing(skitter: Any, write: Any, folder: Path) -> None:
    write("spiders/shop.py", SHOP + "\n    raise RuntimeError('it was run')\n")
    write("spiders/broken.py", "class\n")
    (folder / "spiders" / "binary.py").write_bytes(b"\0\xff")
    said = skitter("list")
    assert said.code == 1
    assert said.out.splitlines() == [
        "-     spiders/shop.py:Base",
        "shop  spiders/shop.py:Shop  Books of the shop.",
    ]
    assert "warning: cannot be read: spiders/broken.py: line 1: invalid syntax" in said.err
    assert "spiders/binary.py" in said.err
    told = json.loads(skitter("list", "--json").out)
    assert told["spiders"][1] == {
        "name": "shop",
        "reference": "spiders/shop.py:Shop",
        "line": 8,
        "about": "Books of the shop.",
    }
    assert [each["file"] for each in told["broken"]] == ["spiders/binary.py", "spiders/broken.py"]


def test_list_without_spiders_says_so(skitter: Any, write: Any) -> None:
    said = skitter("list")
    assert (said.code, said.out) == (0, "")
    assert "no spiders found" in said.err
    write("skitter.toml", 'spiders = ["elsewhere"]')
    said = skitter("list")
    assert said.code == 1
    assert "elsewhere: No such file or directory" in said.err


def test_check_of_a_sound_project(skitter: Any, write: Any) -> None:
    write(
        "spiders/shop.py",
        SHOP.replace("class Base(Spider):", "class Base(Spider):\n        start_urls = ['https://a.example/']").replace(
            '"parse_book"', '"parse"'
        ),
    )
    write("skitter.toml", 'delay_seconds = 1\n[[sink]]\ntarget = "out.jsonl"')
    said = skitter("check")
    assert said == (0, "ok: spiders/shop.py:Base\nok: spiders/shop.py:Shop\n", "")
    assert json.loads(skitter("check", "shop", "--json").out) == {
        "ok": True,
        "spiders": [{"reference": "spiders/shop.py:Shop", "ok": True}],
        "findings": [],
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("def parse(self, r): yield Request('/', self.gone)", "Own has no callback of this name: gone"),
        ("def parse(self, r): yield r.follow('/', callback='gone')", "Own has no callback of this name: gone"),
        ("def parse(self, r): yield Request('/', errback=self.gone)", "Own has no errback of this name: gone"),
        ("custom_settings = {'delay_secs': 1}", "unknown setting in spiders/own.py:Own: delay_secs"),
        ("item_functions = ['nowhere:clean']", "cannot be imported: nowhere:clean"),
        ("custom_settings = {'hooks': 'nowhere:Captcha'}", "cannot be imported: nowhere:Captcha"),
        ("sinks = ['what://x']", "what://x"),
        ("start_urls = []", "the spider has no start URLs: Own"),
        ("x = 1 / 0", "a spider cannot be imported: spiders/own.py: ZeroDivisionError"),
        ("custom_settings = {'fetcher': 'gone'}", "no such fetcher: gone"),
    ],
)
def test_check_finds(skitter: Any, write: Any, body: str, problem: str) -> None:
    write(
        "spiders/own.py",
        f"""
        from skitter import Request, Spider

        class Own(Spider):
            name = "own"
            start_urls = ["https://a.example/"]
            def parse(self, response): ...
            {body}
        """,
    )
    said = skitter("check", "own")
    assert said.code == 1
    assert problem in said.out
    (finding,) = json.loads(skitter("check", "--json").out)["findings"]
    assert problem in finding["problem"]


def test_check_finds_settings_frontiers_and_goes_on_after_a_broken_file(skitter: Any, write: Any) -> None:
    write("spiders/broken.py", "class\n")
    write("spiders/own.py", "from skitter import Spider\nclass Own(Spider):\n    def __init__(self, shop): ...\n")
    said = skitter("check", "--frontier", "redis://a:b:c")
    assert said.code == 1
    assert "error: spiders/broken.py: cannot be read: line 1" in said.out
    assert "error: --frontier redis" in said.out
    assert "ok: spiders/own.py:Own" in said.out
    assert "spiders/own.py:Own: not constructed, because it needs arguments: shop (-a KEY=VALUE)" in said.err
    write("skitter.toml", "delay_seconds = -1")
    assert "error: settings: bad value in skitter.toml: delay_seconds=-1" in skitter("check").out
    assert skitter("check", "--connect").code == 2


def test_check_asks_the_store_with_connect(skitter: Any) -> None:
    said = skitter("check", "--frontier", "redis://127.0.0.1:1", "--connect")
    assert said.code == 1
    assert "error: --frontier redis://127.0.0.1:1: " in said.out
    assert skitter("check", "--frontier", "redis://127.0.0.1:1").code == 0
    assert skitter("check", "--frontier", "sqlite:new.db", "--connect").code == 0
    assert skitter("check", "no_such_spider").code == 2


def test_settings_tell_where_each_value_comes_from(skitter: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write("spiders/shop.py", SHOP)
    write("skitter.toml", 'delay_seconds = 1\nexclude = ["/cart", "a,b"]\n[limits]\nmax_pages = 9')
    write("scrapy_settings.py", "DEPTH_LIMIT = 3")
    monkeypatch.setenv("SKITTER_PROXY", "http://me:hunter2@127.0.0.1:1")
    words = (
        "settings",
        "shop",
        "--config",
        "scrapy_settings.py",
        "--include",
        "/b",
        "--include",
        "/c",
        "--set",
        "per_host=3",
    )
    told = {row["name"]: row for row in json.loads(skitter(*words, "--json").out)}
    assert told["delay_seconds"] | {"group": ""} == {
        "name": "delay_seconds",
        "group": "",
        "value": 2.0,
        "layer": "spider",
        "place": "spiders/shop.py:Shop",
    }
    assert (told["max_pages"]["value"], told["max_pages"]["layer"]) == (9, "project")
    assert (told["max_depth"]["value"], told["max_depth"]["layer"]) == (3, "config")
    assert (told["exclude"]["value"], told["include"]["value"]) == (["/cart", "a,b"], ["/b", "/c"])
    assert (told["per_host"]["layer"], told["per_host"]["place"]) == ("command line", "--set")
    assert (told["timeout_seconds"]["layer"], told["timeout_seconds"]["value"]) == ("default", 30.0)
    assert told["proxy"]["layer"] == "environment"
    said = skitter(*words, "--changed")
    assert "hunter2" not in said.out + str(told)
    assert said.out.splitlines()[0].split() == ["delay_seconds", "2", "spider:", "spiders/shop.py:Shop"]
    assert len(said.out.splitlines()) == 7


@pytest.mark.parametrize("value", ["(", "[a", "*"])
def test_a_bad_expression_is_refused(skitter: Any, value: str) -> None:
    for option in ("--include", "--exclude"):
        said = skitter("settings", option, value)
        assert said.code == 2
        assert f"hint: not a regular expression: {value}" in said.err
