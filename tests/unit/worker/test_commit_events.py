"""What a worker tells of its grants and commits."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from skitter.errors import FetchError
from skitter.observe import events
from skitter.spiders.base import Spider


class Follow(Spider):
    start_urls = ("http://a.example/0",)

    def parse(self, response: Any) -> Any:
        yield from response.follow_all(css="a")


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Any:
    """Events by their name."""

    def of(name: str) -> list[dict[str, Any]]:
        found = [getattr(record, "event", None) for record in caplog.records]
        return [event.fields for event in found if event is not None and event.kind.name == name]

    with caplog.at_level(logging.DEBUG, logger=events.logger.name):
        yield of


async def test_batches_of_leases_and_links_are_told(crawl: Any, heard: Any) -> None:
    await crawl.begin(Follow())
    crawl.fetcher.answers |= {
        "/0": (200, {}, b"<a href=/1></a><a href=/2></a><a href=/0></a>"),
        "/1": (200, {}, b"<a href=/2></a>"),
        "/2": (200, {}, b""),
    }
    await crawl.run()
    assert sum(event["leases"] for event in heard("leases.granted")) == 4, "the seeding and three pages"
    assert {event["worker"] for event in heard("leases.granted")} == {"w1"}
    links = heard("links.committed")
    assert sum(event["new"] for event in links) == 3
    assert sum(event["duplicates"] for event in links) == 2
    assert sum(event["pages"] for event in links) >= 4


async def test_robots_and_hosts_in_trouble_are_told(crawl: Any, heard: Any) -> None:
    await crawl.begin(Follow(), obey_robots=True, max_attempts=2)
    crawl.fetcher.answers["/robots.txt"] = (200, {}, b"User-agent: *\nCrawl-delay: 2\n")
    crawl.fetcher.answers["/0"] = FetchError("connect", "refused")
    await crawl.run_through()
    (robots,) = heard("robots.read")
    assert (robots["host"], robots["crawl_delay_seconds"]) == ("http://a.example", 2.0)
    assert robots["bytes"] > 20
    (pause,) = heard("host.backoff")
    assert (pause["host"], pause["error_class"], pause["strikes"]) == ("http://a.example", "connect", 1)
    assert pause["seconds"] > 0
    (end,) = heard("host.given_up")
    assert (end["host"], end["strikes"]) == ("http://a.example", 2)


async def test_whose_requests_were_recovered_is_told_by_whoever_did_it(crawl: Any, heard: Any) -> None:
    await crawl.begin(Follow(), lease_seconds=10)
    crawl.fetcher.answers["/0"] = 200
    await crawl.frontier.lease("lost", 10)
    await crawl.elapse(11)
    await crawl.run()
    assert heard("leases.recovered") == [{"worker": "w1", "lost": "lost", "leases": 1}]


async def test_batches_are_not_counted_where_nobody_listens(
    crawl: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(events, "emit", made.append)
    await crawl.begin(Follow())
    crawl.fetcher.answers["/0"] = 200
    with caplog.at_level(logging.INFO, logger=events.logger.name):
        await crawl.run()
    assert made == []


async def test_a_host_that_has_had_its_pages_is_told_once(crawl: Any, heard: Any) -> None:
    await crawl.begin(Follow(), max_pages_per_host=2)
    links = b"".join(b"<a href=/%d></a>" % number for number in range(9))
    crawl.fetcher.answers |= {f"/{number}": (200, {}, links) for number in range(9)}
    await crawl.run()
    (stopped,) = heard("host.stopped")
    assert (stopped["host"], stopped["rule"], stopped["pages"]) == ("http://a.example", "max_pages_per_host", 2)
