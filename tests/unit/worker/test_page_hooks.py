"""Hooks: what each may decide, what becomes of its page, and what a hook that fails costs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from skitter import Answer, Ban, Drop, DropItem, Hooks, Request, Retry, Spider
from skitter.errors import FetchError, SpiderError
from skitter.model.job import State
from skitter.model.request import Fingerprinter
from skitter.spiders.function_spider import function_spider

BASE = "http://a.example"
SEEDS = ["/a", "/b"]
Crawl = Any
"""See conftest."""


class Site(Spider):
    """Yields each page, and notes which errbacks were called."""

    start_urls = tuple(BASE + path for path in SEEDS)

    def __init__(self) -> None:
        self.failures: list[Any] = []

    def start(self) -> Any:
        return (Request(url, errback=self.failed) for url in self.start_urls)

    def parse(self, response: Any) -> Any:
        self.stats.add("parsed")
        yield {"url": response.url, "body": response.text, "sent": response.request.headers}

    def failed(self, failure: Any) -> None:
        self.failures.append((failure.error_class, failure.message))


async def crawled(crawl: Crawl, spider: Spider, **settings: Any) -> list[dict[str, Any]]:
    crawl.fetcher.answers |= {path: (200, {}, path.encode()) for path in SEEDS if path not in crawl.fetcher.answers}
    await crawl.begin(spider, max_attempts=3, **settings)
    assert await crawl.run_through() is State.FINISHED
    return sorted(await crawl.items(), key=lambda item: str(item["url"]))


class TestRequests:
    async def test_a_request_is_changed_for_this_attempt(self, crawl: Crawl) -> None:
        class Signed(Site):
            async def on_request(self, request: Request) -> Request:
                await asyncio.sleep(0)
                return request.replace(url=request.url + "?v=1", headers={"X-Signature": request.url[-1]})

        crawl.fetcher.answers["/a"] = (503, {}, b"")
        items = await crawled(crawl, Signed())
        assert [(item["url"], item["sent"]) for item in items] == [(f"{BASE}/b?v=1", {"X-Signature": "b"})]
        sent = [(request.url, request.headers) for request in crawl.fetcher.requests]
        assert len(set(map(str, sent))) == 2, "each attempt begins with the original"
        assert (f"{BASE}/a?v=1", {"X-Signature": "a"}) in sent

    async def test_another_host_is_a_request_of_its_own(self, crawl: Crawl) -> None:
        class Mirrored(Site):
            def on_request(self, request: Request) -> Request | None:
                return request.replace(url="http://mirror.example/a") if request.url == f"{BASE}/a" else None

        crawl.fetcher.answers["http://mirror.example/a"] = (200, {}, b"from the mirror")
        items = await crawled(crawl, Mirrored())
        assert [item["url"] for item in items] == [f"{BASE}/b", "http://mirror.example/a"]
        assert [request.url for request in crawl.fetcher.requests if request.url == f"{BASE}/a"] == []
        assert await crawl.places() == {"done": 2, "redirected": 1}
        assert (await crawl.frontier.report()).decisions == {"replace:another host": 1}

    async def test_a_request_that_is_written_into_is_a_changed_one(self, crawl: Crawl) -> None:
        class Writes(Site):
            def on_request(self, request: Request) -> None:
                request.headers = {"X-Written": "yes"}
                if request.url == f"{BASE}/a":
                    request.url = "http://mirror.example/a"

        crawl.fetcher.answers["http://mirror.example/a"] = (200, {}, b"from the mirror")
        items = await crawled(crawl, Writes())
        assert [(item["url"], item["sent"]) for item in items] == [
            (f"{BASE}/b", {"X-Written": "yes"}),
            ("http://mirror.example/a", {"X-Written": "yes"}),
        ]
        assert await crawl.places() == {"done": 2, "redirected": 1}

    async def test_two_hosts_that_stand_for_each_other_come_to_an_end(self, crawl: Crawl) -> None:
        class Circle(Site):
            def on_request(self, request: Request) -> Request:
                here, there = ("a.example", "b.example") if "a.example" in request.url else ("b.example", "a.example")
                return request.replace(url=request.url.replace(here, there), dont_filter=True)

        assert await crawled(crawl, Circle()) == []
        assert {failed.error_class for failed in (await crawl.failures()).values()} == {"hook"}
        assert crawl.fetcher.requests == []

    async def test_a_changed_url_is_asked_of_robots_txt(self, crawl: Crawl) -> None:
        class Private(Site):
            def on_request(self, request: Request) -> Request:
                return request.replace(url=BASE + "/private" + request.url[-2:])

        crawl.fetcher.answers["/robots.txt"] = (
            200,
            {"Content-Type": "text/plain"},
            b"User-agent: *\nDisallow: /private",
        )
        assert await crawled(crawl, Private(), obey_robots=True) == []
        assert await crawl.places() == {"excluded": 2}
        assert crawl.fetcher.paths == []

    async def test_a_request_is_dropped_or_answered_without_a_server(self, crawl: Crawl) -> None:
        class Cached(Site):
            def on_request(self, request: Request) -> Answer | Drop:
                return (
                    Answer("<p>cached</p>", headers={"X-Cache": "hit"}) if request.url.endswith("/a") else Drop("old")
                )

        assert [item["body"] for item in await crawled(crawl, Cached())] == ["<p>cached</p>"]
        assert crawl.fetcher.requests == []
        failed = await crawl.failures()
        assert (failed["/b"].error_class, failed["/b"].error) == ("dropped", "old")
        report = await crawl.frontier.report()
        assert report.decisions == {"answer:Cached.on_request": 1, "drop:old": 1}
        assert report.errors == {"dropped": 1}
        assert report.stats == {"parsed": 1}
        assert report.tally["bytes"] == 0
        assert crawl.spider.failures == [], "a drop is no failure"  # type: ignore[attr-defined]

    async def test_a_slow_hook_does_not_make_its_request_late_for_ever(self, crawl: Crawl) -> None:
        class Slow(Site):
            calls = 0

            async def on_request(self, request: Request) -> None:
                self.calls += 1
                await asyncio.sleep(0.1)

        spider = Slow()
        assert len(await crawled(crawl, spider, delay_seconds=3)) == 2
        assert spider.calls <= 3


class TestAnswers:
    async def test_headers_decide_before_the_body_is_wanted(self, crawl: Crawl) -> None:
        class Film(Site):
            def on_headers(self, response: Any) -> Drop | None:
                assert (response.body, response.status) == (b"", 200)
                return Drop("a film") if response.headers.get("X-Kind") == "film" else None

        crawl.fetcher.answers["/a"] = (200, {"X-Kind": "film"}, b"x" * 1000)
        assert [item["url"] for item in await crawled(crawl, Film())] == [f"{BASE}/b"]
        assert (await crawl.failures())["/a"].error == "a film"

    async def test_a_captcha_is_tried_again_and_then_dead(self, crawl: Crawl) -> None:
        class Patient(Site):
            def on_response(self, request: Request, response: Any) -> Retry | None:
                self.stats.add("seen")
                return Retry("captcha", delay=7) if b"captcha" in response.body else None

        crawl.fetcher.answers["/a"] = (200, {}, b"captcha")
        answers = iter([b"captcha", b"a page"])
        crawl.fetcher.answers["/b"] = lambda _: (200, {}, next(answers))
        items = await crawled(crawl, Patient())
        assert [(item["url"], item["body"]) for item in items] == [(f"{BASE}/b", "a page")]
        assert sorted(crawl.fetcher.paths) == ["/a", "/a", "/a", "/b", "/b"]
        failed = (await crawl.failures())["/a"]
        assert (failed.error_class, failed.error, failed.attempts) == ("hook", "captcha, at every attempt", 3)
        report = await crawl.frontier.report()
        assert (report.decisions, report.stats) == ({"retry:captcha": 4}, {"parsed": 1, "seen": 5})
        assert crawl.spider.failures == [("hook", "captcha, at every attempt")]  # type: ignore[attr-defined]

    async def test_a_delay_is_kept_and_told(self, crawl: Crawl) -> None:
        class Later(Site):
            start_urls = (BASE + "/a",)

            def on_response(self, request: Request, response: Any) -> Retry:
                return Retry("captcha", delay=500)

        crawl.fetcher.answers["/a"] = (200, {}, b"")
        await crawl.begin(Later())
        crawl.start(crawl.worker())
        await crawl.until(lambda: _is_delayed(crawl))
        job = await crawl.frontier.job()
        trace = await crawl.frontier.trace(Fingerprinter.of_job(job).fingerprint("GET", BASE + "/a"))
        assert trace is not None
        assert (trace.error_class, trace.error) == ("hook", "captcha")
        assert 490 < trace.ready_in_seconds <= 500

    async def test_a_response_is_replaced_and_hooks_are_called_in_order(self, crawl: Crawl) -> None:
        order: list[str] = []

        class First(Site):
            def on_response(self, request: Request, response: Any) -> Any:
                order.append("spider")
                return type(response)(_page(response, b"clean"), request)

        Second.order = order
        items = await crawled(crawl, First(), hooks=f"{__name__}:Second")
        assert [item["body"] for item in items] == ["clean", "clean"]
        assert order == ["spider", "second sees clean"] * 2
        assert (await crawl.tally())["bytes"] == 4, "what was fetched counts"

    async def test_a_host_that_asks_for_a_pause_gets_it_whatever_a_hook_wants(self, crawl: Crawl) -> None:
        class Stubborn(Site):
            start_urls = (BASE + "/a",)

            def on_response(self, request: Request, response: Any) -> Retry:
                return Retry("again", delay=0)

        crawl.fetcher.answers["/a"] = (429, {"Retry-After": "300"}, b"")
        await crawl.begin(Stubborn())
        crawl.start(crawl.worker())
        await crawl.until(lambda: _is_blocked(crawl))
        assert crawl.fetcher.paths == ["/a"]


class TestErrors:
    async def test_each_failed_attempt_is_seen(self, crawl: Crawl) -> None:
        seen: list[tuple[str, str, bool]] = []

        class Watcher(Site):
            def parse(self, response: Any) -> Any:
                if response.url.endswith("/b"):
                    raise ValueError("no such field")
                yield {"url": response.url, "body": response.text, "sent": {}}

            def on_error(self, request: Request, failure: Any) -> Any:
                seen.append((request.url[-2:], failure.error_class, failure.response is not None))
                if failure.error_class == "callback":
                    return Drop("broken page")
                return Answer("from the archive") if len(seen) > 2 else None

        crawl.fetcher.answers["/a"] = FetchError("timeout", "too slow")
        items = await crawled(crawl, Watcher())
        assert ("/b", "callback", True) in seen
        assert seen.count(("/a", "timeout", False)) == 2
        assert [item["body"] for item in items] == ["from the archive"]
        assert (await crawl.failures())["/b"].error == "broken page"

    async def test_what_a_function_raises_can_be_dropped(self, crawl: Crawl) -> None:
        def scrape(url: str) -> None:
            raise OSError("no network")

        class Dropping(function_spider(scrape)):  # type: ignore[misc]
            start_urls = (BASE + "/a",)

            def on_error(self, request: Request, failure: Any) -> Drop:
                return Drop("not reachable")

        await crawl.begin(Dropping())
        await crawl.run_through()
        failed = (await crawl.failures())["/a"]
        assert (failed.error_class, failed.error, failed.attempts) == ("dropped", "not reachable", 1)

    async def test_a_status_can_be_tried_again_but_not_for_ever(self, crawl: Crawl) -> None:
        class Insistent(Site):
            def on_error(self, request: Request, failure: Any) -> Retry:
                return Retry("not found yet", delay=1)

        crawl.fetcher.answers["/a"] = 404
        await crawled(crawl, Insistent())
        assert crawl.fetcher.paths.count("/a") == 3
        failed = (await crawl.failures())["/a"]
        assert (failed.error_class, failed.error) == ("http_4xx", "HTTP 404")
        assert (await crawl.frontier.report()).decisions == {"retry:not found yet": 3}


class TestFailures:
    @pytest.mark.parametrize("name", ["on_request", "on_headers", "on_response", "on_error"])
    async def test_a_hook_that_raises_costs_its_page(self, crawl: Crawl, name: str) -> None:
        def broken(self: Any, request: Any, response: Any = None) -> None:
            url = request.url if name != "on_headers" else request.request.url
            if url.endswith("/a"):
                raise RuntimeError("a mistake")

        if name == "on_error":
            crawl.fetcher.answers["/a"] = 404
        items = await crawled(crawl, type("Broken", (Site,), {name: broken})())
        assert [item["url"] for item in items] == [f"{BASE}/b"]
        failed = (await crawl.failures())["/a"]
        assert failed.error_class == "hook"
        assert failed.error.startswith(f"the hook Broken.{name} failed:\nTraceback")
        assert failed.error.rstrip().endswith("RuntimeError: a mistake")
        assert (await crawl.frontier.report()).decisions == {f"failed:Broken.{name}": 1}

    async def test_a_hook_that_hangs_costs_its_page(self, crawl: Crawl) -> None:
        class Hanging(Site):
            async def on_response(self, request: Request, response: Any) -> None:
                if request.url.endswith("/a"):
                    await asyncio.sleep(3600)

        items = await crawled(crawl, Hanging(), callback_seconds=0.05)
        assert [item["url"] for item in items] == [f"{BASE}/b"]
        assert "it took more than 0.05 s" in (await crawl.failures())["/a"].error

    @pytest.mark.parametrize("result", [Retry("later"), "text", 17])
    async def test_what_a_hook_may_not_return_is_told(self, crawl: Crawl, result: Any) -> None:
        await crawled(crawl, type("Odd", (Site,), {"on_request": lambda self, request: result})())
        expected = "it must return a Request, a Response, an Answer, a Drop or None"
        assert all(expected in failed.error for failed in (await crawl.failures()).values())
        assert len(await crawl.failures()) == 2

    async def test_a_request_that_cannot_be_sent_is_told(self, crawl: Crawl) -> None:
        class Odd(Site):
            def on_request(self, request: Request) -> Request:
                return request.replace(url="mailto:someone@a.example")

        await crawled(crawl, Odd())
        assert {failed.error_class for failed in (await crawl.failures()).values()} == {"hook"}

    async def test_what_a_decision_may_ask_for(self, crawl: Crawl) -> None:
        assert Retry("banned", new_proxy=True).new_proxy
        assert Retry("logged out", new_session=True).new_session
        assert Ban("captcha", session=True).session
        with pytest.raises(ValueError, match="Ban needs proxy=True"):
            Ban("captcha")
        with pytest.raises(ValueError, match="from 0 to 86400"):
            Retry("x", delay=-1)
        with pytest.raises(TypeError, match="needs a reason"):
            Drop("")

        class Banning(Site):
            def on_response(self, request: Request, response: Any) -> Any:
                return Ban("a captcha", proxy=True)

        await crawled(crawl, Banning())
        assert all("and the job has none: a captcha" in d.error for d in (await crawl.failures()).values())

    async def test_on_start_that_fails_ends_the_crawl(self, crawl: Crawl) -> None:
        class Unprepared(Site):
            async def on_start(self, job: Any) -> None:
                raise KeyError("TOKEN")

        await crawl.begin(Unprepared())
        with pytest.raises(SpiderError, match="KeyError: 'TOKEN'"):
            await crawl.run()

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("nowhere:Hook", "cannot be imported"),
            ("word", "not a hook class"),
            (f"{__name__}:crawled", "not a hook class"),
            (f"{__name__}:Empty", "the class has no hooks"),
            (f"{__name__}:Wants", "hooks cannot be created"),
            (f"{__name__}:Awaits", "must not be a coroutine"),
        ],
    )
    async def test_classes_that_are_no_hooks_are_refused_at_the_start(
        self, crawl: Crawl, setting: str, message: str
    ) -> None:
        await crawl.begin(Site(), hooks=setting)
        with pytest.raises(SpiderError, match=message):
            crawl.worker()


class TestItemsAndCounters:
    async def test_items_pass_hooks_after_item_functions(self, crawl: Crawl) -> None:
        class Priced(Site):
            def parse(self, response: Any) -> Any:
                yield from ({"n": n, "url": response.url} for n in range(3))

            def on_item(self, item: Any) -> Any:
                if item["n"] == 0:
                    raise DropItem("zero")
                return {**item, "n": item["n"] * 10} if item["n"] == 1 else None

        items = await crawled(crawl, Priced(), hooks=f"{__name__}:Counting")
        assert sorted(item["n"] for item in items) == [2, 2, 10, 10]
        report = await crawl.frontier.report()
        assert report.dropped == {"zero": 2}
        assert report.stats == {"items seen": 4, "workers started": 1}

    async def test_counts_of_a_page_in_parts_go_with_its_last_part(self, crawl: Crawl) -> None:
        class Long(Site):
            start_urls = (BASE + "/a",)

            def parse(self, response: Any) -> Any:
                for number in range(5000):
                    self.stats.add("made")
                    yield {"n": number, "url": ""}

        await crawled(crawl, Long())
        assert (await crawl.frontier.report()).stats == {"made": 5000}

    @pytest.mark.parametrize(
        ("name", "amount"),
        [("", 1), ("x" * 101, 1), ("a\nb", 1), (5, 1), ("x", -1), ("x", 1.5), ("x", True), ("x", 2**41)],
    )
    async def test_bad_counts_are_refused(self, crawl: Crawl, name: Any, amount: Any) -> None:
        with pytest.raises((TypeError, ValueError)):
            Site().stats.add(name, amount)

    async def test_tasks_and_threads_of_a_page_count_for_it(self, crawl: Crawl) -> None:
        class Parallel(Site):
            async def parse(self, response: Any) -> Any:
                add = self.stats.add
                await asyncio.gather(*(asyncio.to_thread(add, "threads") for _ in range(5)), self._count())
                yield {"url": response.url}

            async def _count(self) -> None:
                self.stats.add("tasks", 2)

        await crawled(crawl, Parallel())
        assert (await crawl.frontier.report()).stats == {"tasks": 4, "threads": 10}

    async def test_a_spider_may_have_stats_of_its_own(self, crawl: Crawl) -> None:
        class Own(Site):
            def __init__(self) -> None:
                super().__init__()
                self.stats = {}  # type: ignore[assignment]

            def parse(self, response: Any) -> Any:
                self.stats[response.url] = 1  # type: ignore[index]
                yield {"url": response.url}

        assert len(await crawled(crawl, Own())) == 2


class Second(Hooks):
    """Sees what the spider's own hook has left."""

    order: list[str] = []  # noqa: RUF012

    async def on_response(self, request: Request, response: Any) -> None:
        self.order.append(f"second sees {response.text}")


