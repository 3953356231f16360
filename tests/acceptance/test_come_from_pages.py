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
    site.page("/", '<a class="book" href="/emma">Emma</a><a href="/other">x</a>')
    site.page("/emma", "<h1>Emma</h1>")
    spider = modules("come-from-crawlo.md")["books.py"]
    start = f'    name = "books"\n    start_urls = ["{site.url()}"]\n'
    skitter.write("books.py", spider.replace('    name = "books"\n', start))
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
    exec(modules("come-from-scrapy-redis.md")["fed.py"], found)
    assert found["Fed"].redis_key == "fed:start_urls"
    settings = modules("come-from-scrapy-redis.md")["settings.py"]
    values: dict[str, Any] = {}
    exec(settings, values)
    from scrapy.settings import Settings

    from skitter.contrib.scrapy.scheduler_settings import start_urls_server

    assert start_urls_server(Settings({"REDIS_URL": values["REDIS_URL"]})) == "redis://127.0.0.1:6379/0"
