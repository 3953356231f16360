"""Options of requests, errbacks and keys of Scrapy's meta, in crawls of the real command line."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl

import pytest

from rig.web_faults import silent

QUICK = ("--set", "retry_delay_seconds=0.02", "--set", "host_backoff_seconds=0.1", "--ignore-robots")

SPIDER = """
from skitter import Request, Spider

class Shop(Spider):
    name = "shop"

    def start(self):
        url = lambda path: self.base + path
        failed = {"errback": "failed"}
        yield Request(url("/form"), "echo", form=[("q", "\\u00e4 b"), ("t", 1), ("t", 2)])
        yield Request(url("/query?a=1"), "echo", method="GET", form={"b": 2})
        yield Request(url("/json"), "echo", json={"page": 1})
        yield Request(url("/files"), "echo", form={"a": "1"}, files={"f": ("x.txt", b"content", "text/plain")})
        yield Request(url("/slow?short"), timeout=0.3, max_attempts=1, **failed)
        yield Request(url("/slow?long"), timeout=20)
        yield Request(url("/500?twice"), max_attempts=2, **failed)
        yield Request(url("/500?six"), max_attempts=6)
        yield Request(url("/500?handled"), handle_statuses=[500])
        yield Request(url("/429?once"), max_attempts=1, **failed)
        yield Request(url("/302?handled"), handle_statuses="all")
        yield Request(url("/404?plain"), **failed)
        yield Request(url("/404?broken"), errback="broken")
        yield Request(url("/callback"), "wrong", **failed)
        yield Request(url("/418"), **failed)
        yield Request(url("/500?scrapy"), meta={"handle_httpstatus_list": [500], "max_retry_times": 2})
        yield Request(url("/302?scrapy"), meta={"dont_redirect": True}, **failed)
        yield Request(url("/slow?scrapy"), meta={"download_timeout": 0.3, "dont_retry": True}, **failed)

    def parse(self, response):
        yield {"url": response.url, "status": response.status}

    def echo(self, response):
        yield response.json()

    def wrong(self, response):
        yield {"never": "kept"}
        raise ValueError("the shelf is empty")

    async def failed(self, failure):
        yield {"failed": failure.request.url, "class": failure.error_class, "message": failure.message[-40:]}
        yield Request(self.base + "/rescue", "rescued")

    def rescued(self, response):
        yield {"rescued": response.url}

    def broken(self, failure):
        yield {"never": "kept"}
        raise KeyError("the errback fails too")
"""


def echo(seen, _connection):
    import json

    told = {
        "path": seen.path,
        "method": seen.method,
        "body": seen.body.decode(),
        "type": seen.headers.get("content-type"),
    }
    return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()


@pytest.fixture
def shop(site):
    for path in ("/form", "/query", "/json", "/files"):
        site.on(path, echo)
    site.on("/slow", slow)
    for status in (404, 418, 429, 500):
        site.page(f"/{status}", "no", status=status)
    site.page("/302", "moved", status=302, Location="/rescue")
    site.page("/callback", "page")
    site.page("/rescue", "page")
    return site


def slow(seen, connection):
    if "long" in seen.path:
        # Longer than the setting permits, and shorter than the request does.
        connection.socket.settimeout(1.5)
        try:
            connection.read(1)
        except TimeoutError:
            return 200, {}, b"at last"
    return silent(seen, connection)


def test_what_a_request_asks_for_holds_for_it_alone(skitter, shop) -> None:
    skitter.write("shop.py", SPIDER)
    options = ("-a", f"base={shop.base}", "-O", "out.jsonl", "--set", "timeout_seconds=1", "--set", "max_attempts=3")
    statuses = ("--set", "retry_statuses=418,429,500-599")
    summary = skitter.json("crawl", "shop.py", *QUICK, *options, *statuses)
    lines = skitter.lines("out.jsonl")

    sent = {line["path"]: line for line in lines if "path" in line}
    form = "application/x-www-form-urlencoded"
    assert (sent["/form"]["method"], sent["/form"]["type"]) == ("POST", form)
    assert parse_qsl(sent["/form"]["body"]) == [("q", "\u00e4 b"), ("t", "1"), ("t", "2")]
    assert sent["/query?a=1&b=2"]["method"] == "GET"
    assert (sent["/json"]["method"], sent["/json"]["body"]) == ("POST", '{"page":1}')
    assert sent["/files"]["type"].startswith("multipart/form-data; boundary=skitter-")
    assert 'filename="x.txt"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n' in sent["/files"]["body"]

    asked = Counter(shop.paths())
    assert {path: asked[path] for path in asked if path.partition("?")[0] not in ("/form", "/query", "/json")} == {
        "/files": 1,
        "/rescue": 1,
        "/callback": 1,
        "/slow?short": 1,
        "/slow?long": 1,
        "/slow?scrapy": 1,
        "/500?twice": 2,
        "/500?six": 6,
        "/500?handled": 1,
        "/500?scrapy": 3,
        "/429?once": 1,
        "/418": 3,
        "/302?handled": 1,
        "/302?scrapy": 1,
        "/404?plain": 1,
        "/404?broken": 1,
    }
    seen = {line["url"].removeprefix(shop.base): line["status"] for line in lines if "status" in line}
    assert seen == {"/slow?long": 200, "/500?handled": 500, "/302?handled": 302, "/500?scrapy": 500}

    told = {line["failed"].removeprefix(shop.base): line["class"] for line in lines if "failed" in line}
    assert told == {
        "/slow?short": "timeout",
        "/slow?scrapy": "timeout",
        "/500?twice": "http_5xx",
        "/429?once": "http_4xx",
        "/404?plain": "http_4xx",
        "/callback": "callback",
        "/418": "http_4xx",
        "/302?scrapy": "redirect",
    }
    assert {"rescued": shop.url("/rescue")} in lines
    assert not any("never" in line for line in lines)

    failed = {line["url"].removeprefix(shop.base): line for line in skitter.records("failed", "--job", "shop")}
    assert failed.keys() == {*told, "/500?six", "/404?broken"}
    assert summary["failed"] == len(failed)
    error = failed["/404?broken"]["error"]
    assert error.startswith("HTTP 404")
    assert "the errback fails too" in error
    assert "ValueError: the shelf is empty" in failed["/callback"]["error"]
    assert skitter.json("status", "--job", "shop")["tally"]["failed_errbacks"] == 1


def test_a_retry_comes_after_others_of_its_host(skitter, site) -> None:
    """With ``RETRY_PRIORITY_ADJUST`` and ``RETRY_HTTP_CODES`` of Scrapy."""
    answers = iter([404])
    site.on("/first", lambda _seen, _connection: (next(answers, 200), {}, b"page"))
    for number in range(3):
        site.page(f"/{number}", "page")
    skitter.write("config.py", "RETRY_HTTP_CODES = [404]\nRETRY_PRIORITY_ADJUST = -1\n")
    urls = [site.url(path) for path in ("/first", "/0", "/1", "/2")]
    one = ("--concurrency", 1, "--per-host", 1, "--delay", 0.15, "--config", "config.py")
    summary = skitter.json("crawl", *urls, *QUICK, *one)
    assert (summary["pages"], summary["failed"]) == (4, 0)
    assert site.paths() == ["/first", "/0", "/1", "/2", "/first"]
