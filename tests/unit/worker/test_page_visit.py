"""Every way a page can end, and what its commit says."""

from __future__ import annotations

import asyncio
import email.utils
import sys
from typing import Any

import pytest

from skitter.errors import FetchError, FrontierError
from skitter.extract.items import decode_item
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Fingerprinter, Request, decode, encode
from skitter.policy.scope import Scope
from skitter.policy.traps import TrapRules
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.function_spider import function_spider
from skitter.worker import page_yield as harvest_module
from skitter.worker.callbacks import Callbacks, LeaseLostError
from skitter.worker.item_functions import item_functions_of
from skitter.worker.known_urls import KnownUrls
from skitter.worker.page_visit import Visitor
from skitter.worker.page_yield import LinkContext
from skitter.worker.url_table import UrlTable

PAGE = "http://a.example/page"
LEASED_AT = 1_700_000_000.0
"""The store's clock, which need not be this machine's."""


class Desk:
    """A Visitor whose fetcher gives one answer, and whose parts are kept."""

    def __init__(
        self, answers: Any, spider: Spider, scope: Scope | None = None, *, ignore_sessions: bool = False, **values: Any
    ) -> None:
        self.settings = Settings.from_layers([("test", values)])
        self.parts: list[Outcome] = []
        self.refuse_part = 0
        self.fingerprinter = Fingerprinter(b"secret", ignore_sessions=ignore_sessions)
        self._visitor = Visitor(
            rules=LinkContext(
                spider=spider,
                fingerprinter=self.fingerprinter,
                scope=scope or Scope(),
                known=KnownUrls(UrlTable.alone(100, b"secret", 1)),
            ),
            fetcher=answers,
            settings=self.settings,
            callbacks=Callbacks(
                callback_seconds=self.settings.limits.callback_seconds,
                commit_part=self._commit_part,
                item_functions=item_functions_of(spider, "", 60.0),
            ),
        )

    async def _commit_part(self, part: Outcome, urls: list[str]) -> bool:
        self.parts.append(part)
        if self.refuse_part == -len(self.parts):
            raise FrontierError("the disk is full")
        return len(self.parts) != self.refuse_part

    async def visit(self, url: str = PAGE, *, attempts: int = 0, trusted: bool = False, **fields: Any) -> Outcome:
        request = Request(url, **fields)
        lease = Lease(
            work=Work.PAGE,
            id=7,
            epoch=1,
            payload=encode(request),
            attempts=attempts,
            leased_at=LEASED_AT,
            trusted=trusted,
        )
        self.outcome, self.urls = await self._visitor.visit(lease, request)
        assert self.outcome.lease is lease
        return self.outcome


class Reader(Spider):
    """Says what it was called with."""

    handle_statuses = (404, 301)

    def parse(self, response: Any) -> Any:
        yield {"status": response.status, "meta": response.meta}
        yield from response.follow_all(css="a")

    def other(self, response: Any, **keywords: Any) -> Any:
        return {"other": response.url, **keywords}

    def rescue(self, failure: Any) -> Any:
        yield {
            "rescued": failure.request.url,
            "class": failure.error_class,
            "status": failure.response.status if failure.response else None,
        }
        yield Request("/elsewhere")

    def bad_rescue(self, failure: Any) -> Any:
        yield {"never": "seen"}
        raise ValueError("the errback is broken")


@pytest.fixture
def answers(crawl: Any) -> Any:
    return crawl.fetcher


def items(outcome: Outcome) -> list[dict[str, Any]]:
    return [decode_item(item.record) for item in outcome.items]


def urls(outcome: Outcome) -> list[str]:
    return [decode(entry.payload).url for entry in outcome.links]


# ---- pages


async def test_a_page_ends_done_with_its_items_links_and_news(answers: Any) -> None:
    answers.answers["/page"] = (200, {}, b'<a href="/a">x</a> <a href="mailto:x">y</a>')
    desk = Desk(answers, Reader())
    outcome = await desk.visit(meta={"n": 1})
    assert (outcome.ending, outcome.status, outcome.error) == (Ending.DONE, 200, "")
    assert items(outcome) == [{"status": 200, "meta": {"n": 1}}]
    assert urls(outcome) == ["http://a.example/a"]
    assert desk.urls == ["http://a.example/a"]
    assert outcome.tally == {"bytes": 43, "skipped:scheme": 1}
    assert outcome.news == HostNews(answered=True, latency_seconds=0.25, address="192.0.2.1")


