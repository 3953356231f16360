"""``--cache``: what was fetched once is not asked for again, and a site's delay does not count for it."""

from __future__ import annotations

import time
from typing import Any


def test_a_second_crawl_asks_for_nothing(skitter: Any, site: Any) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /private", content_type="text/plain")
    site.page(
        "/", "".join(f"<a href='/{n}'>" for n in range(30)) + "<a href='/moved'><a href='/gone'><a href='/private'>"
    )
    for n in range(30):
        site.page(f"/{n}", f"<title>{n}</title>")
    site.page("/moved", status=301, location="/1")
    words = ("crawl", site.url(), "--job", "j", "--cache", "pages", "--fresh", "-O", "out.jsonl")
    first = skitter.json(*words)
    assert (first["pages"], first["cached"], first["failed"]) == (31, 0, 1)
    items = sorted((item["url"], item["title"]) for item in skitter.lines("out.jsonl"))
    before = len(site.seen)
    # With another job, two workers and a delay that would take a minute.
    began = time.monotonic()
    words = ("crawl", site.url(), "--job", "k", "--cache", "pages", "--workers", 2, "--delay", 2, "-O", "out.jsonl")
    second = skitter.json(*words)
    assert time.monotonic() - began < 30
    assert (second["pages"], second["cached"], second["excluded"], second["bytes"]) == (31, 32, 1, 0)
    assert [seen.path for seen in site.seen[before:]] == ["/gone"], "an error is asked for again"
    assert sorted((item["url"], item["title"]) for item in skitter.lines("out.jsonl")) == items
    assert "32 responses from the cache" in skitter.run("status", "--job", "k").stdout
    # Single pages come from it too, and what is too old does not.
    before = len(site.seen)
    assert skitter.run("shell", site.url("/3"), "--cache", "pages", "-c", "response.title").stdout == "3\n"
    assert len(site.seen) == before
    skitter.run("fetch", site.url("/3"), "--cache", "pages", "--cache-seconds", "0.001")
    assert [seen.path for seen in site.seen[before:]] == ["/robots.txt", "/3"]
    refused = skitter.run("crawl", site.url(), "--cache", "pages", "--recrawl", code=2).stderr
    assert "error: cached pages never change, so --cache cannot be used with --recrawl" in refused
    (skitter.folder / "file").write_text("")
    refused = skitter.run("crawl", site.url(), "--cache", "file/pages", code=2).stderr
    assert "error: the cache folder cannot be used: cache_dir=file/pages: " in refused
