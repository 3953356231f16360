"""``--cache``: what was fetched once is not asked for again, and a site's delay does not count for it."""

from __future__ import annotations

from typing import Any

PAGES = 200


def test_a_second_crawl_asks_for_nothing(skitter: Any, site: Any) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /private", content_type="text/plain")
    site.page(
        "/", "".join(f"<a href='/{n}'>" for n in range(PAGES)) + "<a href='/moved'><a href='/gone'><a href='/private'>"
    )
    for n in range(PAGES):
        site.page(f"/{n}", f"<title>{n}</title>")
    site.page("/moved", status=301, location="/1")
    words = ("crawl", site.url(), "--job", "j", "--cache", "pages", "--fresh", "--delay", 0, "-O", "out.jsonl")
    first = skitter.json(*words)
    assert (first["pages"], first["cached"], first["failed"]) == (PAGES + 1, 0, 1)
    items = sorted((item["url"], item["title"]) for item in skitter.lines("out.jsonl"))
    before = len(site.seen)
    # With another job, two workers, and a delay that for so many pages would take longer than a command may.
    words = ("crawl", site.url(), "--job", "k", "--cache", "pages", "--workers", 2, "--delay", 2, "-O", "out.jsonl")
    second = skitter.json(*words)
    assert (second["pages"], second["cached"], second["excluded"], second["bytes"]) == (PAGES + 1, PAGES + 2, 1, 0)
    assert [seen.path for seen in site.seen[before:]] == ["/gone"], "an error is asked for again"
    assert sorted((item["url"], item["title"]) for item in skitter.lines("out.jsonl")) == items
    assert f"{PAGES + 2} responses from the cache" in skitter.run("status", "--job", "k").stdout
    # Single pages come from it too, and what is too old does not.
    before = len(site.seen)
    assert skitter.run("shell", site.url("/3"), "--cache", "pages", "-c", "response.title").stdout == "3\n"
    assert len(site.seen) == before
    skitter.run("fetch", site.url("/3"), "--cache", "pages", "--cache-seconds", "0.001")
    assert [seen.path for seen in site.seen[before:]] == ["/robots.txt", "/3"]