async def test_a_named_callback_gets_its_arguments(answers: Any) -> None:
    answers.answers["/page"] = 204
    outcome = await Desk(answers, Reader()).visit(callback="other", cb_kwargs={"n": 1})
    assert items(outcome) == [{"other": PAGE, "n": 1}]


async def test_statuses_that_the_spider_asks_for_reach_its_callback(answers: Any) -> None:
    desk = Desk(answers, Reader())
    answers.answers |= {"/page": 404, "/moved": (301, {"Location": "/page"}, b"")}
    assert items(await desk.visit()) == [{"status": 404, "meta": {}}]
    assert (await desk.visit("http://a.example/moved")).ending is Ending.DONE


async def test_the_request_is_sent_as_it_was_made(answers: Any) -> None:
    answers.answers["/page"] = 200
    fields = {"method": "POST", "headers": {"X": "1"}, "body": b"q", "cookies": {"a": "b"}}
    await Desk(answers, Reader()).visit(**fields, trusted=True)
    (sent,) = answers.requests
    assert {name: getattr(sent, name) for name in fields} == fields
    assert sent.trusted


# ---- redirects


async def test_a_redirect_ends_redirected_and_its_target_goes_on(answers: Any) -> None:
    answers.answers["/page"] = (302, {"Location": "/next"}, b"gone")
    outcome = await Desk(answers, Spider()).visit(callback="other", meta={"n": 1}, depth=3)
    assert (outcome.ending, outcome.status, outcome.tally) == (Ending.REDIRECTED, 302, {"bytes": 4})
    (entry,) = outcome.links
    assert decode(entry.payload) == Request(
        "http://a.example/next", callback="other", meta={"n": 1}, depth=3, chain=(PAGE,)
    )


async def test_a_redirect_out_of_the_scope_is_not_followed_unless_a_seed_led_there(answers: Any) -> None:
    answers.answers["/page"] = (302, {"Location": "http://b.example/"}, b"")
    desk = Desk(answers, Spider(), Scope(domains=["a.example"]))
    outcome = await desk.visit()
    assert (outcome.ending, outcome.links, outcome.tally["outside:offsite"]) == (Ending.REDIRECTED, [], 1)
    (entry,) = (await desk.visit(seed=True)).links
    assert entry.permits


async def test_a_redirect_into_a_trap_is_not_followed(answers: Any) -> None:
    answers.answers["/page"] = (302, {"Location": "/" + "a/" * 20}, b"")
    desk = Desk(answers, Spider(), Scope(traps=TrapRules(Settings().traps, 2026)))
    outcome = await desk.visit()
    assert (outcome.ending, outcome.links, outcome.tally["outside:trap_repeats"]) == (Ending.REDIRECTED, [], 1)


async def test_a_redirect_that_adds_a_session_id_is_followed_once(answers: Any) -> None:
    """Where sessions are ignored it leads back to the page that was asked for; left out, the page would be lost."""
    answers.answers["/page"] = (302, {"Location": "/page;jsessionid=1f2e"}, b"")
    desk = Desk(answers, Spider(), ignore_sessions=True, traps="strict")
    (entry,) = (await desk.visit()).links
    assert entry.id != desk.fingerprinter.fingerprint("GET", PAGE), "it is not taken for one that was seen"
    outcome = await desk.visit(chain=(PAGE, PAGE + ";jsessionid=0"))
    assert (outcome.ending, outcome.error_class) == (Ending.FAILED, "redirect")


async def test_pages_are_judged_only_where_traps_are_looked_for(answers: Any) -> None:
    html = (200, {"Content-Type": "text/html"}, b"<p>the same words</p>")
    answers.answers |= {"/page": html, "/other": html}
    for traps, expected in (("strict", [False, True]), ("normal", [None, None]), ("off", [None, None])):
        desk = Desk(answers, Reader(), traps=traps)
        signs = []
        for path in ("/page", "/other"):
            news = (await desk.visit("http://a.example" + path)).news
            assert news is not None
            signs.append(news.sign)
        assert signs == expected


