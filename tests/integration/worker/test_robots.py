"""robots.txt from servers that misbehave on purpose: what is fetched, what is not, and what is counted."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from rig.web import Seen
from rig.web_connection import Connection
from rig.web_faults import cut, response, silent
from skitter.policy.robots import MAX_ROBOTS_BYTES

ON_MEMORY = pytest.mark.parametrize("site", ["memory"], indirect=True)
RULES = "User-agent: *\nDisallow: /secret\n"
IMPATIENT = {"max_attempts": 2, "retry_delay_seconds": 0.01, "host_backoff_seconds": 0.001}


def web(host: Any) -> str:
    """A front page with two links, one of them for RULES."""
    host.page("/", '<a href="/secret">s</a> <a href="/open">o</a>')
    host.page("/secret", "secret")
    host.page("/open", "open")
    return str(host.base + "/")


async def ended(site: Any, seed: str, **settings: Any) -> tuple[int, int, int]:
    """A whole crawl: done, excluded, failed."""
    await site.begin([seed], **IMPATIENT | settings)
    await site.crawl("w1")
    counts = await site.frontier.counts()
    assert counts.unfinished == 0
    return counts.done, counts.excluded, counts.failed


ALLOWED, OBEYED, FAILED = (3, 0, 0), (2, 1, 0), (0, 0, 1)


@ON_MEMORY
@pytest.mark.parametrize("status", ["400 Bad", "401 No", "403 No", "404 Not Found", "410 Gone", "451 No", "418 Teapot"])
async def test_a_client_error_allows_everything(site: Any, host: Any, status: str) -> None:
    host.page("/robots.txt", RULES, status=status)
    assert await ended(site, web(host)) == ALLOWED


@pytest.mark.parametrize("status", ["500 Oops", "502 Bad Gateway", "503 Busy", "504 Late", "429 Slow down", "304 Same"])
async def test_what_cannot_be_read_fetches_nothing_and_the_queue_can_be_revived(
    site: Any, host: Any, status: str
) -> None:
    host.page("/robots.txt", RULES, status=status)
    assert await ended(site, web(host)) == FAILED, "failed, and never excluded"
    assert set(host.asked()) == {"/robots.txt"}
    host.page("/robots.txt", RULES)
    assert await site.frontier.revive() == 1
    await site.crawl("w1")
    counts = await site.frontier.counts()
    assert (counts.done, counts.excluded, counts.failed) == OBEYED


HALF_A_BODY = cut(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nUser-agent: *\nDisallow: /nothing\n")
NOT_HTTP = cut(b"220 mail.example ESMTP\r\n\r\n")
BROKEN_GZIP = (
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"
    + gzip.compress(b"x" * 100, mtime=0)[:12]
    + b"\0" * 8
)


@ON_MEMORY
@pytest.mark.parametrize(
    "answer",
    [cut(), HALF_A_BODY, silent, NOT_HTTP, BROKEN_GZIP],
    ids=["hang_up", "half_a_body", "never_answer", "not_http", "broken_gzip"],
)
async def test_half_an_answer_is_none(site: Any, host: Any, answer: Any) -> None:
    host.on("/robots.txt", answer)
    assert await ended(site, web(host), timeout_seconds=0.5) == FAILED
    assert set(host.asked()) == {"/robots.txt"}


@ON_MEMORY
@pytest.mark.parametrize(
    "answer", [cut(), HALF_A_BODY, response(b"", status="503 Busy")], ids=["hang_up", "half_a_body", "busy"]
)
async def test_what_can_be_read_the_second_time_is_obeyed(site: Any, host: Any, answer: Any) -> None:
    host.on("/robots.txt", answer, response(RULES))
    assert await ended(site, web(host), max_attempts=3, timeout_seconds=5) == OBEYED
    assert host.asked().count("/robots.txt") == 2


@ON_MEMORY
@pytest.mark.parametrize(
    ("body", "headers", "fate"),
    [
        ("<!DOCTYPE html><title>Welcome</title><p>User-agent: *<br>Disallow: /", ["Content-Type: text/html"], ALLOWED),
        (b"\x89PNG\r\n\x1a\n\0\0\0" + bytes(range(256)) * 20, ["Content-Type: image/png"], ALLOWED),
        ("", [], ALLOWED),
        (b"\xef\xbb\xbf" + RULES.replace("\n", "\r").encode(), [], OBEYED),
        (RULES, ["Content-Type: application/octet-stream"], OBEYED),
        (gzip.compress(RULES.encode()), ["Content-Encoding: gzip"], OBEYED),
        (gzip.compress(RULES.encode() + b"#" * 20_000_000, 1), ["Content-Encoding: gzip"], OBEYED),
        (b"User-agent: *\n" + b"#" * (MAX_ROBOTS_BYTES - 30) + b"\nDisallow: /secret\n", [], ALLOWED),
    ],
    ids=["web page", "image", "empty", "BOM and CR", "wrong type", "gzip", "gzip bomb", "rules beyond the limit"],
)
async def test_whatever_is_called_robots_txt(
    site: Any, host: Any, body: str | bytes, headers: list[str], fate: tuple[int, int, int]
) -> None:
    host.page("/robots.txt", body, *headers)
    assert await ended(site, web(host)) == fate


@ON_MEMORY
async def test_a_line_that_the_limit_cuts_says_nothing(site: Any, host: Any) -> None:
    head = b"User-agent: *\n"
    tail = b"\nDisallow: /"
    body = head + b"#" * (MAX_ROBOTS_BYTES - len(head) - len(tail)) + tail + b"nothing-here\n" * 10
    assert body[:MAX_ROBOTS_BYTES].endswith(b"Disallow: /")
    host.page("/robots.txt", body)
    assert await ended(site, web(host)) == ALLOWED


# ---- redirects


@ON_MEMORY
async def test_five_hops_are_followed_also_to_another_host(site: Any, host: Any, make_site: Any) -> None:
    other = make_site()
    for hop in range(4):
        host.page(f"/{hop}" if hop else "/robots.txt", "", f"Location: /{hop + 1}", status="302 Found")
    host.page("/4", "", f"Location: {other.base}/theirs", status="301 Moved")
    other.page("/theirs", RULES)
    other.page("/robots.txt", "User-agent: *\nDisallow: /\n")
    # Both were typed: the network guard has nothing against the other one.
    assert await ended(site, web(host), allow_private=True) == OBEYED, "the first host is governed by what it led to"
    assert other.asked() == ["/theirs"]


@ON_MEMORY
@pytest.mark.parametrize(
    "location",
    ["/robots.txt", "file:///etc/passwd", "http://", "http://169.254.169.254/latest"],
    ids=["a loop", "a file", "no URL", "an address of nobody's business"],
)
async def test_a_redirect_to_nowhere_is_no_file(site: Any, host: Any, location: str) -> None:
    host.page("/robots.txt", RULES, f"Location: {location}", status="302 Found")
    assert await ended(site, web(host)) == ALLOWED


@ON_MEMORY
async def test_a_redirect_without_a_place_is_no_file(site: Any, host: Any) -> None:
    host.page("/robots.txt", RULES, status="301 Moved")
    assert await ended(site, web(host)) == ALLOWED


@ON_MEMORY
async def test_a_redirect_to_an_error_waits_as_the_error_would(site: Any, host: Any) -> None:
    host.page("/robots.txt", "", "Location: /r", status="302 Found")
    host.page("/r", "", status="500 Oops")
    assert await ended(site, web(host)) == FAILED


# ---- once, and for how long


async def test_it_is_read_once_for_all_workers_and_all_runs(site: Any, make_site: Any) -> None:
    hosts = [make_site() for _ in range(3)]
    for host in hosts:
        host.page("/robots.txt", RULES)
        host.page("/", "".join(f'<a href="/{number}">x</a>' for number in range(30)))
        for number in range(30):
            host.page(f"/{number}", "page")
    for run in (1, 2):
        await site.begin([host.base + "/" for host in hosts], fresh=True)
        await site.crawl("w1", "w2", "w3", "w4")
        assert (await site.frontier.counts()).done == 93
        assert [len(host.asked()) for host in hosts] == [1 + 31 * run] * 3
        assert [host.asked().count("/robots.txt") for host in hosts] == [1, 1, 1], f"after run {run}"


async def test_the_last_good_copy_governs_what_is_found_later(site: Any, host: Any) -> None:
    seed = web(host)
    host.on("/robots.txt", response(RULES), response(b"", status="500 Oops"))

    def slow(_seen: Seen, _: Connection) -> bytes:
        # Longer than the file is believed: the links of this page are found when it is old.
        site.clock.ahead_seconds += 21
        return response('<a href="/secret">s</a> <a href="/open">o</a>', "Content-Type: text/html")

    host.on("/", slow)
    assert await ended(site, seed, robots_seconds=20) == OBEYED
    assert "/secret" not in host.asked()
    assert host.asked().count("/robots.txt") == 3, "once, and then as often as a host is tried"


@ON_MEMORY
async def test_a_crawl_delay_is_kept(site: Any, host: Any) -> None:
    host.page("/robots.txt", "User-agent: skitter\nCrawl-delay: 0.2\n")
    started = asyncio.get_running_loop().time()
    assert await ended(site, web(host)) == ALLOWED
    assert asyncio.get_running_loop().time() - started > 0.55, "robots.txt and three pages"
