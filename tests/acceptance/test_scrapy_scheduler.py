"""Scrapy's own engine on skitter's frontier: several processes, kill -9, and every page once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from rig.processes import HANG_SECONDS

pytest.importorskip("scrapy")

SITE_SPIDER = """
    import asyncio
    import os
    import scrapy

    class SiteSpider(scrapy.Spider):
        name = "site"
        custom_settings = {
            "SCHEDULER": "skitter.contrib.scrapy.Scheduler",
            "SKITTER_FRONTIER": os.environ["FRONTIER"],
            "SKITTER_RUN_KEY": "once",
            "SKITTER_SINKS": ["pages.jsonl"],
            "SKITTER_SETTINGS": {"lease_seconds": 10},
        }

        async def start(self):
            # Slowly, so that the process that runs it is killed meanwhile, and another one runs it again.
            for number in range(0, 60, 4):
                yield scrapy.Request(os.environ["START"] + str(number))
                await asyncio.sleep(0.1)

        def parse(self, response):
            yield {"url": response.url, "pid": os.getpid()}
            yield from response.follow_all(css="a")
"""
DETAIL_SPIDER = """
    import scrapy
    from scrapy.exceptions import DropItem

    class Marked:
        def process_item(self, item):
            if item.get("page") == "dropped":
                raise DropItem("not wanted")
            return {**item, "marked": True}

    class Details(scrapy.Spider):
        name = "details"
        start_urls = [START]
        handle_httpstatus_list = [418]

        def parse(self, response):
            yield {"page": "start"}
            yield {"page": "dropped"}
            yield response.follow("/moved", self.parse_moved, meta={"list": (1, 2)}, cb_kwargs={"word": "kept"})
            yield response.follow("/gone", self.parse_gone)
            yield response.follow("/teapot", self.parse_teapot)
            yield response.follow("/raises", self.parse_raises)
            yield response.follow("/refused", self.parse_refused)
            yield response.follow("/busy", self.parse_busy)
            yield scrapy.Request(UNREACHABLE, self.parse_gone, errback=self.failed)
            yield response.follow("/again", self.parse_again, dont_filter=True)
            yield response.follow("/again", self.parse_again, dont_filter=True)
            yield response.follow("/again", self.parse_again)
            yield response.follow("/again", self.parse_again)

        def parse_moved(self, response, word):
            yield {"page": "moved", "url": response.url, "meta": list(response.meta["list"]), "word": word}

        def parse_gone(self, response):
            yield {"page": "never"}

        def parse_teapot(self, response):
            yield {"page": "teapot", "status": response.status}

        def parse_raises(self, response):
            yield {"page": "before the error"}
            raise ValueError("broken callback")

        def parse_refused(self, response):
            yield scrapy.Request(response.url + "?more", callback=lambda response: None)

        def parse_busy(self, response):
            yield {"page": "busy", "times": response.meta.get("retry_times")}

        def parse_again(self, response):
            yield {"page": "again"}

        def failed(self, failure):
            yield {"page": "errback", "refused": "ConnectionRefused" in type(failure.value).__name__}
"""


class Project:
    """A folder with a spider, run by Scrapy's own command."""

    def __init__(self, folder: Path, spider: str, **environment: str) -> None:
        self.folder = folder
        self.environment = os.environ | environment
        self.logs: list[Path] = []
        (folder / "spider.py").write_text(_dedented(spider))

    def start(self, *settings: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"log-{len(self.logs)}.txt"
        self.logs.append(log)
        options = [part for setting in ("TELNETCONSOLE_ENABLED=0", *settings) for part in ("-s", setting)]
        command = [sys.executable, "-m", "scrapy", "runspider", "spider.py", *options]
        with log.open("wb") as file:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=file, stderr=file)

    def run(self, *settings: str) -> str:
        process = self.start(*settings)
        assert process.wait(HANG_SECONDS) == 0
        return self.log()

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.logs)


