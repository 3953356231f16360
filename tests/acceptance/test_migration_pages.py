"""The code of the pages for who comes from other frameworks runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def modules(page: str) -> dict[str, str]:
    """The blocks of a page that name their file in the first line."""
    blocks = BLOCK.findall((PAGES / page).read_text())
    return {code.partition("\n")[0].removeprefix("# "): code for code in blocks}


def test_a_spider_of_crawlo_runs_with_the_lines_that_the_page_changes(skitter: Any, site: Any) -> None:
    site.page("/", '<article class="book"><h2><a href="/emma">Emma</a></h2></article><a href="/other">x</a>')
    site.page("/emma", "<h1>Emma</h1>")
    spider = modules("migrate-from-crawlo.md")["books.py"]
    skitter.write("books.py", spider.replace("http://127.0.0.1:8600/catalogue/page-10.html", site.url()))
    skitter.write(
        "settings.py",
        """
        from crawlo.config import CrawloConfig

        config = CrawloConfig.standalone(project_name="books", concurrency=4, download_delay=0.01)
        locals().update(config.to_dict())
        PIPELINES = {"shop_pipes.Clean": 100, "crawlo.pipelines.ConsolePipeline": 200}
        LOG_LEVEL = "INFO"
        """,
    )
    skitter.write(
        "shop_pipes.py",
        """
        class Clean:
            async def process_item(self, item, spider):
                item.title = item.title.upper()
                return item
        """,
    )
    done = skitter.run("crawl", "books.py", "--config", "settings.py", "-o", "books.jsonl")
    assert skitter.lines("books.jsonl") == [{"title": "EMMA", "url": site.url("/emma")}]
    assert "PROJECT_NAME has no effect: --job NAME is the name of the job" in done.stderr
    assert "RUN_MODE has no effect" in done.stderr
    assert site.paths() == ["/", "/emma"]


def test_the_spider_of_the_page_for_scrapy_redis_loads() -> None:
    pytest.importorskip("scrapy")
    found: dict[str, Any] = {}
    exec(modules("migrate-from-scrapy-redis.md")["fed.py"], found)
    assert found["Fed"].redis_key == "fed:start_urls"
    settings = modules("migrate-from-scrapy-redis.md")["settings.py"]
    values: dict[str, Any] = {}
    exec(settings, values)
    assert values["REDIS_URL"] == "redis://127.0.0.1:6379/0"


def test_a_project_of_crawlo_is_listed_and_crawled_as_it_is(skitter: Any, site: Any) -> None:
    site.page("/", '<a href="/emma">Emma</a><a href="/persuasion">Persuasion</a>')
    site.page("/emma", "<title>Emma</title>")
    site.page("/persuasion", "<title>Persuasion</title>")
    skitter.write("crawlo.cfg", "[settings]\ndefault = shop.settings\n")
    skitter.write("shop/__init__.py", "")
    skitter.write("shop/spiders/__init__.py", "")
    skitter.write(
        "shop/settings.py",
        """
        from crawlo.core.config import CrawloConfig

        config = CrawloConfig.auto(project_name="shop", concurrency=4, download_delay=0.01)
        locals().update(config.to_dict())
        SPIDER_MODULES = ["shop.spiders"]
        PIPELINES = {"shop.pipelines.Upper": 100}
        MYSQL_HOST = "127.0.0.1"
        """,
    )
    skitter.write(
        "shop/items.py",
        """
        from crawlo.items import Field, Item

        class BookItem(Item):
            title = Field(nullable=False)
            url = Field()
        """,
    )
    skitter.write(
        "shop/pipelines.py",
        """
        from crawlo.logging import get_logger
        from crawlo.pipelines import BasePipeline

        class Upper(BasePipeline):
            def __init__(self):
                self.logger = get_logger(self.__class__.__name__)

            async def process_item(self, item, spider):
                item["title"] = item["title"].upper()
                return item
        """,
    )
    skitter.write(
        "shop/spiders/books.py",
        f"""
        from crawlo.spider import Spider
        from crawlo import Request, Response
        from ..items import BookItem

        class BooksSpider(Spider):
            name = "books"
            start_urls = ["{site.url()}"]
            custom_settings = {{"MAX_RETRY_TIMES": 1}}

            def start_requests(self):
                for url in self.start_urls:
                    yield Request(url, callback=self.parse, meta={{"page": 1}}, priority=10)

            async def parse(self, response: Response):
                self.logger.info("page %s", response.meta["page"])
                for href in response.xpath("//a/@href").getall():
                    yield Request(response.urljoin(href), callback=self.parse_book, dont_filter=False)

            def parse_book(self, response):
                yield BookItem(title=response.css("title::text").get(), url=response.url)
        """,
    )
    assert [spider["name"] for spider in skitter.json("list")["spiders"]] == ["books"]
    done = skitter.run("crawl", "books", "-o", "books.jsonl", "--workers", "2")
    found = sorted(item["title"] for item in skitter.lines("books.jsonl"))
    assert found == ["EMMA", "PERSUASION"]
    assert "shop.settings: MYSQL_HOST has no effect: -o mysql://" in done.stderr
    assert "SPIDER_MODULES" not in done.stderr
    assert "page 1" in done.stderr