async def test_a_redirect_that_leads_nowhere_is_dead(answers: Any) -> None:
    desk = Desk(answers, Spider(), max_redirects=1)
    answers.answers |= {
        "/page": 302,
        "/bad": (302, {"Location": "ftp://x/"}, b""),
        "/more": (302, {"Location": "/"}, b""),
    }
    for path, fields in (("/page", {}), ("/bad", {}), ("/more", {"chain": (PAGE,)})):
        outcome = await desk.visit("http://a.example" + path, **fields)
        assert (outcome.ending, outcome.error_class, outcome.status) == (Ending.FAILED, "redirect", 302)
        assert outcome.error


async def test_unfiltered_hops_have_identities_that_last(answers: Any) -> None:
    answers.answers["/page"] = (302, {"Location": "/next"}, b"")
    desk = Desk(answers, Spider())
    first, again = [(await desk.visit(dont_filter=True)).links[0].id for _ in range(2)]
    plain = (await desk.visit()).links[0].id
    assert first == again != plain


# ---- refusals


@pytest.mark.parametrize(
    ("status", "error_class"),
    [(400, "http_4xx"), (404, "http_4xx"), (410, "http_4xx"), (501, "http_5xx"), (304, "redirect"), (300, "redirect")],
)
async def test_a_status_that_will_not_change_is_dead_at_once(answers: Any, status: int, error_class: str) -> None:
    answers.answers["/page"] = status
    outcome = await Desk(answers, Spider()).visit()
    assert (outcome.ending, outcome.error_class, outcome.status) == (Ending.FAILED, error_class, status)
    assert outcome.news is not None
    assert outcome.news.answered


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504, 520, 524])
async def test_a_status_that_may_change_is_tried_again_later_and_later(answers: Any, status: int) -> None:
    answers.answers["/page"] = status
    desk = Desk(answers, Spider(), max_attempts=4, retry_delay_seconds=8)
    for attempts, least in ((0, 4), (1, 8), (2, 16)):
        outcome = await desk.visit(attempts=attempts)
        assert outcome.ending is Ending.RETRY
        assert least <= outcome.retry_seconds <= 2 * least
    outcome = await desk.visit(attempts=3)
    assert (outcome.ending, outcome.status) == (Ending.FAILED, status)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("attempts", [0, 99])
async def test_a_block_is_the_hosts_and_never_the_pages_end(answers: Any, status: int, attempts: int) -> None:
    answers.answers["/page"] = status
    outcome = await Desk(answers, Spider()).visit(attempts=attempts)
    assert outcome.ending is Ending.RETRY
    assert outcome.news == HostNews(blocked=True, address="192.0.2.1")


@pytest.mark.parametrize("status", [429, 503, 500])
async def test_retry_after_is_obeyed_in_both_its_forms(answers: Any, status: int) -> None:
    desk = Desk(answers, Spider())
    when = email.utils.formatdate(LEASED_AT + 300, usegmt=True)
    for value, seconds in (("120", 120), (when, 300), ("999999", 86_400)):
        answers.answers["/page"] = (status, {"Retry-After": value}, b"")
        news = (await desk.visit()).news
        assert news is not None
        assert (news.blocked, news.retry_after_seconds) == (True, seconds)


@pytest.mark.parametrize("wrong", [-3600, 3600])
async def test_a_retry_after_date_is_after_the_date_of_its_answer(answers: Any, wrong: int) -> None:
    """Whoever's clock is wrong by an hour."""
    server = LEASED_AT + wrong
    headers = {"Retry-After": email.utils.formatdate(server + 60), "Date": email.utils.formatdate(server)}
    answers.answers["/page"] = (429, headers, b"")
    news = (await Desk(answers, Spider()).visit()).news
    assert news is not None
    assert news.retry_after_seconds == 60


