"""Hooks by the command line: the recipes of the how-to page in one crawl, what operators see, limits, memory."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "hooks.md"
BLOCK = re.compile(r"^```(python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLASSES = (
    "plain_urls:PlainUrls captcha:Captcha page_cache:PageCache user_agents:UserAgents signed:Signed"
    " small_only:SmallOnly html_only:HtmlOnly price_counts:PriceCounts from_archive:FromArchive alerts:Alerts"
).split()
SPIDER = """
import skitter

class Books(skitter.Spider):
    name = "books"
    start_urls = [%r]

    def parse(self, response):
        if b"a broken page" in response.body:
            raise ValueError("a broken page")
        yield {"path": response.url.partition("/")[2].partition("/")[2].partition("/")[2],
               "price": response.css("b::text").get(), "cache": response.headers.get("X-Cache")}
        yield response.links()
"""
SEEN = "/a /b?utm_source=x&id=5 /captcha /film /large /missing /gone /broken"


def samples() -> dict[str, str]:
    return {code.partition("\n")[0].removeprefix("# "): code for _, code in BLOCK.findall(PAGE.read_text())}


def crawl_recipes(skitter: Any, site: Any, *options: Any) -> Any:
    for name, code in samples().items():
        if name.endswith(".py"):
            skitter.write(name, code)
    skitter.write("books.py", SPIDER % site.url("/"))
    environment = os.environ | {"SHOP_KEY": "secret", "ALERT_URL": site.url("/alerts")}
    hooks = ",".join(CLASSES)
    return skitter.run("crawl", "books.py", "--set", f"hooks={hooks}", *options, "--ignore-robots", env=environment)


def test_the_recipes_work_together_and_operators_see_what_they_decide(skitter: Any, site: Any) -> None:
    site.page("/", "".join(f'<a href="{path.replace("&", "&amp;")}">x</a>' for path in SEEN.split()))
    site.page("/a", "<b>5</b>")
    site.page("/b", "<b></b>")
    asked = []
    site.on(
        "/captcha",
        lambda seen, _: (200, {}, b'<p id="captcha">' if not asked.append(seen) and len(asked) < 3 else b"ok"),
    )
    site.page("/film", b"x" * 5000, content_type="video/mp4")
    site.page("/large", b"x" * 1_500_000)
    site.page("/broken", "a broken page")
    skitter.write("archive/missing.html", "<b>7</b>")
    alerts: list[str] = []
    site.on("/alerts", lambda seen, _: (200, {}, b"") if not alerts.append(json.loads(seen.body)["text"]) else None)
    place = ("--job", "books")
    summary = crawl_recipes(skitter, site, "-o", "out.jsonl", "--workers", 2, "--log-format", "json", "--log", "log")
    items = {item["path"]: item for item in skitter.lines("out.jsonl")}
    assert items.keys() == {"", "a", "b?id=5", "captcha", "missing"}, "a URL without utm_source was sent"
    assert items["missing"]["price"] == "7"
    # What went over the wire.
    sent = [seen for seen in site.seen if seen.path != "/alerts"]
    assert {seen.headers["user-agent"] for seen in sent} == {"shop-crawler/1 (desktop)", "shop-crawler/1 (mobile)"}
    for seen in sent:
        text = f"GET {site.url(seen.path)} {seen.headers['x-time']}".encode()
        assert seen.headers["x-signature"] == hmac.new(b"secret", text, hashlib.sha256).hexdigest()
    assert len(asked) == 3
    # What operators see.
    status = skitter.json("status", *place)
    assert status["decisions"] == {
        "answer:FromArchive.on_error": 1,
        "drop:no text": 1,
        "drop:too large": 1,
        "retry:captcha": 2,
    }
    assert status["stats"] == {"with price": 2, "without price": 3}
    assert status["errors"] == {"callback": 1, "dropped": 2, "http_4xx": 1}
    text = skitter.run("status", *place).stdout
    assert "hooks: retry:captcha 2, answer:FromArchive.on_error 1, drop:no text 1, drop:too large 1" in text
    assert "counters: without price 3, with price 2" in text
    assert "counters: without price 3, with price 2" in summary.stderr
    rows = map(json.loads, skitter.run("failed", *place, "--json").stdout.splitlines())
    failed = {row["url"].removeprefix(site.base): row for row in rows}
    assert (failed["/film"]["error_class"], failed["/film"]["error"]) == ("dropped", "no text")
    why = skitter.run("why", site.url("/large"), *place, code=None).stdout
    assert "dropped" in why
    assert "too large" in why
    # What was told: of the broken page by a worker, and of the end once.
    assert [text for text in alerts if "a broken page" in text]
    assert [text for text in alerts if "finished" in text] == ["books: finished: 5 pages, 5 items, 4 failed"]

    # Again: what is in the cache is not asked for.
    before = len(site.seen)
    crawl_recipes(skitter, site, "-o", "again.jsonl")
    cached = {item["path"]: item["cache"] for item in skitter.lines("again.jsonl")}
    assert cached == dict.fromkeys(items, "hit") | {"missing": None}
    again = {seen.path for seen in site.seen[before:] if seen.path != "/alerts"}
    assert again == {"/film", "/large", "/missing", "/gone"}


def test_the_settings_of_the_page_are_settings(skitter: Any, site: Any) -> None:
    site.page("/", "")
    skitter.write("skitter.toml", samples()["skitter.toml"])
    summary = skitter.json("crawl", site.url("/"), "--ignore-robots", "--json")
    assert summary["state"] == "finished"


def test_a_limit_stops_the_job_with_its_reason(skitter: Any, site: Any) -> None:
    urls = []
    for number in range(60):
        site.page(f"/{number}", "x")
        urls.append(site.url(f"/{number}"))
    command = ("crawl", *urls, "--ignore-robots", "--delay", 0.1, "--job", "j", "-o", "out.jsonl")
    summary = skitter.json(*command, "--set", "close_after_items=5", "--json")
    assert (summary["state"], summary["reason"]) == ("stopped", "close_after_items")
    assert 5 <= summary["items"] < 60
    assert "stopped by close_after_items" in skitter.run("status", "--job", "j").stdout
    assert json.loads(skitter.run("status", "--job", "j", "--json").stdout)["reason"] == "close_after_items"
    assert skitter.json(*command, "--delay", 0, "--json")["state"] == "finished"
    assert len(skitter.lines("out.jsonl")) == 60


GROWING = """
import skitter

