"""A public host gets two requests at a time, half a second apart, where nobody has set a pace; by the server's log.

The server is the proxy of each crawl, so a made-up name leads to it without a lookup.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from rig.web import Held, Site

DELAY_SECONDS = 0.5
AT_ONCE = 2
PAGES = 3
PER_HOST = 8
HOST = "http://books.example"
FRONTIERS = ("sqlite", "redis")
Crawl = Callable[..., tuple[Any, Site, Held, Sequence[object]]]


@pytest.fixture
def crawl(start, make_site, services) -> Crawl:
    """Start a crawl of so many pages of the made-up host, and return its process, its server, the pages, which wait for
    the test, and the options of its job."""

    def begin(frontier: str, pages: int, *options: object) -> tuple[Any, Site, Held, Sequence[object]]:
        site = make_site({f"{HOST}/robots.txt": (404, {}, b"")})
        held = site.hold("*", (200, {"Content-Type": "text/html"}, b"a page"))
        url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
        job = ("--frontier", url, "--job", f"public-{uuid.uuid4().hex[:8]}")
        seeds = [f"{HOST}/{page}" for page in range(pages)]
        return start("crawl", *seeds, *job, "--set", f"proxy={site.base}", *options), site, held, job

    return begin


def test_a_public_host_gets_two_requests_at_a_time_and_a_delay(skitter, crawl: Crawl, until) -> None:
    crawls = [crawl(frontier, PAGES) for frontier in FRONTIERS]
    for process, site, _, job in crawls:
        site.wait_until(lambda site=site: site.under_way == AT_ONCE)
        # The delay is over, and the frontier grants nothing more.
        until(lambda job=job: not skitter.json("status", *job)["hosts"][0]["due_seconds"], process)
        (host,) = skitter.json("status", *job)["hosts"]
        assert (host["in_flight"], host["queued"]) == (AT_ONCE, PAGES - AT_ONCE)
    for _, _, held, _ in crawls:
        held.release()
    for process, site, _, _ in crawls:
        first_line = process.communicate(timeout=HANG_SECONDS)[1].splitlines()[0]
        assert "; public hosts: 2 requests at a time, 0.5 s apart (--delay" in first_line
        assert "; no contact in the user agent (--set contact=" in first_line
        assert process.returncode == 0
        assert site.most_at_once == AT_ONCE
        robots, *pages = [seen.at for seen in site.seen]
        assert len(pages) == PAGES
        # Counted from robots.txt, which was answered before the first page was granted. A server that is late to look
        # at its clock makes a gap between two pages look shorter, but none of these.
        assert all(at - robots >= place * DELAY_SECONDS for place, at in enumerate(pages, start=1))


def test_with_a_delay_of_zero_it_gets_as_many_as_before(crawl: Crawl) -> None:
    for process, site, held, _ in [crawl(frontier, PER_HOST + 1, "--delay", 0) for frontier in FRONTIERS]:
        site.wait_until(lambda site=site: site.under_way == PER_HOST)
        held.release()
        assert "public hosts" not in process.communicate(timeout=HANG_SECONDS)[1].splitlines()[0]
        assert (process.returncode, site.most_at_once) == (0, PER_HOST)