@pytest.mark.parametrize(("value", "pause"), [("-5", 0), ("0", 0), ("soon", None), ("1.5", None), (None, None)])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_pause_that_names_nothing_is_a_block_all_the_same(
    answers: Any, status: int, value: str | None, pause: float | None
) -> None:
    answers.answers["/page"] = (status, {} if value is None else {"Retry-After": value}, b"")
    assert (await Desk(answers, Spider()).visit()).news == HostNews(
        blocked=True, retry_after_seconds=pause, address="192.0.2.1"
    )


async def test_a_nonsensical_retry_after_is_none(answers: Any) -> None:
    answers.answers["/page"] = (500, {"Retry-After": "soon"}, b"")
    outcome = await Desk(answers, Spider()).visit()
    assert outcome.ending is Ending.RETRY
    assert outcome.news is not None
    assert not outcome.news.blocked


# ---- no answer


@pytest.mark.parametrize("kind", ["dns", "connect", "tls"])
async def test_a_host_that_cannot_be_reached_is_the_hosts_news(answers: Any, kind: str) -> None:
    answers.answers["/page"] = FetchError(kind, "no way")
    outcome = await Desk(answers, Spider()).visit(attempts=99)
    assert (outcome.ending, outcome.error_class, outcome.error) == (Ending.RETRY, kind, "no way")
    assert outcome.news == HostNews(unreachable=True)


@pytest.mark.parametrize("kind", ["proxy", "slow"])
async def test_what_no_page_is_to_blame_for_costs_no_attempt_and_its_host_waits(answers: Any, kind: str) -> None:
    answers.answers["/page"] = FetchError(kind, "not now")
    outcome = await Desk(answers, Spider(), max_attempts=1).visit(attempts=5)
    assert (outcome.ending, outcome.error_class, outcome.news) == (Ending.RETRY, kind, HostNews(blocked=True))


@pytest.mark.parametrize("kind", ["timeout", "protocol", "truncated", "memory"])
async def test_a_fetch_that_broke_off_is_tried_again_and_then_dead(answers: Any, kind: str) -> None:
    answers.answers["/page"] = FetchError(kind, "cut off")
    desk = Desk(answers, Spider(), max_attempts=2)
    first = await desk.visit()
    assert (first.ending, first.error_class, first.news) == (Ending.RETRY, kind, None)
    assert first.retry_seconds > 0
    last = await desk.visit(attempts=1)
    assert (last.ending, last.error_class) == (Ending.FAILED, kind)


async def test_a_body_that_is_too_large_is_dead_at_once(answers: Any) -> None:
    answers.answers["/page"] = FetchError("too_large", "33 MB")
    outcome = await Desk(answers, Spider()).visit()
    assert (outcome.ending, outcome.error_class) == (Ending.FAILED, "too_large")


async def test_what_the_network_guard_refuses_is_excluded_and_untouched(answers: Any) -> None:
    answers.answers["/page"] = FetchError("guard", "10.0.0.1 is private")
    outcome = await Desk(answers, Spider()).visit()
    assert (outcome.ending, outcome.error_class, outcome.touched) == (Ending.EXCLUDED, "guard", False)


# ---- errbacks


@pytest.mark.parametrize(
    ("answer", "error_class", "status"),
    [
        (410, "http_4xx", 410),
        (500, "http_5xx", 500),
        (FetchError("timeout", "slow"), "timeout", None),
        (FetchError("connect", "refused"), "connect", None),
        ((302, {"Location": "ftp://x/"}, b""), "redirect", 302),
    ],
)
async def test_an_errback_hears_of_the_last_failure_and_its_yield_is_committed_with_it(
    answers: Any, answer: Any, error_class: str, status: int | None
) -> None:
    answers.answers["/page"] = answer
    outcome = await Desk(answers, Reader(), max_attempts=2).visit(errback="rescue", attempts=1)
    assert (outcome.ending, outcome.error_class, outcome.status) == (Ending.FAILED, error_class, status or 0)
    assert items(outcome) == [{"rescued": PAGE, "class": error_class, "status": status}]
    assert urls(outcome) == ["http://a.example/elsewhere"]


async def test_an_errback_does_not_change_what_is_told_of_an_unreachable_host(answers: Any) -> None:
    answers.answers["/page"] = FetchError("connect", "refused")
    outcome = await Desk(answers, Reader(), max_attempts=2).visit(errback="rescue", attempts=1)
    assert outcome.news == HostNews(unreachable=True)