class Growing(skitter.Spider):
    name = "growing"
    start_urls = [%r]
    kept = []

    def start(self):
        for number in range(24):
            yield skitter.Request(f"{self.start_urls[0]}?{number}")

    def parse(self, response):
        self.kept.append(bytearray(b"x") * 20_000_000)
        self.stats.add("pages")
        yield {"url": response.url}
"""


def test_a_worker_that_has_grown_is_replaced(skitter: Any, site: Any) -> None:
    site.page("/", "x")
    skitter.write("growing.py", GROWING % site.url("/"))
    limits = ("--set", "memory_warning_bytes=150000000", "--set", "memory_limit_bytes=250000000", "--delay", 0.15)
    log = ("--log-format", "json", "--log", "log")
    summary = skitter.json("crawl", "growing.py", "-o", "out.jsonl", *limits, *log, "--ignore-robots", "--json")
    assert (summary["state"], summary["pages"], summary["stats"]) == ("finished", 24, {"pages": 24})
    events = [json.loads(line) for line in (skitter.folder / "log").read_text().splitlines()]
    told = [event["consequence"] for event in events if event["event"] == "worker.memory"]
    assert "memory_warning_bytes is reached" in told
    assert "it finishes its requests in flight, and another one replaces it" in told
    assert len({event["worker"] for event in events if event["event"] == "worker.joined"}) >= 2
    assert not [event for event in events if event["event"] in ("worker.died", "worker.replaced")]
    small = skitter.run("crawl", "growing.py", "--fresh", "--set", "memory_limit_bytes=1000", *limits[4:], code=2)
    assert "a worker needs more memory than its limit before its first page" in small.stderr


def test_a_hook_that_cannot_be_loaded_ends_the_command(skitter: Any, site: Any) -> None:
    for hooks, message in (
        ("nowhere:Hook", "cannot be imported: nowhere:Hook"),
        ("word", "not a hook class: word"),
    ):
        ended = skitter.run("crawl", site.url("/"), "--set", f"hooks={hooks}", code=2)
        assert f"error: {message}" in ended.stderr
        assert "hint:" in ended.stderr
    assert site.seen == []
