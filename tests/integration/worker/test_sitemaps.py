"""Sitemaps as seeds: from real servers, through the frontier, in all forms and in none."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterable
from typing import Any

import pytest

from skitter.spiders import sitemaps
from skitter.spiders.base import Spider
from skitter.spiders.site_spider import SiteSpider

ON_MEMORY = pytest.mark.parametrize("site", ["memory"], indirect=True)


def urlset(urls: Iterable[str]) -> bytes:
    return b"<urlset>" + b"".join(b"<url><loc>%s</loc></url>" % url.encode() for url in urls) + b"</urlset>"


def index(urls: Iterable[str]) -> bytes:
    entries = b"".join(b"<sitemap><loc>%s</loc></sitemap>" % url.encode() for url in urls)
    return b"<sitemapindex>" + entries + b"</sitemapindex>"


def pages(host: Any, *paths: str) -> None:
    for path in paths:
        host.page(path, "a page")


async def crawled(site: Any, host: Any, sitemaps: list[str], seeds: Iterable[str] = (), **settings: Any) -> Any:
    """A whole crawl with the built-in spider; its tally."""
    spider = SiteSpider()
    spider.sitemap_urls = sitemaps
    await site.begin(seeds, spider, **{"max_attempts": 1, "retry_delay_seconds": 0.01, **settings})
    await site.crawl("w1")
    assert (await site.frontier.counts()).unfinished == 0
    return (await site.frontier.report()).tally


async def fetched(site: Any, host: Any) -> list[str]:
    return sorted(record["url"].removeprefix(host.base) for record in await site.records())


async def test_an_index_leads_to_gzip_text_and_feeds(site: Any, host: Any) -> None:
    pages(host, "/1", "/2", "/3", "/4", "/5")
    rss = f"<rss><channel><item><link>{host.base}/3</link></item></channel></rss>"
    atom = f'<feed><entry><link href="{host.base}/4"/></entry></feed>'
    host.page("/1.xml.gz", gzip.compress(urlset([host.base + "/1"])), "Content-Type: application/x-gzip")
    host.page("/2.txt", f"{host.base}/2\n{host.base}/5\n", "Content-Type: text/plain")
    host.page("/3.rss", rss, "Content-Type: application/rss+xml")
    host.page("/4.atom", gzip.compress(atom.encode()), "Content-Encoding: gzip")
    host.page("/index.xml", index(host.base + name for name in ("/1.xml.gz", "/2.txt", "/3.rss", "/4.atom")))
    await crawled(site, host, [host.base + "/index.xml"])
    assert await fetched(site, host) == ["/1", "/2", "/3", "/4", "/5"], "and no record of a sitemap"
    counts = await site.frontier.counts()
    assert (counts.done, counts.failed) == (10, 0), "a sitemap is a request that ends done"


async def test_a_large_sitemap_is_committed_in_parts(site: Any, host: Any) -> None:
    paths = [f"/{number}" for number in range(5_000)]
    host.page("/sitemap.xml", urlset(host.base + path for path in paths))
    spider = SiteSpider()
    spider.sitemap_urls = [host.base + "/sitemap.xml"]
    await site.begin([], spider, max_pages=1)
    await site.crawl("w1")
    counts = await site.frontier.counts()
    assert (counts.done, counts.queued) == (1, 5_000)


@ON_MEMORY
async def test_what_a_sitemap_lists_is_as_deep_as_a_seed(site: Any, host: Any) -> None:
    host.page("/1", '<a href="/2">further</a>')
    host.page("/index.xml", index([host.base + "/sitemap.xml"]))
    host.page("/sitemap.xml", urlset([host.base + "/1"]))
    await crawled(site, host, [host.base + "/index.xml"], max_depth=0)
    assert [(record["depth"], record["referrer"]) for record in await site.records()] == [
        (0, host.base + "/sitemap.xml")
    ]
    assert "/2" not in host.asked()


@ON_MEMORY
@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops"])
async def test_a_sitemap_that_is_not_there_is_dead(site: Any, host: Any, status: str) -> None:
    host.page("/sitemap.xml", urlset([host.base + "/1"]), status=status)
    await crawled(site, host, [host.base + "/sitemap.xml"])
    (failed,) = (await site.failures()).values()
    assert failed.error_class == f"http_{status[0]}xx"


@ON_MEMORY
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<!DOCTYPE html><title>Oh</title>", "not a sitemap: a web page"),
        ('<!DOCTYPE x [<!ENTITY e "x">]><urlset/>', "the sitemap has a DTD"),
        (b"\x1f\x8b broken", "not a valid gzip"),
    ],
)
async def test_what_is_no_sitemap_is_dead_and_says_why(site: Any, host: Any, body: str | bytes, reason: str) -> None:
    host.page("/sitemap.xml", body)
    await crawled(site, host, [host.base + "/sitemap.xml"])
    (failed,) = (await site.failures()).values()
    assert failed.error_class == "sitemap"
    assert reason in failed.error


@ON_MEMORY
async def test_half_a_sitemap_is_better_than_none_and_is_counted(site: Any, host: Any) -> None:
    pages(host, "/1")
    host.page("/sitemap.xml", urlset([host.base + "/1"])[:-4] + b"<&")
    tally = await crawled(site, host, [host.base + "/sitemap.xml"])
    assert await fetched(site, host) == ["/1"]
    assert tally["skipped:sitemap_broken"] == 1


@ON_MEMORY
async def test_a_sitemap_may_be_larger_than_a_page(site: Any, host: Any) -> None:
    pages(host, "/1")
    host.page("/sitemap.xml", urlset([host.base + "/1"]) + b" " * 100_000)
    await crawled(site, host, [host.base + "/sitemap.xml"], max_body_bytes=50_000)
    assert await fetched(site, host) == ["/1"]


@ON_MEMORY
async def test_pages_of_another_site_are_left_out_unless_it_is_a_seeds(site: Any, host: Any, make_site: Any) -> None:
    other, third = make_site(), make_site()
    for one in (host, other, third):
        pages(one, "/1")
    host.page("/sitemap.xml", urlset([host.base + "/1", other.base + "/1", third.base + "/1", "/1#x", "mailto:x"]))
    tally = await crawled(site, host, [host.base + "/sitemap.xml"], [other.base + "/"], allow_private=True)
    assert (other.asked().count("/1"), third.asked()) == (1, [])
    assert (tally["skipped:other_site"], tally["skipped:scheme"]) == (1, 1)


@ON_MEMORY
async def test_indexes_in_indexes_end_some_day(site: Any, host: Any) -> None:
    for level in range(6):
        host.page(f"/{level}.xml", index([f"{host.base}/{level + 1}.xml", f"{host.base}/0.xml"]))
    tally = await crawled(site, host, [host.base + "/0.xml"])
    assert [path for path in host.asked() if path != "/robots.txt"] == ["/0.xml", "/1.xml", "/2.xml"]
    assert tally["skipped:sitemap_too_deep"] == 2


# ---- robots.txt


async def test_sitemaps_of_robots_txt_are_read_when_asked_without_reading_it_twice(
    site: Any, host: Any, make_site: Any
) -> None:
    cdn = make_site()
    pages(host, "/", "/1", "/2")
    host.page("/robots.txt", f"User-agent: *\nDisallow: /2\nSitemap: {cdn.base}/s.xml\nSitemap: /own.xml\n")
    host.page("/own.xml", urlset([host.base + "/2"]))
    cdn.page("/s.xml", index([cdn.base + "/t.xml"]))
    cdn.page("/t.xml", urlset([host.base + "/1"]))
    await crawled(site, host, ["robots"], [host.base + "/"], allow_private=True)
    assert await fetched(site, host) == ["/", "/1"], "the other host's robots.txt vouches for its sitemap elsewhere"
    assert (await site.frontier.counts()).excluded == 1
    assert host.asked().count("/robots.txt") == 1
    # Again, with a robots.txt that is still believed.
    await crawled(site, host, ["robots"], [host.base + "/"], allow_private=True, fresh=True)
    assert host.asked().count("/1") == 2
    assert host.asked().count("/robots.txt") == 1


@ON_MEMORY
async def test_nobody_asks_for_sitemaps_unless_told_to(site: Any, host: Any) -> None:
    pages(host, "/", "/1")
    host.page("/robots.txt", "Sitemap: /own.xml\n")
    await crawled(site, host, [], [host.base + "/"])
    assert "/own.xml" not in host.asked()


@ON_MEMORY
async def test_a_job_that_ignores_robots_reads_it_for_its_sitemaps_only(site: Any, host: Any) -> None:
    pages(host, "/1")
    host.page("/robots.txt", "User-agent: *\nDisallow: /\nSitemap: /own.xml\n")
    host.page("/own.xml", urlset([host.base + "/1"]))
    await crawled(site, host, [host.base + "/robots.txt"], obey_robots=False)
    assert await fetched(site, host) == ["/1"]
    assert host.asked().count("/robots.txt") == 1


@ON_MEMORY
async def test_a_sitemap_that_robots_txt_forbids_is_excluded(site: Any, host: Any) -> None:
    host.page("/robots.txt", "User-agent: *\nDisallow: /sitemap\n")
    await crawled(site, host, [host.base + "/sitemap.xml"])
    assert (await site.frontier.counts()).excluded == 1
    assert host.asked() == ["/robots.txt"]


# ---- spiders


class Choosy(Spider):
    """Starts elsewhere too, and takes some pages of its sitemap only."""

    def start(self) -> Any:
        yield from ()

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}

    def parse_sitemap(self, response: Any) -> Any:
        for found in super().parse_sitemap(response):
            yield type(found)(url for url in found if "/keep/" in url)


@ON_MEMORY
async def test_a_spider_names_its_sitemaps_and_may_choose_among_their_pages(site: Any, host: Any) -> None:
    pages(host, "/keep/1", "/drop/2")
    host.page("/sitemap.xml", urlset([host.base + "/keep/1", host.base + "/drop/2"]))
    spider = Choosy()
    spider.sitemap_urls = [host.base + "/sitemap.xml"]
    await site.begin([], spider)
    await site.crawl("w1")
    assert await fetched(site, host) == ["/keep/1"]


@ON_MEMORY
async def test_a_sitemap_of_a_million_elements_lets_others_go_on_and_says_where_it_ended(site: Any, host: Any) -> None:
    pages(host, "/1")
    crowded = urlset([host.base + "/1"])[: -len("</urlset>")] + b"<a/>" * 1_100_000
    host.page("/sitemap.xml", crowded)
    gaps: list[float] = []

    async def watching() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    watcher = asyncio.create_task(watching())
    try:
        tally = await crawled(site, host, [host.base + "/sitemap.xml"])
    finally:
        watcher.cancel()
    assert await fetched(site, host) == ["/1"]
    assert tally["skipped:sitemap_too_many"] == 1
    # It takes 0.8 s in all; what is read in one go, a fiftieth of that.
    assert max(gaps) < 0.4


@ON_MEMORY
async def test_a_gzip_bomb_is_left_out_and_counted(site: Any, host: Any) -> None:
    pages(host, "/1")
    bomb = urlset([host.base + "/1"])[: -len("</urlset>")] + b"<a/>" * 12_900_000
    host.page("/sitemap.xml.gz", gzip.compress(bomb), "Content-Type: application/x-gzip")
    tally = await crawled(site, host, [host.base + "/sitemap.xml.gz"])
    assert await fetched(site, host) == ["/1"]
    assert tally["skipped:sitemap_too_large"] == 1


@ON_MEMORY
async def test_a_robots_txt_names_so_many_sitemaps_and_no_more(
    site: Any, host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitemaps, "MAX_NAMED", 2)
    pages(host, "/1", "/2", "/3")
    lines = [f"Sitemap: {host.base}/{number}.xml\n" for number in (1, 2, 3)]
    host.page("/robots.txt", "".join(lines))
    for number in (1, 2, 3):
        host.page(f"/{number}.xml", urlset([f"{host.base}/{number}"]))
    tally = await crawled(site, host, [host.base + "/robots.txt"])
    assert await fetched(site, host) == ["/1", "/2"]
    assert tally["skipped:sitemap_too_many"] == 1