class Counting(Hooks):
    """Counts items, and the worker."""

    def on_start(self, job: Any) -> None:
        assert (job.name, job.run, job.worker) == ("job", 1, "w1")
        assert job.settings["max_attempts"] == 3
        self.stats.add("workers started")

    def on_item(self, item: Any) -> None:
        self.stats.add("items seen")


class Empty(Hooks):
    """Has no hook."""


class Wants:
    """Cannot be made."""

    def __init__(self, settings: Any) -> None:
        pass

    def on_item(self, item: Any) -> None:
        pass


class Awaits(Hooks):
    """Cannot be called."""

    async def on_headers(self, response: Any) -> None:  # type: ignore[override]
        pass


def _page(response: Any, body: bytes) -> Any:
    return msgspec.structs.replace(response.page, body=body)


async def _is_delayed(crawl: Crawl) -> bool:
    return (await crawl.frontier.counts()).delayed == 1


async def _is_blocked(crawl: Crawl) -> bool:
    hosts = (await crawl.frontier.report()).hosts
    return bool(hosts) and hosts[0].blocked_seconds > 200


class TestEvents:
    async def test_events_of_the_worker_are_seen_and_a_hook_that_fails_is_told_once(
        self, crawl: Crawl, caplog: Any
    ) -> None:
        class Seeing(Site):
            async def on_event(self, event: Any) -> None:
                await asyncio.sleep(0)
                seen.append((event.kind.name, event.text))
                if event.kind.name == "log":
                    self.stats.add("logged")
                    raise RuntimeError("no network")

            def parse(self, response: Any) -> Any:
                self.logger.warning("page %s", response.url)
                yield {"url": response.url}

        seen: list[tuple[str, str]] = []
        caplog.set_level("INFO", "skitter")
        await crawled(crawl, Seeing())
        pages = [text for name, text in seen if name == "log" and text.startswith("page ")]
        assert sorted(pages) == [f"page {BASE}/a", f"page {BASE}/b"]
        failures = [record.getMessage() for record in caplog.records if "on_event failed" in record.getMessage()]
        assert len(failures) == 1
        assert "RuntimeError: no network" in failures[0]
