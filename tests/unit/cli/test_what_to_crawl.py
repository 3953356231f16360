"""URLs, or a spider; and names of jobs made of either."""

from __future__ import annotations

import pytest

from skitter.cli.what_to_crawl import find_source
from skitter.errors import SpiderError, UsageError
from skitter.model.job_name import job_name_of

SPIDER = """
from skitter import Spider

class {0}(Spider):
    name = "{1}"
    start_urls = ["https://a.example/"]
    def parse(self, response): ...
"""


def test_urls_become_seeds_once_each(folder) -> None:
    target = find_source(["https://A.example:443", "https://a.example/#top", "http://b.example/x"], {}, folder, [])
    assert target.seeds == ["https://a.example/", "http://b.example/x"]
    assert (target.spider, target.name) == ("", "a.example")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:8901/", "127.0.0.1-8901"),
        ("https://user:secret@a.example/", "a.example"),
        ("http://[::1]:80/", "1"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_a_job_is_named_after_its_first_host(folder, url, name) -> None:
    assert find_source([url], {}, folder, []).name == name


@pytest.mark.parametrize(
    ("text", "name"), [("my books", "my-books"), ("../../etc", "etc"), ("///", "job"), ("a.b_c-1",) * 2]
)
def test_a_name_is_safe_as_a_file(text, name) -> None:
    assert job_name_of(text) == name


@pytest.mark.parametrize(
    ("scheme", "word"),
    [
        *(("https", word) for word in ("example.com", "example.com/path", "localhosts.example")),
        *(("http", word) for word in ("localhost:8000", "localhost", "127.0.0.1:80", "[::1]")),
    ],
)
def test_a_url_without_a_scheme_is_a_usage_error_with_a_hint(folder, scheme, word) -> None:
    with pytest.raises(UsageError, match="a URL without a scheme") as caught:
        find_source(["https://a.example/", word], {}, folder, ["spiders"])
    assert caught.value.hint == f"did you mean {scheme}://{word} ?"


@pytest.mark.parametrize("word", ["mailto:a@b.example", "ftp://a.example/", "http://", "javascript:alert(1)"])
def test_what_is_no_url_to_crawl_is_refused(folder, word) -> None:
    with pytest.raises(UsageError, match="not a URL"):
        find_source([word], {}, folder, [])


def test_a_spider_is_found_by_name_and_nothing_else_is_run(folder) -> None:
    (folder / "spiders").mkdir()
    (folder / "spiders" / "books.py").write_text(SPIDER.format("Books", "books"))
    (folder / "spiders" / "trap.py").write_text("raise SystemExit('this file was run')")
    (folder / "spiders" / "broken.py").write_text("class (")
    target = find_source(["books"], {}, folder, ["spiders"])
    assert (target.spider, target.name) == ("spiders/books.py:Books", "books")


def test_names_are_looked_for_where_the_project_says(folder) -> None:
    (folder / "news.py").write_text(SPIDER.format("News", "news"))
    assert find_source(["news"], {}, folder, ["news.py", "missing"]).spider == "news.py:News"


def test_a_name_that_is_nearly_right(folder) -> None:
    (folder / "news.py").write_text(SPIDER.format("News", "news"))
    with pytest.raises(SpiderError, match="no such spider: nwes") as caught:
        find_source(["nwes"], {}, folder, ["news.py"])
    assert caught.value.hint == "did you mean news ?"


def test_two_spiders_of_one_name(folder) -> None:
    (folder / "a.py").write_text(SPIDER.format("A", "news"))
    (folder / "b.py").write_text(SPIDER.format("B", "news"))
    with pytest.raises(SpiderError, match="several spiders with this name") as caught:
        find_source(["news"], {}, folder, ["a.py", "b.py"])
    assert "a.py:A, b.py:B" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to crawl"),
        (["nothing"], "neither a URL nor a spider: nothing"),
        (["notes.txt"], "not a spider file: notes.txt"),
        (["books.py", "https://a.example/"], "a spider does not take URLs"),
    ],
)
def test_neither_one_nor_the_other(folder, words, message) -> None:
    (folder / "notes.txt").write_text("")
    (folder / "books.py").write_text(SPIDER.format("Books", "books"))
    with pytest.raises(UsageError, match=message) as caught:
        find_source(words, {}, folder, ["spiders"])
    assert caught.value.hint


def test_a_sitemap_is_enough_and_names_the_job(folder) -> None:
    target = find_source([], {}, folder, [], ["https://A.example/sitemap.xml", "https://a.example/sitemap.xml#x"])
    assert (target.spider, target.seeds, target.sitemaps) == ("", [], ["https://a.example/sitemap.xml"])
    assert target.name == "a.example"


def test_sitemaps_of_robots_txt_need_a_host(folder) -> None:
    assert find_source(["https://a.example/"], {}, folder, [], ["robots"]).sitemaps == ["robots"]
    with pytest.raises(UsageError, match="needs a host") as caught:
        find_source([], {}, folder, [], ["robots"])
    assert "https://example.com/robots.txt" in caught.value.hint


def test_a_spider_may_live_on_sitemaps_alone(folder) -> None:
    (folder / "s.py").write_text(SPIDER.format("A", "a").replace('start_urls = ["https://a.example/"]', ""))
    with pytest.raises(SpiderError, match="has no start URLs"):
        find_source(["s.py"], {}, folder, [])
    assert find_source(["s.py"], {}, folder, [], ["https://a.example/s.xml"]).sitemaps == ["https://a.example/s.xml"]
    with pytest.raises(UsageError, match="needs a host"):
        find_source(["s.py"], {}, folder, [], ["robots"])
    (folder / "t.py").write_text(SPIDER.format("A", "a").replace("start_urls", 'sitemap_urls = "x"\n    start_urls'))
    with pytest.raises(SpiderError, match="sitemap_urls must be a list"):
        find_source(["t.py"], {}, folder, [], ["https://a.example/s.xml"])