def _dedented(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


def linked_pages(site: Any, pages: int) -> set[str]:
    """Make a site of so many pages, each of which is linked by several others; return its URLs."""
    for number in range(pages):
        others = {0, number // 3, 2 * number + 1, 2 * number + 2, number + 1}
        links = "".join(f'<a href="/p/{other}">x</a>' for other in sorted(others) if other < pages)
        site.page(f"/p/{number}", f"<html><body>{links}</body></html>")
    return {site.url(f"/p/{number}") for number in range(pages)}


def crawl_with_kills(
    project: Project, site: Any, until: Callable[..., Any], *, pages: int, kills: int
) -> tuple[list[dict[str, Any]], set[str]]:
    """Crawl with two processes, of which one is killed again and again; the items, and the URLs there are."""
    urls = linked_pages(site, pages)
    processes = [project.start(), project.start()]
    for kill in range(kills):
        wanted = pages * (kill + 1) // (kills + 2)
        until(lambda wanted=wanted: len(site.seen) >= wanted)
        victim = processes[kill % 2]
        victim.kill()
        victim.wait()
        processes[kill % 2] = project.start()
    assert [process.wait(HANG_SECONDS) for process in processes] == [0, 0], project.log()
    return [json.loads(line) for line in (project.folder / "pages.jsonl").read_text().splitlines()], urls


def check_each_page_once(skitter: Any, items: list[dict[str, Any]], urls: set[str], frontier: str) -> None:
    assert Counter(item["url"] for item in items) == Counter(urls)
    place = ["--frontier", frontier, "--job", "site"]
    status = skitter.json("status", *place)
    assert status["state"] == "finished"
    assert status["done"] == len(urls)
    assert skitter.json("fsck", *place)["consistent"]


@pytest.mark.parametrize("store", ["redis", pytest.param("sqlite", marks=pytest.mark.soak)])
def test_killed_processes_lose_nothing_and_every_page_comes_once(
    store: str, skitter: Any, site: Any, until: Callable[..., Any], services: Any, tmp_path: Path
) -> None:
    frontier = services.need("redis")["url"] if store == "redis" else f"sqlite:{tmp_path}/jobs.db"
    project = Project(tmp_path, SITE_SPIDER, FRONTIER=frontier, START=site.url("/p/"))
    items, urls = crawl_with_kills(project, site, until, pages=60, kills=2 if store == "redis" else 1)
    check_each_page_once(skitter, items, urls, frontier)
    # A process that comes after the end of the run that it is for does nothing.
    seen = len(site.seen)
    project.run()
    assert len(site.seen) == seen


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_twenty_kills_lose_nothing_and_every_page_comes_once(
    skitter: Any, site: Any, until: Callable[..., Any], services: Any, tmp_path: Path
) -> None:
    frontier = services.need("redis")["url"]
    project = Project(tmp_path, SITE_SPIDER, FRONTIER=frontier, START=site.url("/p/"))
    items, urls = crawl_with_kills(project, site, until, pages=800, kills=20)
    check_each_page_once(skitter, items, urls, frontier)


def test_redirects_retries_errors_and_items_are_those_of_scrapy(skitter: Any, site: Any, tmp_path: Path) -> None:
    busy = iter((503, 503, 200))
    site.page("/", "<html></html>")
    site.page("/moved", status=302, location="/there")
    site.page("/there")
    site.page("/gone", status=404)
    site.page("/teapot", status=418)
    site.page("/raises")
    site.page("/refused")
    site.page("/again")
    site.on("/busy", lambda seen, handler: (next(busy), {}, b""))
    spider = DETAIL_SPIDER.replace("START", repr(site.url())).replace("UNREACHABLE", repr("http://127.0.0.1:9/"))
    project = Project(tmp_path, spider)
    log = project.run(
        "SCHEDULER=skitter.contrib.scrapy.Scheduler",
        "SKITTER_SINKS=items.jsonl",
        'ITEM_PIPELINES={"spider.Marked": 100}',
        "RETRY_TIMES=2",
    )
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert all(item.pop("marked") for item in items)
    found = Counter(json.dumps(item, sort_keys=True) for item in items)
    expected = [
        {"page": "start"},
        {"page": "moved", "url": site.url("/there"), "meta": [1, 2], "word": "kept"},
        {"page": "teapot", "status": 418},
        {"page": "before the error"},
        {"page": "busy", "times": 2},
        {"page": "errback", "refused": True},
        *[{"page": "again"}] * 3,
    ]
    assert found == Counter(json.dumps(item, sort_keys=True) for item in expected), log
    assert "a request's callback must be a method of the spider, not a lambda" in log
    failed = {(row["url"], row["error_class"]) for row in skitter.records("failed", "--job", "details")}
    assert failed == {
        (site.url("/gone"), "http_4xx"),
        (site.url("/raises"), "callback"),
        (site.url("/refused"), "callback"),
        ("http://127.0.0.1:9/", "connect"),
    }
    assert "'finish_reason': 'finished'" in log


def test_a_project_for_scrapy_redis_is_fed_by_its_key(skitter: Any, site: Any, services: Any, tmp_path: Path) -> None:
    url = services.need("redis")["url"]
    for page in ("/a", "/b", "/c"):
        site.page(page, "<html></html>")
    spider = """
        from skitter.contrib.scrapy import RedisSpider

        class Fed(RedisSpider):
            name = "fed"
            redis_key = "fed:start_urls"
            max_idle_time = 1

            def parse(self, response):
                yield {"url": response.url, "method": response.request.method, "job": response.meta.get("job")}
    """
    client = redis.Redis.from_url(url)
    body = json.dumps({"url": site.url("/b"), "meta": {"job": 7}, "q": "books"})
    form = json.dumps({"url": site.url("/c"), "method": "post", "q": "books"})
    client.rpush("fed:start_urls", site.url("/a"), body, form, "no url", '{"meta": {}}')
    project = Project(tmp_path, spider)
    log = project.run(
        "SCHEDULER=skitter.contrib.scrapy.Scheduler",
        "DUPEFILTER_CLASS=scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST=True",
        "SCHEDULER_QUEUE_CLASS=scrapy_redis.queue.SpiderQueue",
        f"REDIS_URL={url}",
        "SKITTER_SINKS=items.jsonl",
        "DOWNLOAD_DELAY=0.3",
    )
    assert site.seen[-1].at - site.seen[0].at > 0.5, "a delay of the job lies between two requests"
    items = sorted(skitter.lines("items.jsonl"), key=lambda item: item["url"])
    assert items == [
        {"url": site.url("/a"), "method": "GET", "job": None},
        {"url": site.url("/b?q=books"), "method": "GET", "job": 7},
        {"url": site.url("/c"), "method": "POST", "job": None},
    ], log
    assert client.llen("fed:start_urls") == 0
    assert "SCHEDULER_QUEUE_CLASS has no effect" in log
    status = skitter.json("status", "--frontier", url, "--job", "fed")
    (intake,) = status["intakes"]
    assert (intake["read"], intake["added"], intake["dead_letters"]) == (5, 3, 2)


def test_a_frontier_that_cannot_be_reached_is_named(site: Any, tmp_path: Path) -> None:
    project = Project(tmp_path, DETAIL_SPIDER.replace("START", repr(site.url())).replace("UNREACHABLE", "''"))
    process = project.start("SCHEDULER=skitter.contrib.scrapy.Scheduler", "SKITTER_FRONTIER=redis://127.0.0.1:9/0")
    process.wait(HANG_SECONDS)
    assert "the frontier cannot be reached" in project.log()
    assert site.seen == []
