"""``dedup_scope=job``: a run after the first fetches what is new, by the real command line."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter

import pytest

from rig.soak import chance_of
from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

SPIDER = """
from skitter import Request, Spider

class News(Spider):
    name = "news"

    def start(self):
        yield Request(self.base + "/news")

    def parse(self, response):
        for link in response.links():
            if "/page/" in link:
                yield Request(link, is_list=True)
            else:
                yield Request(link, callback=self.article)

    def article(self, response):
        if "withdrawn" not in response.text:
            yield {"url": response.url}
"""
FOUR = """
from skitter import Spider

class Four(Spider):
    name = "four"
    start_urls = %r

    def parse(self, response):
        yield {"url": response.url}
        yield response.links()
"""


def publish(site, articles: int) -> None:
    """A list of two pages, the older articles on the second one."""
    links = [f"<a href='/article/{number}'>{number}</a>" for number in range(articles)]
    site.page("/news", "".join(links[3:]) + "<a href='/page/2'>older</a>")
    site.page("/page/2", "".join(links[:3]))
    for number in range(articles):
        site.page(f"/article/{number}", "withdrawn" if number == 1 else "text")


def crawl(skitter, site, *options: object) -> dict:
    site.seen.clear()
    skitter.write("news.py", SPIDER)
    return skitter.json(
        *("crawl", "news.py", "-a", f"base={site.base}", "-o", "out.jsonl", "--ignore-robots"),
        *("--set", "dedup_scope=job", *options),
    )


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_a_second_run_fetches_lists_seeds_and_what_is_new(skitter, site, services, store) -> None:
    frontier = ()
    if store == "redis":
        frontier = ("--frontier", services.need("redis")["url"], "--job", f"news-{random.getrandbits(64)}")
    publish(site, 5)
    first = crawl(skitter, site, *frontier)
    assert (first["pages"], first["items"], first["delivered_earlier"]) == (7, 4, 0)
    publish(site, 7)
    second = crawl(skitter, site, *frontier)
    # An article that gave no item is looked at again: it may have one now.
    assert sorted(site.paths()) == ["/article/1", "/article/5", "/article/6", "/news", "/page/2"]
    assert (second["begun"], second["items"], second["delivered_earlier"]) == ("rerun", 2, 4)
    third = crawl(skitter, site, "--fresh", *frontier)
    assert sorted(site.paths()) == ["/article/1", "/news", "/page/2"]
    assert third["delivered_earlier"] == 6
    assert Counter(record["url"] for record in skitter.lines("out.jsonl")) == Counter(
        site.url(f"/article/{number}") for number in (0, 2, 3, 4, 5, 6)
    )
    job = ("--job", first["job"], *frontier[:2])
    why = skitter.json("why", site.url("/article/0"), *job)
    assert why["state"] == "delivered"
    assert "an earlier run has delivered its items" in why["reasons"][0]
    skitter.run("drop", *job)
    assert crawl(skitter, site, *frontier)["items"] == 6, "a job that was dropped remembers nothing"


def test_without_an_output_every_run_fetches_all(skitter, site) -> None:
    publish(site, 5)
    skitter.write("news.py", SPIDER)
    command = ("crawl", "news.py", "-a", f"base={site.base}", "--ignore-robots", "--set", "dedup_scope=job")
    assert [skitter.json(*command)["pages"] for _ in range(2)] == [7, 7]


@pytest.mark.soak
def test_kills_repeat_no_item_and_skip_no_page(skitter, tmp_path) -> None:
    """A crawl that is killed again and again, at times after its end: each start begins where the last one was killed,
    or a run that finds everything delivered but the seeds."""
    chance = chance_of(5)
    spec = WebSpec.plain(hosts=2, pages_per_host=100, latency_seconds=0.02)
    with served(spec, log_path=tmp_path / "hits.jsonl") as web:
        skitter.write("four.py", FOUR % list(web.urls))
        command = ("crawl", "four.py", "-o", "out.jsonl", "--workers", 2, "--ignore-robots", "-q")
        command += ("--set", "dedup_scope=job")
        expected = set(web.expected().done)
        for goal in sorted(chance.randrange(200) for _ in range(4)):
            with skitter.start(*command, stdout=subprocess.DEVNULL) as process:
                while process.poll() is None and len(web.log()) < goal:
                    time.sleep(0.01)  # the instant of the fault; nothing else waits for it
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        skitter.run(*command)
        seeds = len(web.urls)
        again = skitter.json(*command)
        assert again["pages"] == seeds
    found = Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl"))
    assert set(found) == expected, "no page is skipped"
    doubled = {url for url, times in found.items() if times > 1}
    assert doubled <= set(map(canonical, web.urls)), "each run fetches the seeds"
