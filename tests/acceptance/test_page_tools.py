"""Rules, feeds and JSON, by spiders that use them."""

from __future__ import annotations

from typing import Any

RULES = """
from skitter import Rule, Spider

class Shop(Spider):
    name = "shop"
    start_urls = ["%s/"]
    rules = [
        Rule(r"/item/\\d+$", callback="parse_item"),
        Rule(restrict="nav.categories", deny="/sale/", callback="parse_category", follow=True,
             cb_kwargs={"kind": "nav"}),
        Rule(r"[?&]page=\\d+"),
    ]

    def parse_item(self, response):
        yield {"url": response.url, "name": response.css("h1::text").get()}

    def parse_category(self, response, kind):
        yield {"category": response.css("h1::text").get(), "found_by": kind}
"""
FEED = """
from skitter import Request, Spider

class Feed(Spider):
    name = "feed"
    start_urls = ["%s/feed.xml"]

    def parse(self, response):
        for item in response.css("item"):
            found = {"title": item.css("title").text, "by": item.css("creator::text").get()}
            yield Request(item.css("link").text, callback=self.parse_offers, meta={"found": found})

    def parse_offers(self, response):
        yield {**response.meta["found"], "prices": response.jmespath("offers[?price].price").getall()}
"""


def test_rules_choose_what_is_followed_and_by_which_callback(skitter: Any, site: Any) -> None:
    nav = "<nav class=categories><a href=/books>books</a><a href=/sale/>sale</a></nav>"
    site.page("/", nav + "<a href=/about>about</a><a href='/?page=2'>2</a>")
    site.page("/books", nav + "<h1>Books</h1><a href=/item/1>1</a><a href=/item/2#x>2</a><a href=/item/x>x</a>")
    for number in (1, 2):
        site.page(f"/item/{number}", f"<h1>Item {number}</h1><a href=/item/3>not from here</a>")
    skitter.write("shop.py", RULES % site.base)
    skitter.run("crawl", "shop.py", "-O", "out.jsonl")
    assert sorted(site.paths()) == ["/", "/?page=2", "/books", "/item/1", "/item/2"]
    assert sorted(map(str, skitter.lines("out.jsonl"))) == [
        "{'category': 'Books', 'found_by': 'nav'}",
        f"{{'url': '{site.base}/item/1', 'name': 'Item 1'}}",
        f"{{'url': '{site.base}/item/2', 'name': 'Item 2'}}",
    ]


def test_a_failure_of_a_rules_callback_shows_its_line(skitter: Any, site: Any) -> None:
    site.page("/", "<a href=/a>a</a>")
    site.page("/a", "a")
    skitter.write(
        "shop.py",
        f"""
from skitter import Rule, Spider

class Shop(Spider):
    name = "shop"
    start_urls = ["{site.base}/"]
    rules = [Rule("/a", callback="parse_a", follow=True)]

    def parse_a(self, response):
        yield object()  # this line
""",
    )
    skitter.run("crawl", "shop.py")
    (failed,) = skitter.records("failed", "--job", "shop")
    assert "yield object()  # this line" in failed["error"]
    skitter.write("wrong.py", (skitter.folder / "shop.py").read_text().replace('"/a", callback', '"(a", callback'))
    assert "not a regular expression: '(a'" in skitter.run("crawl", "wrong.py", code=2).stderr


def test_a_feed_and_an_api_are_read_by_their_selectors(skitter: Any, site: Any) -> None:
    feed = """<?xml version="1.0" encoding="iso-8859-2"?><rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
    <item><title>Żółw</title><link>{0}/api/1</link><dc:creator>A</dc:creator></item>
    <item><title>Two</title><link>{0}/api/2</link><dc:creator>B</dc:creator></item></channel></rss>"""
    site.page("/feed.xml", feed.format(site.base).encode("iso-8859-2"), content_type="application/rss+xml")
    for number in (1, 2):
        prices = f'{{"offers": [{{"price": {number}}}, {{"price": null}}]}}'
        site.page(f"/api/{number}", prices, content_type="application/json")
    skitter.write("feed.py", FEED % site.base)
    skitter.run("crawl", "feed.py", "-O", "out.jsonl")
    assert sorted(skitter.lines("out.jsonl"), key=lambda item: item["prices"]) == [
        {"title": "Żółw", "by": "A", "prices": [1]},
        {"title": "Two", "by": "B", "prices": [2]},
    ]
