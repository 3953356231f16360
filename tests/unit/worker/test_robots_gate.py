"""The host gate: robots.txt is read once before a host's first page, and obeyed."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.errors import FetchError
from skitter.model.job import State
from skitter.spiders.base import Spider
from skitter.worker import robots_gate as module

BASE = "http://a.example"
RULES = b"User-agent: *\nDisallow: /private\nCrawl-delay: 3\n"


class Plain(Spider):
    def __init__(self, *paths: str) -> None:
        super().__init__()
        self.start_urls = [BASE + path for path in paths]

    def parse(self, response: Any) -> Any:
        return {"url": response.url}


async def begin(crawl: Any, *paths: str, **values: Any) -> None:
    await crawl.begin(Plain(*paths), obey_robots=True, **values)
    crawl.fetcher.answers |= dict.fromkeys(paths, 200)


async def test_robots_txt_is_read_once_and_before_the_first_page(crawl: Any) -> None:
    await begin(crawl, "/1", "/2", "/private/3")
    crawl.fetcher.answers["/robots.txt"] = (200, {}, b"User-agent: *\nDisallow: /private\n")
    assert await crawl.run() is State.FINISHED
    urls = [request.url for request in crawl.fetcher.requests]
    assert urls[0] == f"{BASE}/robots.txt"
    assert sorted(urls[1:]) == [f"{BASE}/1", f"{BASE}/2"]
    assert await crawl.places() == {"done": 2, "excluded": 1}


async def test_a_page_that_robots_txt_excludes_gives_its_slot_back(crawl: Any) -> None:
    await begin(crawl, *(f"/private/{n}" for n in range(20)), "/1")
    crawl.fetcher.answers["/robots.txt"] = (200, {}, RULES)
    running = crawl.start(crawl.worker())
    await crawl.until(lambda: crawl.fetcher.requests and not crawl.workers[0].held)
    # One delay after the gate, and then all that is excluded at once.
    await crawl.elapse(3.1)
    assert await running is State.FINISHED
    assert await crawl.places() == {"done": 1, "excluded": 20}


@pytest.mark.parametrize("status", [404, 403, 401, 410])
async def test_a_host_without_robots_txt_forbids_nothing(crawl: Any, status: int) -> None:
    await begin(crawl, "/1")
    crawl.fetcher.answers["/robots.txt"] = status
    await crawl.run()
    assert await crawl.places() == {"done": 1}


@pytest.mark.parametrize("answer", [500, 502, FetchError("connect", "refused"), FetchError("timeout", "slow")])
async def test_nothing_is_fetched_while_robots_txt_cannot_be_read(crawl: Any, answer: Any) -> None:
    await begin(crawl, "/1", max_attempts=3)
    crawl.fetcher.answers["/robots.txt"] = answer
    assert await crawl.run_through() is State.FINISHED
    assert crawl.fetcher.paths == []
    assert len(crawl.fetcher.requests) == 3
    failed = (await crawl.failures())["/1"]
    assert isinstance(answer, FetchError) or "robots.txt" in failed.error
    assert failed.error_class == (answer.error_class if isinstance(answer, FetchError) else "http_5xx")


async def test_a_host_may_recover(crawl: Any) -> None:
    await begin(crawl, "/1")
    answers = iter([500, FetchError("dns", "unknown"), (200, {}, RULES)])
    crawl.fetcher.answers["/robots.txt"] = lambda request: next(answers)
    assert await crawl.run_through() is State.FINISHED
    assert await crawl.places() == {"done": 1}


@pytest.mark.parametrize("status", [429, 503])
async def test_a_block_at_the_gate_holds_the_host(crawl: Any, status: int) -> None:
    await begin(crawl, "/1")
    answers = iter([(status, {"Retry-After": "100"}, b""), 404])
    crawl.fetcher.answers["/robots.txt"] = lambda request: next(answers)
    worker = crawl.worker()
    running = crawl.start(worker)
    await crawl.until(lambda: crawl.fetcher.requests and not worker.held)
    await crawl.elapse(95)
    assert len(crawl.fetcher.requests) == 1
    await crawl.elapse(10)
    assert await running is State.FINISHED
    assert await crawl.places() == {"done": 1}


async def test_redirects_of_robots_txt_are_followed(crawl: Any) -> None:
    await begin(crawl, "/private/1", "/2")
    crawl.fetcher.answers["/robots.txt"] = (301, {"Location": "/r/1"}, b"")
    crawl.fetcher.answers["/r/1"] = (302, {"Location": "http://b.example/robots"}, b"")
    crawl.fetcher.answers["http://b.example/robots"] = (200, {}, b"User-agent: *\nDisallow: /private\n")
    await crawl.run()
    assert await crawl.places() == {"done": 1, "excluded": 1}


@pytest.mark.parametrize(("target", "address"), [("/r", "192.0.2.1"), ("http://b.example/r", "")])
async def test_the_address_of_another_host_is_not_learnt(crawl: Any, target: str, address: str) -> None:
    await begin(crawl, "/1")
    crawl.fetcher.answers["/robots.txt"] = (301, {"Location": target}, b"")
    crawl.fetcher.answers[target] = (200, {}, b"User-agent: *\nDisallow: /\n")
    await crawl.run()
    (host,) = (await crawl.frontier.report()).hosts
    assert (host.key, host.address) == (BASE, address)
    assert host.latency_seconds == 0.0, "a small file says nothing of pages"


async def test_a_permission_does_not_reach_beyond_its_host(crawl: Any) -> None:
    await begin(crawl, "/1")
    crawl.fetcher.answers["/robots.txt"] = (302, {"Location": "http://169.254.169.254/latest"}, b"")
    crawl.fetcher.answers["http://169.254.169.254/latest"] = FetchError("guard", "a private address")
    await crawl.run()
    trusted = {request.url: request.trusted for request in crawl.fetcher.requests}
    assert trusted == {f"{BASE}/robots.txt": True, "http://169.254.169.254/latest": False, f"{BASE}/1": True}
    assert await crawl.places() == {"done": 1}


@pytest.mark.parametrize("location", ["/robots.txt", "ftp://b.example/", "http://["])
async def test_redirects_that_lead_nowhere_count_as_absent(crawl: Any, location: str) -> None:
    await begin(crawl, "/1")
    crawl.fetcher.answers["/robots.txt"] = (302, {"Location": location}, b"")
    await crawl.run()
    assert await crawl.places() == {"done": 1}
    assert len(crawl.fetcher.requests) <= 2 + module._MAX_HOPS


async def test_a_host_behind_the_network_guard_is_not_down(crawl: Any) -> None:
    await begin(crawl, "/1")
    crawl.fetcher.answers |= dict.fromkeys(["/robots.txt", "/1"], FetchError("guard", "a private address"))
    await crawl.run()
    assert await crawl.places() == {"excluded": 1}


@pytest.mark.parametrize("kind", ["proxy", "slow"])
async def test_what_is_waited_for_is_not_held_against_the_host(crawl: Any, kind: str) -> None:
    await begin(crawl, "/1", max_attempts=1)
    crawl.fetcher.answers["/robots.txt"] = FetchError(kind, "not now")
    worker = crawl.worker()
    running = crawl.start(worker)
    for count in range(1, 5):
        await crawl.until(lambda count=count: len(crawl.fetcher.requests) == count and not worker.held)
        if count == 4:
            del crawl.fetcher.answers["/robots.txt"]
        await crawl.elapse(100_000)
    await running
    assert await crawl.places() == {"done": 1}


async def test_crawl_delay_is_obeyed(crawl: Any) -> None:
    await begin(crawl, "/1", "/2")
    crawl.fetcher.answers["/robots.txt"] = (200, {}, RULES)
    worker = crawl.worker()
    running = crawl.start(worker)
    for count in (1, 2):
        await crawl.until(lambda count=count: len(crawl.fetcher.requests) == count and not worker.held)
        await crawl.elapse(2.9)
        assert len(crawl.fetcher.requests) == count
        await crawl.elapse(3)
    assert await running is State.FINISHED


async def test_the_rules_that_a_worker_keeps_are_bounded(crawl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_HOSTS", 3)
    hosts = [f"http://h{n}.example" for n in range(20)]
    spider = Plain()
    spider.start_urls = [f"{host}{path}" for host in hosts for path in ("/1", "/private")]
    await crawl.begin(spider, obey_robots=True, concurrency=1)
    crawl.fetcher.answers |= {"/robots.txt": (200, {}, b"User-agent: *\nDisallow: /private\n"), "/1": 200}
    worker = crawl.worker()
    await crawl.run(worker)
    assert len(worker._robots_gate._rules) <= 3
    assert await crawl.places() == {"done": 20, "excluded": 20}


async def test_another_worker_obeys_what_the_first_one_read(crawl: Any) -> None:
    await begin(crawl, "/1")
    crawl.fetcher.answers["/robots.txt"] = (200, {}, b"User-agent: *\nDisallow: /private\n")
    await crawl.run(crawl.worker("w1"))
    await crawl.add("/private/2", "/3")
    crawl.fetcher.answers["/3"] = 200
    await crawl.run(crawl.worker("w2"))
    assert [request.url for request in crawl.fetcher.requests].count(f"{BASE}/robots.txt") == 1
    assert await crawl.places() == {"done": 2, "excluded": 1}
