"""``--include`` and ``--exclude``: which links are followed, what is counted, and what a resumed job keeps."""

from __future__ import annotations

from typing import Any

import pytest

LIST = "<a href='/book/1'>1</a><a href='/book/2'>2</a><a href='/cart'>c</a><a href='/old'>o</a><a href='/moved'>m</a>"


@pytest.mark.parametrize("frontier", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def test_links_are_chosen_and_what_is_left_out_is_counted(
    skitter: Any, site: Any, services: Any, tmp_path: Any, frontier: str
) -> None:
    site.page("/", LIST)
    site.page("/list?page=2", "<a href='/book/3'>")
    site.page("/book/1", "<a href='/list?page=2'><a href='/book/1/reviews'>")
    site.page("/book/2", "book")
    site.page("/moved", status=302, location="/cart")
    url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
    place = ("--frontier", url, "--job", tmp_path.name)
    words = ("--include", "/book/", "--include", "/moved", "--exclude", "reviews$", "-q")
    # The job is left after a page, and a worker that knows nothing of the options goes on with it.
    skitter.run("crawl", site.url(), *place, *words, "--max-pages", 1, "--concurrency", 1)
    skitter.run("set", "max_pages=none", *place)
    skitter.run("resume", *place)
    skitter.run("worker", *place, "-q")
    assert sorted(site.paths()) == ["/", "/book/1", "/book/2", "/moved"]
    tally = skitter.json("status", *place)["tally"]
    assert (tally["outside:include"], tally["outside:exclude"]) == (4, 1)
    assert "include 4" in skitter.run("status", *place).stdout
    why = skitter.run("why", site.url("/cart"), *place).stdout
    assert "links to it are not followed: no match for --include: /book/ /moved" in why
    why = skitter.run("why", site.url("/book/1/reviews"), *place).stdout
    assert "links to it are not followed: matches --exclude: reviews$" in why


def test_seeds_and_sitemaps_are_read_whatever_their_urls_are(skitter: Any, site: Any) -> None:
    kinds = {"content_type": "application/xml"}
    site.page(
        "/sitemap.xml", f"<sitemapindex><sitemap><loc>{site.url('/part.xml')}</loc></sitemap></sitemapindex>", **kinds
    )
    urls = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in ("/book/1", "/cart"))
    site.page("/part.xml", f"<urlset>{urls}</urlset>", **kinds)
    for path in ("/start", "/book/1", "/cart"):
        site.page(path, "page")
    words = ("--sitemap", site.url("/sitemap.xml"), "--include", "/book/", "--ignore-robots", "-q", "--job", "j")
    skitter.run("crawl", site.url("/start"), *words)
    assert sorted(site.paths()) == ["/book/1", "/part.xml", "/sitemap.xml", "/start"]


def test_a_site_whose_root_only_refreshes_is_crawled(skitter: Any, site: Any) -> None:
    site.page("/", '<title>Shop</title><meta http-equiv="refresh" content="0; url=/en/">')
    site.page("/en/", '<noscript><meta http-equiv=refresh content="0; url=/old/"></noscript><a href=/en/book>book</a>')
    site.page("/en/book", "book", refresh="3; url=/en/reader")
    site.page("/en/reader", "<meta http-equiv=refresh content=60><meta http-equiv=refresh content='0; url=/never'>")
    summary = skitter.json("crawl", site.url(), "-o", "out.jsonl", "--job", "a")
    assert (summary["pages"], site.paths()) == (4, ["/", "/en/", "/en/book", "/en/reader"])
    assert [record["depth"] for record in skitter.lines("out.jsonl")] == [0, 1, 2, 3]
    # Its links are followed by the rules for links, and not at all where nobody wants it.
    for words in (("--max-depth", 0), ("--exclude", "/en/"), ("--set", "max_refresh_seconds=none")):
        assert skitter.json("crawl", site.url(), "--fresh", "--job", "b", *words)["pages"] == 1
    nofollow = '<meta name=robots content=nofollow><meta http-equiv=refresh content="0; url=/en/">'
    site.page("/", nofollow)
    assert skitter.json("crawl", site.url(), "--job", "c", "--set", "obey_nofollow=true")["pages"] == 1


def test_rules_of_a_spider_follow_a_refresh(skitter: Any, site: Any) -> None:
    site.page("/", '<meta http-equiv="refresh" content="0; url=/en/">')
    site.page("/en/", "welcome")
    code = f"""
from skitter import Rule, Spider

class Shop(Spider):
    name = "shop"
    start_urls = ["{site.url()}"]
    rules = [Rule("/en/", callback="parse_page")]

    def parse_page(self, response):
        yield {{"url": response.url}}
"""
    skitter.write("shop.py", code)
    assert skitter.json("crawl", "shop.py", "-o", "out.jsonl")["items"] == 1