@pytest.mark.parametrize("answer", [500, 503, FetchError("timeout", "slow"), FetchError("dns", "unknown")])
async def test_an_errback_is_not_called_while_there_is_hope(answers: Any, answer: Any) -> None:
    answers.answers["/page"] = answer
    outcome = await Desk(answers, Reader(), max_attempts=2).visit(errback="rescue")
    assert (outcome.ending, outcome.items) == (Ending.RETRY, [])


async def test_an_errback_that_fails_is_told_beside_the_failure(answers: Any) -> None:
    desk = Desk(answers, Reader())
    answers.answers["/page"] = 410
    outcome = await desk.visit(errback="bad_rescue")
    assert (outcome.ending, outcome.error_class, outcome.items) == (Ending.FAILED, "http_4xx", [])
    assert "HTTP 410" in outcome.error
    assert "the errback is broken" in outcome.error
    assert "no_such" in (await desk.visit(errback="no_such")).error


async def test_what_an_errback_yields_is_committed_in_one_piece(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harvest_module, "PART_ITEMS", 2)

    class Loud(Spider):
        def rescue(self, failure: Any) -> Any:
            return ({"n": n} for n in range(5))

    desk = Desk(answers, Loud())
    answers.answers["/page"] = 410
    assert len(items(await desk.visit(errback="rescue"))) == 5
    assert desk.parts == []


# ---- callbacks


def yields(*outputs: Any) -> dict[str, Any]:
    """The same yield in every form that a callback may have."""

    async def agen(self: Any, response: Any) -> Any:
        for output in outputs:
            await asyncio.sleep(0)
            yield output

    async def coroutine(self: Any, response: Any) -> Any:
        return list(outputs)

    async def coroutine_of_generator(self: Any, response: Any) -> Any:
        return iter(outputs)

    return {
        "generator": lambda self, response: iter(outputs),
        "list": lambda self, response: list(outputs),
        "tuple": lambda self, response: outputs,
        "async generator": agen,
        "coroutine": coroutine,
        "coroutine of an iterator": coroutine_of_generator,
    }


def spider_of(callback: Any) -> Spider:
    return type("Made", (Spider,), {"parse": callback})()


@pytest.mark.parametrize("form", yields())
async def test_a_callback_may_have_any_form(answers: Any, form: str) -> None:
    answers.answers["/page"] = 200
    outcome = await Desk(answers, spider_of(yields({"n": 1}, Request("/next"), None)[form])).visit()
    assert (outcome.ending, items(outcome), urls(outcome)) == (Ending.DONE, [{"n": 1}], ["http://a.example/next"])


@pytest.mark.parametrize(
    ("result", "count"),
    [(None, 0), ({"n": 1}, 1), (Request("/next"), 1), ([], 0)],
    ids=["None", "item", "request", "[]"],
)
async def test_a_callback_may_return_one_thing_or_none(answers: Any, result: Any, count: int) -> None:
    async def coroutine(self: Any, response: Any) -> Any:
        return result

    answers.answers["/page"] = 200
    for callback in (lambda self, response: result, coroutine):
        outcome = await Desk(answers, spider_of(callback)).visit()
        assert outcome.ending is Ending.DONE
        assert len(outcome.items) + len(outcome.links) == count


class Broken(Spider):
    """Each of its callbacks yields something, and then fails."""

    def sync(self, response: Any) -> Any:
        yield {"n": 1}
        yield Request("/next")
        raise ValueError("what went wrong")

    async def asynchronous(self, response: Any) -> Any:
        yield {"n": 1}
        await asyncio.sleep(0)
        raise ValueError("what went wrong")

    async def coroutine(self, response: Any) -> Any:
        raise ValueError("what went wrong")

    def plain(self, response: Any) -> Any:
        raise ValueError("what went wrong")

    def exits(self, response: Any) -> Any:
        sys.exit("what went wrong")

    async def cancelled(self, response: Any) -> Any:
        raise asyncio.CancelledError("what went wrong")

    def no_item(self, response: Any) -> Any:
        yield "what went wrong"

    def unstorable(self, response: Any) -> Any:
        yield {"n": 1}
        yield Request("/next", meta={"what went wrong": object()})

    def no_request(self, response: Any) -> Any:
        yield Request("/next", body={"what went wrong": 1}, cookies=["what went wrong"])  # type: ignore[arg-type]

    async def own_timeout(self, response: Any) -> Any:
        raise TimeoutError("what went wrong")

    async def group(self, response: Any) -> Any:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.coroutine(response))


