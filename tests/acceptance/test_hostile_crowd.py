"""One good host beside eight that do everything an audit has found, all at once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from skitter.testing.web import ServedWeb, WebSpec, served

GOOD_PAGES = 200
BAD_HOSTS = 8
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
HTML = b"Content-Type: text/html"
LONG = 99_000
"""Near the longest header line that is read."""
STARS = "Disallow: " + "*a" * 4
RULES = "\n".join(f"{STARS}*{number:x}z$" for number in range(20_000))
SITEMAP = gzip.compress(b"<urlset>" + b"<url/>" * 4_000_000 + b"</urlset>")


FAILED = {
    "bomb": "too_large",
    "circle": "redirect",
    "cut": "truncated",
    "headers": "too_large",
    "junk": "protocol",
    "location": "redirect",
}
"""The other pages are only strange, and done."""


def answer(body: bytes, *headers: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return OK + b"".join(header + b"\r\n" for header in (*headers, length)) + b"\r\n" + body


def hostile_pages(base: str, rules: str) -> dict[str, bytes]:
    """What a bad host says, by path; nothing comes behind what it says, and the connection is closed."""
    page = b"<a href='/next'>next</a>"
    packed = gzip.compress(bytes(60_000_000))
    pages = {
        # Expressions that went back and forth.
        "/charset": answer(page, b"Content-Type: text/html; charset=" + b" " * LONG + b";x"),
        "/meta": answer(b"<meta " + b"charset " * 120 + page, HTML),
        "/comment": answer(b"<!--" * 250_000, HTML),
        "/link": answer(page, HTML, b"Link: " + b"<" * LONG),
        "/rel": answer(page, HTML, b'Link: <x>;rel="' + b" canonical" * (LONG // 10)),
        "/tag": answer(page, HTML, b"X-Robots-Tag: " + b"a:" * (LONG // 2)),
        "/location": b"HTTP/1.1 302 Go\r\nConnection: close\r\nLocation: /" + b"?" * LONG + b"\r\n\r\n",
        # Too much of everything.
        "/headers": OK + b"".join(b"X-%d: y\r\n" % number for number in range(9_000)) + b"\r\n",
        "/cookies": answer(page, HTML, *(b"Set-Cookie: a%d=b" % number for number in range(3_000))),
        "/bomb": answer(packed, HTML, b"Content-Encoding: gzip"),
        "/nested": answer(b"<div>" * 200_000, HTML),
        "/fonts": answer(b"".join(b"<font x=%d>" % number for number in range(20_000)), HTML),
        "/attributes": answer(b"<a " + b" ".join(b"a%d=1" % number for number in range(100_000)) + b">", HTML),
        "/links": answer(b"".join(b"<a href='/%s'>x</a>" % (b"?&" * 1_900) for _ in range(50)), HTML),
        # Answers that are none.
        "/junk": b"\0" * 10_000,
        "/cut": OK + b"Content-Length: 1000000\r\n\r\nnot so many",
        "/circle": b"HTTP/1.1 302 Go\r\nConnection: close\r\nLocation: /circle\r\n\r\n",
        "/inside": b"HTTP/1.1 307 Go\r\nConnection: close\r\nLocation: http://169.254.169.254/\r\n\r\n",
        "/next": answer(b"the end", HTML),
    }
    pages["/sitemap.xml.gz"] = answer(SITEMAP, b"Content-Type: application/gzip")
    robots = f"User-agent: *\nSitemap: {base}/sitemap.xml.gz\n{rules}"
    pages["/robots.txt"] = answer(robots.encode(), b"Content-Type: text/plain")
    pages["/"] = answer("".join(f'<a href="{path}">x</a>' for path in pages if path != "/robots.txt").encode(), HTML)
    return pages


def seconds_of(skitter: Any, web: ServedWeb, job: str, *seeds: str) -> float:
    """How long the good host's pages took, from the first to the last, in a crawl of these seeds as well."""
    before = len(web.log())
    skitter.run(
        *("crawl", web.urls[0], *seeds, "--sitemap", "robots", "--job", job, "--per-host", 2),
        *("--set", "traps=strict", "--set", "timeout_seconds=5", "--set", "host_backoff_seconds=1"),
        code=None,
    )
    times = [hit.at for hit in web.log()[before:] if hit.path.startswith("/p/")]
    assert len(times) >= GOOD_PAGES - 1, "all but the seed"
    assert max(later - earlier for earlier, later in pairwise(times)) < 20, "never held up for long"
    return times[-1] - times[0]


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_good_host_keeps_half_its_speed_beside_eight_that_do_it_all(
    skitter, make_site: Callable[..., Any], tmp_path: Path
) -> None:
    spec = WebSpec.plain(hosts=1, pages_per_host=GOOD_PAGES, latency_seconds=0.1)
    bad = [make_site(keep=False) for _ in range(BAD_HOSTS)]
    for number, server in enumerate(bad):
        # Half of them forbid, by more rules than anybody reads: of those, nothing is asked for.
        server.answers |= hostile_pages(server.url(""), RULES if number % 2 else "")
    seeds = [server.url() for server in bad]
    with served(spec, log_path=tmp_path / "log") as web:
        alone = seconds_of(skitter, web, "alone")
        beside = seconds_of(skitter, web, "beside", *seeds)
    assert beside < 2 * alone
    counts = skitter.json("status", "--job", "beside")
    assert counts["state"] == "finished"
    assert counts["queued"] + counts["delayed"] + counts["leased"] == 0
    failed = [json.loads(line) for line in skitter.run("failed", "--job", "beside", "--json").stdout.splitlines()]
    assert all(record["error_class"] and record["error"] for record in failed), "each has its reason"
    assert "lost" not in {record["error_class"] for record in failed}, "none had to be found by killing workers"
    of_the_first = {
        record["url"].removeprefix(seeds[0]): record["error_class"]
        for record in failed
        if record["url"].startswith(seeds[0])
    }
    # The sitemap has failed too if it was asked for as one, and not met as a link before.
    assert {path: kind for path, kind in of_the_first.items() if not path.startswith("sitemap")} == FAILED
    assert counts["excluded"] >= BAD_HOSTS // 2, "the seeds of those that forbid"
