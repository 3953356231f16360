"""Answers that once held a worker for seconds or minutes, from a real server: each costs its page, and no time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from skitter.model.request import Fingerprinter, Request

ON_MEMORY = pytest.mark.parametrize("site", ["memory"], indirect=True)
NAMES = "".join(map(chr, range(0x4E00, 0x9E00)))
"""All different: their conversion to ASCII takes the square of their number."""


async def crawled(site: Any, host: Any, **settings: Any) -> float:
    """A whole crawl from "/"; the seconds of CPU that it took."""
    began = time.thread_time()
    await site.begin([host.base + "/"], max_attempts=1, traps="strict", **settings)
    await site.crawl("w1")
    return time.thread_time() - began


@ON_MEMORY
@pytest.mark.parametrize(
    "header",
    [
        "Content-Type: text/html; charset=" + " " * 99_000 + ";x",
        "Content-Type: text/html;" + "charset" * 14_000,
        "X-Robots-Tag: " + "a:" * 49_000,
        "Link: " + '<x>; rel="' * 9_900,
        "Link: </x" + " " * 90_000 + ">; rel=canonical",
    ],
    ids=["charset and blanks", "charset again and again", "directives", "links", "canonical"],
)
async def test_a_header_costs_its_page_no_time(site: Any, host: Any, header: str) -> None:
    host.page("/", '<a href="/1">x</a>', header)
    host.page("/1", "a page")
    seconds = await crawled(site, host, obey_noindex=True)
    assert host.base + "/1" in await site.done()
    # Usual: 0.05 s. With the first one of these it was 40 s.
    assert seconds < 3


@ON_MEMORY
async def test_links_and_redirects_to_endless_names_cost_no_time(site: Any, host: Any) -> None:
    escaped = "%" + NAMES[:10_000].encode().hex("%")
    host.page("/", f'<a href="http://{NAMES}/">x</a> <a href="/1">y</a> <base target=x> <a href="//{NAMES}">z</a>')
    host.page("/1", "", f"Location: http://{escaped}/", status="302 Found")
    seconds = await crawled(site, host)
    assert (await site.frontier.report()).tally["skipped:too_long"] == 2
    (failed,) = (await site.failures()).values()
    assert (failed.error_class, "too_long" in failed.error) == ("redirect", True)
    # Usual: 0.1 s. It was 5 s.
    assert seconds < 2


@ON_MEMORY
async def test_dates_of_queries_cost_no_time(site: Any, host: Any) -> None:
    links = "".join(f'<a href="/?{number}{"?" * 1_900}">x</a>' for number in range(100))
    host.page("/", links)
    seconds = await crawled(site, host, max_pages=1)
    assert (await site.frontier.counts()).queued == 100
    # Usual: 0.1 s. It was 20 s.
    assert seconds < 3


@ON_MEMORY
async def test_a_robots_txt_of_wildcards_excludes_and_says_why(site: Any, host: Any) -> None:
    rules = "".join(f"Disallow: /*{'a' * 49}{number:05d}{'a' * 40}\n" for number in range(4_700))
    host.page("/robots.txt", "User-agent: *\n" + rules, "Content-Type: text/plain")
    host.page(
        "/", "".join(f'<a href="/{number}/{"a" * 1_900}">x</a>' for number in range(100)) + '<a href="/short">y</a>'
    )
    host.page("/short", "a page")
    seconds = await crawled(site, host)
    assert host.base + "/short" in await site.done()
    assert (await site.frontier.counts()).excluded == 100
    request = Request(f"{host.base}/1/{'a' * 1_900}")
    trace = await site.frontier.trace(Fingerprinter(site.job.secret).entry(request).id, host.base)
    assert trace.error_class == "robots"
    assert "too many rules with *" in trace.error
    # Usual: 1.5 s. It was 15 s.
    assert seconds < 8