@pytest.mark.parametrize("callback", [name for name, value in vars(Broken).items() if callable(value)])
async def test_a_callback_that_raises_makes_its_page_dead_and_drops_its_yield(answers: Any, callback: str) -> None:
    answers.answers["/page"] = (200, {}, b"12345")
    outcome = await Desk(answers, Broken()).visit(callback=callback)
    assert (outcome.ending, outcome.error_class, outcome.status) == (Ending.FAILED, "callback", 200)
    assert (outcome.items, outcome.links, outcome.tally) == ([], [], {"bytes": 5})
    assert "what went wrong" in outcome.error
    assert "Traceback" in outcome.error
    assert outcome.news is not None
    assert outcome.news.answered, "the host is not to blame"


async def test_the_traceback_begins_in_the_spiders_own_code(answers: Any) -> None:
    answers.answers["/page"] = 200
    outcome = await Desk(answers, Broken()).visit(callback="sync")
    assert "callbacks.py" not in outcome.error
    assert "in sync\n" in outcome.error


@pytest.mark.parametrize("callback", ["no_item", "unstorable", "no_request"])
async def test_the_line_that_yields_something_wrong_is_in_the_traceback(answers: Any, callback: str) -> None:
    answers.answers["/page"] = 200
    outcome = await Desk(answers, Broken()).visit(callback=callback)
    assert f"in {callback}\n    yield " in outcome.error
    assert "page_yield.py" not in outcome.error
    assert "request.py" not in outcome.error


async def test_the_traceback_of_an_item_function_is_its_own(answers: Any) -> None:
    def broken(item: Any) -> Any:
        raise TypeError("what went wrong")

    class Checked(Reader):
        item_functions = (broken,)

    answers.answers["/page"] = 200
    assert "in broken\n" in (await Desk(answers, Checked()).visit()).error


async def test_a_stored_request_with_a_proxy_of_its_own_is_sent_through_it_or_not_at_all(answers: Any) -> None:
    answers.answers["/page"] = 200
    await Desk(answers, Reader()).visit(meta={"proxy": "http://proxy.example:3128"})
    assert [(sent.proxy, sent.proxy_trusted) for sent in answers.requests] == [("http://proxy.example:3128", False)]
    for wrong in ("proxy.example", 7, None):
        outcome = await Desk(answers, Reader()).visit(meta={"proxy": wrong})
        assert (outcome.ending, outcome.error_class, outcome.touched) == (Ending.FAILED, "callback", False)
        assert "proxy" in outcome.error
    assert len(answers.requests) == 1


async def test_an_errback_is_not_for_what_a_callback_raises(answers: Any) -> None:
    answers.answers["/page"] = 200
    outcome = await Desk(answers, Broken()).visit(callback="sync", errback="rescue")
    assert (outcome.error_class, outcome.items) == ("callback", [])


async def test_a_callback_that_the_spider_does_not_have_is_named(answers: Any) -> None:
    answers.answers["/page"] = 200
    outcome = await Desk(answers, Spider()).visit(callback="no_such")
    assert (outcome.ending, outcome.error_class) == (Ending.FAILED, "callback")
    assert "no_such" in outcome.error


async def test_an_async_callback_has_its_time(answers: Any) -> None:
    closed = []

    class Slow(Spider):
        async def parse(self, response: Any) -> Any:
            try:
                yield {"n": 1}
                await asyncio.Event().wait()
            finally:
                closed.append(True)

    answers.answers["/page"] = 200
    outcome = await Desk(answers, Slow(), callback_seconds=0.01).visit()
    assert (outcome.ending, outcome.error_class, outcome.items) == (Ending.FAILED, "callback", [])
    assert "took more than 0.01 s" in outcome.error
    assert "Event().wait()" in outcome.error, "where it was stuck"
    assert closed


