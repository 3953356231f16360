"""Fetches of a job that recrawls: what is asked, what counts as unchanged, and what is remembered of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from skitter.fetch.contract import FetchRequest
from skitter.model.page_record import PageRecord
from skitter.model.request import Fingerprinter, Request
from skitter.spiders.base import Spider

BASE = "http://a.example"
DAY = 86_400.0
OLD = "Mon, 02 Nov 2026 10:00:00 GMT"
DATE = "Tue, 03 Nov 2026 10:00:00 GMT"


class Follower(Spider):
    """Follows all links from ``/`` on."""

    def __init__(self, **headers: str) -> None:
        super().__init__()
        self.headers = headers
        self.parsed: list[str] = []

    def start(self) -> Any:
        yield Request(f"{BASE}/", headers=self.headers)

    def parse(self, response: Any) -> Any:
        self.parsed.append(response.url.removeprefix(BASE))
        yield {"url": response.url}
        yield response.links()


def tagged(etag: str, body: bytes = b"", **headers: str) -> Any:
    """A page with an ETag, on a server that honours it."""

    def answer(request: FetchRequest) -> Any:
        given = {"ETag": etag, **headers}
        return (304, given, b"") if request.headers.get("If-None-Match") == etag else (200, given, body)

    return answer


async def run(crawl: Any, spider: Spider | None = None, **values: Any) -> list[str]:
    """One run of the job; what was parsed."""
    spider = spider or Follower()
    crawl.fetcher.requests.clear()
    await crawl.begin(spider, fresh=True, **{"recrawl": "all", **values})
    await crawl.run_through()
    parsed: list[str] = spider.parsed  # type: ignore[attr-defined]
    return sorted(parsed)


async def record(crawl: Any, path: str) -> PageRecord:
    request_id = Fingerprinter(crawl.job.secret).fingerprint("GET", BASE + path)
    found: PageRecord = await crawl.frontier.page_record(request_id, BASE)
    assert found is not None
    return found


def sent(crawl: Any, path: str = "/") -> dict[str, str]:
    """The headers of the only request for a path."""
    (request,) = [request for request in crawl.fetcher.requests if request.url == BASE + path]
    headers: dict[str, str] = request.headers
    return headers


async def test_a_page_that_the_server_says_is_not_modified_is_not_parsed(crawl: Any) -> None:
    crawl.fetcher.answers |= {"/": tagged('"1"', b'<a href="/2">', last_modified=OLD), "/2": tagged('"2"')}
    assert await run(crawl) == ["/", "/2"]
    assert sent(crawl) == {}
    crawl.clock.advance(30 * DAY)
    assert await run(crawl) == []
    assert sent(crawl) == {"If-None-Match": '"1"'}
    assert await crawl.places() == {"done": 2}
    assert (await crawl.tally())["unchanged"] == 2
    assert await crawl.items() == []


async def test_nothing_that_is_reachable_is_forgotten_when_pages_are_unchanged(crawl: Any) -> None:
    """The page that links to them is not parsed; one died, one was excluded, one has changed and has a new link."""
    crawl.fetcher.answers |= {
        "/": tagged('"1"', b'<a href="/failed"><a href="/robots"><a href="/changed"><a href="/leaf">'),
        "/failed": 500,
        "/changed": tagged('"1"'),
        "/leaf": tagged('"1"'),
        "/robots.txt": (200, {}, b"User-agent: *\nDisallow: /robots"),
    }
    assert await run(crawl, obey_robots=True) == ["/", "/changed", "/leaf"]
    crawl.clock.advance(30 * DAY)
    crawl.fetcher.answers |= {
        "/robots.txt": 404,
        "/robots": 200,
        "/failed": 200,
        "/changed": tagged('"2"', b'<a href="/new">'),
        "/new": 200,
    }
    assert await run(crawl, obey_robots=True, recrawl="due") == ["/changed", "/failed", "/new", "/robots"]
    assert (await crawl.tally())["unchanged"] == 2


async def test_pages_that_are_not_due_are_not_fetched_but_seeds_are(crawl: Any) -> None:
    crawl.fetcher.answers |= {"/": tagged('"1"', b'<a href="/2">'), "/2": tagged('"2"')}
    await run(crawl, recrawl="due")
    crawl.clock.advance(DAY)
    crawl.fetcher.answers["/"] = tagged('"3"', b'<a href="/2"><a href="/3">')
    assert await run(crawl, recrawl="due") == ["/"]
    assert crawl.fetcher.paths == ["/", "/3"]
    assert await crawl.places() == {"done": 1, "failed": 1}
    crawl.clock.advance(7 * DAY)
    await run(crawl, recrawl="due")
    assert "/2" in crawl.fetcher.paths


async def test_without_validators_the_content_tells(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = (200, {"Set-Cookie": "n=1"}, b"one")
    assert await run(crawl) == ["/"]
    assert await run(crawl) == []
    assert (await crawl.tally())["unchanged"] == 1
    assert not (await record(crawl, "/")).visits[0].changed
    crawl.fetcher.answers["/"] = (200, {}, b"two")
    assert await run(crawl) == ["/"]
    assert (await record(crawl, "/")).visits[1].changed


async def test_a_server_that_ignores_its_validators_is_told_by_the_content_too(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = (200, {"ETag": '"1"'}, b"one")
    await run(crawl)
    crawl.fetcher.answers["/"] = (200, {"ETag": '"2"'}, b"one")
    assert await run(crawl) == []
    assert (await record(crawl, "/")).etag == '"2"'


async def test_a_304_refreshes_the_validators_that_it_has(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = (200, {"ETag": 'W/"1"', "Last-Modified": OLD, "Date": DATE}, b"")
    await run(crawl)
    crawl.fetcher.answers["/"] = (304, {"ETag": 'W/"2"', "Vary": "Accept"}, b"")
    await run(crawl)
    assert sent(crawl) == {"If-None-Match": 'W/"1"', "If-Modified-Since": OLD}
    after = await record(crawl, "/")
    assert (after.etag, after.last_modified, after.vary) == ('W/"2"', OLD, "Accept")


async def test_a_304_that_names_another_strong_validator_is_not_believed_a_second_time(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = (200, {"ETag": '"1"'}, b"")
    await run(crawl)
    crawl.fetcher.answers["/"] = (304, {"ETag": '"9"'}, b"")
    await run(crawl)
    crawl.fetcher.answers["/"] = (200, {}, b"")
    await run(crawl)
    assert sent(crawl) == {}


async def test_a_page_modified_in_the_second_of_its_fetch_is_not_asked_for_by_that_date(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = (200, {"Last-Modified": DATE, "Date": DATE}, b"")
    await run(crawl)
    await run(crawl)
    assert sent(crawl) == {}


async def test_a_condition_of_the_spider_is_its_own(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = (200, {"ETag": '"1"'}, b"one")
    await run(crawl)
    crawl.fetcher.answers["/"] = (200, {"ETag": '"2"'}, b"two")
    spider = Follower(**{"if-none-match": '"mine"'})
    assert await run(crawl, spider) == ["/"]
    assert sent(crawl) == {"if-none-match": '"mine"'}


@pytest.mark.parametrize(
    ("vary", "headers", "is_sent"),
    [
        ("Accept-Language", {"Accept-Language": "en"}, True),
        ("Accept-Language, Accept-Encoding", {"accept-language": "en"}, True),
        ("Accept-Language", {"Accept-Language": "de"}, False),
        ("Accept-Language", {}, False),
        ("X-Other", {}, True),
        ("*", {"Accept-Language": "en"}, False),
        ("Cookie", {"Accept-Language": "en"}, False),
    ],
)
async def test_validators_are_sent_when_the_headers_that_vary_names_are_the_same(
    crawl: Any, vary: str, headers: dict[str, str], is_sent: bool
) -> None:
    crawl.fetcher.answers["/"] = (200, {"ETag": '"1"', "Vary": vary}, b"")
    await run(crawl, Follower(**{"Accept-Language": "en"}))
    await run(crawl, Follower(**headers))
    assert ("If-None-Match" in sent(crawl)) == is_sent


async def test_another_user_agent_is_another_request_where_the_answer_depends_on_it(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = (200, {"ETag": '"1"', "Vary": "User-Agent"}, b"")
    await run(crawl)
    await run(crawl)
    assert "If-None-Match" in sent(crawl)
    await run(crawl, user_agent="other/1.0")
    assert "If-None-Match" not in sent(crawl)


@pytest.mark.parametrize("header", ["x" * 1000, '"\x85"', '"é"'])
async def test_a_validator_that_could_not_be_sent_is_not_kept(crawl: Any, header: str) -> None:
    crawl.fetcher.answers["/"] = (200, {"ETag": header, "Last-Modified": header, "Date": DATE}, b"")
    await run(crawl)
    await run(crawl)
    assert sent(crawl) == {}


async def test_a_page_that_its_callback_failed_at_is_parsed_again(crawl: Any) -> None:
    class Failing(Follower):
        def parse(self, response: Any) -> Any:
            raise ValueError("no such field")

    crawl.fetcher.answers["/"] = tagged('"1"')
    assert await run(crawl) == ["/"]
    crawl.fetcher.answers["/"] = tagged('"2"', b"other")
    await run(crawl, Failing())
    assert await crawl.places() == {"failed": 1}
    assert await run(crawl) == ["/"]


async def test_with_other_rules_for_links_every_page_is_parsed_again(crawl: Any) -> None:
    crawl.fetcher.answers |= {"/": tagged('"1"', b'<a href="/2">'), "/2": tagged('"2"')}
    assert await run(crawl, max_depth=0) == ["/"]
    assert await run(crawl, max_depth=0) == []
    assert await run(crawl, max_depth=1) == ["/", "/2"]
    assert not (await record(crawl, "/")).visits[-1].changed, "it was parsed, and has not changed"


async def test_a_redirect_is_followed_each_time_and_its_target_has_a_record_of_its_own(crawl: Any) -> None:
    crawl.fetcher.answers |= {"/": (301, {"Location": "/2"}, b""), "/2": tagged('"2"')}
    assert await run(crawl) == ["/2"]
    assert await run(crawl) == []
    assert await crawl.places() == {"done": 1, "redirected": 1}
    crawl.fetcher.answers |= {"/": (301, {"Location": "/3"}, b""), "/3": tagged('"3"')}
    assert await run(crawl) == ["/3"]
    assert [visit.changed for visit in (await record(crawl, "/")).visits] == [False, True]


async def test_a_page_that_is_gone_is_asked_for_less_and_less_often_and_parsed_when_it_is_back(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = tagged('"1"')
    await run(crawl)
    intervals = []
    for _ in range(4):
        crawl.fetcher.answers["/"] = 404
        crawl.clock.advance(60 * DAY)
        await run(crawl)
        intervals.append((await record(crawl, "/")).interval_seconds)
    assert intervals == sorted(intervals)
    assert intervals[0] < intervals[-1]
    crawl.fetcher.answers["/"] = tagged('"1"')
    assert await run(crawl) == ["/"]


@pytest.mark.parametrize("status", [408, 500])
async def test_failures_that_may_pass_leave_the_record_as_it_was(crawl: Any, status: int) -> None:
    crawl.fetcher.answers["/"] = tagged('"1"')
    await run(crawl)
    before = await record(crawl, "/")
    crawl.clock.advance(60 * DAY)
    crawl.fetcher.answers["/"] = status
    await run(crawl)
    assert await record(crawl, "/") == before


async def test_a_page_that_never_changes_is_fetched_at_intervals_that_double_up_to_ninety_days(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = tagged('"1"')
    found = []
    for _ in range(8):
        await run(crawl, recrawl="due")
        found.append((await record(crawl, "/")).interval_seconds)
        crawl.clock.advance(found[-1])
    assert found[0] == pytest.approx(7 * DAY)
    assert all(one <= other <= 2 * one for one, other in itertools.pairwise(found))
    assert found[-1] <= 90 * DAY


async def test_without_recrawl_no_condition_is_sent_and_everything_is_parsed(crawl: Any) -> None:
    crawl.fetcher.answers["/"] = tagged('"1"')
    await run(crawl)
    assert await run(crawl, recrawl="off") == ["/"]
    assert sent(crawl) == {}
