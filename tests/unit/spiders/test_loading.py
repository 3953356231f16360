"""A spider is found, or the reason why not is named."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skitter.errors import SpiderError
from skitter.model.request import Request
from skitter.spiders.base import Spider
from skitter.spiders.loading import check_spider, full_reference, load_spider, make_spider
from skitter.spiders.site_spider import SiteSpider

ONE = "from skitter import Spider\n\nclass Books(Spider):\n    name = 'books'\n"
TWO = ONE + "\nclass News(Spider):\n    name = 'news'\n"


@pytest.fixture(autouse=True)
def import_state() -> Iterator[None]:
    """What a spider's import leaves behind belongs to its test."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("_skitter_spider_") or name == "neighbour":
            del sys.modules[name]


def test_no_reference_is_the_built_in_spider(tmp_path: Path) -> None:
    assert load_spider("", tmp_path) is SiteSpider


@pytest.mark.parametrize("reference", ["books.py", "books.py:Books", "./books.py"])
def test_a_file_and_its_class(tmp_path: Path, reference: str) -> None:
    (tmp_path / "books.py").write_text(ONE)
    kind = load_spider(reference, tmp_path)
    assert kind.__name__ == "Books"
    assert load_spider(reference, tmp_path) is kind
    assert full_reference(reference, kind, tmp_path) == "books.py:Books"


def test_a_file_elsewhere_keeps_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "books.py").write_text(ONE)
    (tmp_path / "here").mkdir()
    kind = load_spider("../books.py", tmp_path / "here")
    assert full_reference("../books.py", kind, tmp_path / "here") == f"{tmp_path / 'books.py'}:Books"


def test_neighbours_can_be_imported_and_imported_spiders_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text(TWO)
    (tmp_path / "mine.py").write_text("from neighbour import Books, News\n\nclass Mine(Books):\n    name = 'mine'\n")
    assert load_spider("mine.py", tmp_path).name == "mine"
    assert load_spider("mine.py:News", tmp_path).name == "news"


def test_a_base_class_in_the_file_is_not_meant(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(ONE + "\nclass Old(Books):\n    name = 'old'\n")
    assert load_spider("x.py", tmp_path).name == "old"


def test_a_file_may_be_called_like_a_module(tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text(ONE)
    assert load_spider("json.py", tmp_path).name == "books"
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("text", "reference", "message", "hint"),
    [
        (ONE, "boks.py", "no such spider file: boks.py", "did you mean books.py ?"),
        ("class (:\n", "books.py", r"syntax error: books.py: books.py, line 1", "see: class"),
        ("import nowhere_to_be_found", "books.py", "cannot be imported: books.py: No module", "install nowhere_to_be"),
        ("x = 1\n1 / 0\n", "books.py", "ZeroDivisionError: division by zero, line 2 of books.py", "-v"),
        ("raise SystemExit(3)", "books.py", "cannot be imported: books.py: SystemExit: 3", "-v"),
        ("x = 1", "books.py", "no spider in the file: books.py", "skitter.Spider"),
        (TWO, "books.py", "several spiders in one file: books.py", "books.py:Books, books.py:News"),
        (TWO, "books.py:Nwes", "no such spider class: books.py:Nwes", "did you mean books.py:News ?"),
        (TWO, "books.py:X", "no such spider class: books.py:X", "in the file: Books, News"),
        (ONE + "\nShelf = dict\n", "books.py:Shelf", "not a spider: books.py:Shelf", "inherit"),
        (ONE, "books.py:Spider", "not a spider: books.py:Spider", "inherit"),
        (ONE, "books", "not a spider: books", "file.py:Class"),
        (ONE, "notebook:books", "not a spider: notebook:books", "file.py:Class"),
    ],
)
def test_what_is_wrong_is_named_and_hinted_at(
    tmp_path: Path, text: str, reference: str, message: str, hint: str
) -> None:
    (tmp_path / "books.py").write_text(text)
    with pytest.raises(SpiderError, match=message) as caught:
        load_spider(reference, tmp_path)
    assert hint in caught.value.hint


def test_a_file_that_failed_can_be_loaded_after_it_was_mended(tmp_path: Path) -> None:
    (tmp_path / "books.py").write_text("class (")
    with pytest.raises(SpiderError):
        load_spider("books.py", tmp_path)
    (tmp_path / "books.py").write_text(ONE)
    assert load_spider("books.py", tmp_path).name == "books"


def test_a_thread_waits_while_another_one_runs_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery's threads load the spider of their first page at once."""
    gate: Any = ModuleType("gate")
    gate.entered, gate.may_go_on = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gate", gate)
    (tmp_path / "slow.py").write_text("import gate\ngate.entered.set()\nassert gate.may_go_on.wait(60)\n" + ONE)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(load_spider, "slow.py:Books", tmp_path)
        assert gate.entered.wait(60)
        second = threads.submit(load_spider, "slow.py:Books", tmp_path)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.1)
        gate.may_go_on.set()
        assert first.result(60) is second.result(60)


def test_a_spider_that_refuses_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "books.py").write_text(ONE + "    def __init__(self, shelf):\n        self.shelf = shelf\n")
    kind = load_spider("books.py", tmp_path)
    assert make_spider(kind, {"shelf": "a"}).shelf == "a"
    with pytest.raises(SpiderError, match="cannot be constructed: Books: TypeError"):
        make_spider(kind, {"page": "2"})


class Callbacks(Spider):
    """Every request that it yields names its callback."""

    def start(self) -> Iterator[Request]:
        yield Request("http://a.example/", self.parse_book)

    def parse_book(self, response: Any) -> None: ...


class Listed(Spider):
    sitemap_urls = ("http://a.example/sitemap.xml",)

    def parse_sitemap(self, response: Any) -> Iterator[Request]:
        yield Request("http://a.example/", self.parse_book)

    def parse_book(self, response: Any) -> None: ...


@pytest.mark.parametrize("kind", [Callbacks, Listed])
def test_a_spider_whose_requests_all_have_callbacks_needs_no_parse(kind: type[Spider]) -> None:
    check_spider(kind())


class Started(Callbacks):
    sitemap_urls = ("http://a.example/sitemap.xml",)


class Urls(Spider):
    start_urls = ("http://a.example/",)


@pytest.mark.parametrize("kind", [Started, Urls])
def test_a_spider_some_of_whose_requests_go_to_parse_needs_it(kind: type[Spider]) -> None:
    with pytest.raises(SpiderError, match=f"has no parse method: {kind.__name__}") as caught:
        check_spider(kind())
    assert "start" in caught.value.hint


@pytest.mark.parametrize("name", ["start_urls", "sitemap_urls", "allowed_domains"])
def test_one_text_in_place_of_a_list_is_named(name: str) -> None:
    kind = type("Books", (Urls,), {"parse": print, name: "http://a.example/"})
    with pytest.raises(SpiderError, match=f"{name} must be a list, not a text: Books"):
        check_spider(kind())