async def test_an_async_generator_that_is_given_up_is_closed_at_once(answers: Any) -> None:
    closed = []

    class Wrong(Spider):
        async def parse(self, response: Any) -> Any:
            try:
                yield "not an item"
            finally:
                closed.append(True)

    answers.answers["/page"] = 200
    assert (await Desk(answers, Wrong()).visit()).ending is Ending.FAILED
    assert closed


async def test_a_worker_that_stops_is_no_fault_of_the_callback(answers: Any) -> None:
    entered = asyncio.Event()

    class Slow(Spider):
        async def parse(self, response: Any) -> Any:
            entered.set()
            await asyncio.Event().wait()

    answers.answers["/page"] = 200
    task = asyncio.create_task(Desk(answers, Slow()).visit())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ---- large pages


class Large(Spider):
    def parse(self, response: Any) -> Any:
        for n in range(5_000):
            yield {"n": n}
            yield Request(f"/{n}")

    async def later(self, response: Any) -> Any:
        for output in self.parse(response):
            yield output

    def fails(self, response: Any) -> Any:
        yield from self.parse(response)
        raise ValueError("at the very end")


@pytest.mark.parametrize("callback", [None, "later"])
async def test_a_large_page_is_committed_in_parts_and_nothing_is_missing(answers: Any, callback: str | None) -> None:
    answers.answers["/page"] = 200
    desk = Desk(answers, Large())
    outcome = await desk.visit(callback=callback)
    every = [*desk.parts, outcome]
    assert [part.more for part in every] == [True, True, False]
    assert [record["n"] for part in every for record in items(part)] == list(range(5_000))
    assert len({entry.id for part in every for entry in part.links}) == 5_000
    assert max(len(part.items) + len(part.links) for part in every) <= 4_001


async def test_a_large_page_that_fails_at_its_end_is_dead(answers: Any) -> None:
    answers.answers["/page"] = 200
    outcome = await Desk(answers, Large()).visit(callback="fails")
    assert (outcome.ending, outcome.items, outcome.links) == (Ending.FAILED, [], [])


@pytest.mark.parametrize("callback", [None, "later"])
async def test_a_large_page_that_is_lost_between_its_parts_is_dropped(answers: Any, callback: str | None) -> None:
    answers.answers["/page"] = 200
    desk = Desk(answers, Large())
    desk.refuse_part = 2
    with pytest.raises(LeaseLostError):
        await desk.visit(callback=callback)
    assert len(desk.parts) == 2


@pytest.mark.parametrize("callback", [None, "later"])
async def test_a_store_that_fails_between_the_parts_is_no_fault_of_the_page(answers: Any, callback: str | None) -> None:
    answers.answers["/page"] = 200
    desk = Desk(answers, Large())
    desk.refuse_part = -2
    with pytest.raises(FrontierError, match="disk is full"):
        await desk.visit(callback=callback)


# ---- functions


async def test_a_function_of_a_url_is_called_without_a_fetch(answers: Any) -> None:
    def scrape(url: str, meta: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"url": url}, meta]

    outcome = await Desk(answers, function_spider(scrape)()).visit(meta={"shop": 7})
    assert (outcome.ending, outcome.touched, outcome.news) == (Ending.DONE, True, None)
    assert items(outcome) == [{"url": PAGE}, {"shop": 7}]
    assert answers.requests == []


@pytest.mark.parametrize(("attempts", "ending"), [(0, Ending.RETRY), (3, Ending.FAILED)])
async def test_what_such_a_function_raises_is_tried_again(answers: Any, attempts: int, ending: Ending) -> None:
    def scrape(url: str) -> None:
        raise OSError(f"no route to {url}")

    outcome = await Desk(answers, function_spider(scrape)()).visit(attempts=attempts)
    assert (outcome.ending, outcome.error_class, outcome.retry_seconds > 0) == (ending, "callback", attempts == 0)
    assert "no route to" in outcome.error
    assert "function_spider" not in outcome.error, "the traceback begins with the user's own code"
