"""What a callback yields becomes entries and records: in scope, once, with identities that last."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from typing import Any

import pytest

from skitter.errors import RequestError
from skitter.extract.items import decode_item
from skitter.model.lease import Lease, Work
from skitter.model.request import Fingerprinter, Links, Request, decode
from skitter.policy.scope import Scope
from skitter.policy.traps import TrapRules
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.scrapy_names import META
from skitter.worker import page_yield as module
from skitter.worker.known_urls import KnownUrls
from skitter.worker.page_yield import LinkContext, PageYield
from skitter.worker.url_table import UrlTable

PAGE = Request("http://a.example/dir/page", depth=2, chain=("http://a.example/old",), seed=True)
LEASE = Lease(work=Work.PAGE, id=7, epoch=1)


class Books(Spider):
    def parse_book(self, response: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...


def rules(known: Iterable[str] = (), **scope: Any) -> LinkContext:
    remembered = KnownUrls(UrlTable.alone(100, b"secret", 1))
    remembered.learn(known)
    return LinkContext(spider=Books(), fingerprinter=Fingerprinter(b"secret"), scope=Scope(**scope), known=remembered)


def harvest(*outputs: Any, by: LinkContext | None = None, origin: Request | None = PAGE) -> PageYield:
    harvest = PageYield(by or rules(), 7, origin)
    for output in outputs:
        harvest.take(output)
    return harvest


def requests(harvest: PageYield) -> list[Request]:
    return [decode(entry.payload) for entry in harvest.links]


def test_items_of_every_kind_become_records_in_order() -> None:
    @dataclasses.dataclass
    class Book:
        title: str

    taken = harvest({"title": "one"}, Book("two"), None)
    assert [decode_item(item.record) for item in taken.items] == [{"title": "one"}, {"title": "two"}]


@pytest.mark.parametrize("output", ["http://a.example/", 7, ["nested"], object()])
def test_anything_else_is_an_error_that_names_it(output: Any) -> None:
    with pytest.raises(TypeError, match=f"items and Requests, not {type(output).__name__}"):
        harvest(output)


def test_a_request_knows_where_it_comes_from() -> None:
    (found,) = requests(harvest(Request("next", chain=("http://spoofed.example/",), seed=True, depth=99)))
    assert found == Request("http://a.example/dir/next", depth=3, referrer=PAGE.url)


def test_a_request_keeps_its_need() -> None:
    taken = harvest(Request("/book", need="browser"), Links(["http://a.example/plain"]))
    assert [(entry.need, request.need) for entry, request in zip(taken.links, requests(taken), strict=True)] == [
        ("browser", "browser"),
        ("", ""),
    ]


def test_a_seed_has_no_origin_and_permits_its_host() -> None:
    taken = harvest(Request("https://b.example/"), origin=None)
    assert requests(taken) == [Request("https://b.example/", seed=True)]
    assert [entry.permits for entry in taken.links] == [True]


def test_bad_urls_are_counted_by_rule_and_never_raised() -> None:
    taken = harvest(*map(Request, ["javascript:x", "mailto:a@b.example", "http://[", "/" + "x" * 5000, "\ud800", "ok"]))
    assert [request.url for request in requests(taken)] == ["http://a.example/dir/ok"]
    assert taken.tally == {"skipped:scheme": 2, "skipped:unparsable": 2, "skipped:too_long": 1}


def test_a_seed_that_is_no_url_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not harvest(Request("example.com/books"), origin=None).links
        assert not harvest(Request("javascript:x")).links
    (record,) = caplog.records
    assert "example.com/books" in record.message


def test_links_outside_the_scope_are_counted_per_rule_and_are_no_requests() -> None:
    taken = harvest(*map(Request, ["/in", "http://b.example/", "http://c.example/"]), by=rules(domains=["a.example"]))
    assert [request.url for request in requests(taken)] == ["http://a.example/in"]
    assert taken.tally == {"outside:offsite": 2}
    assert harvest(Request("/in"), by=rules(max_depth=2)).tally == {"outside:depth": 1}


def test_seeds_are_not_asked_for_their_scope() -> None:
    taken = harvest(Request("http://b.example/"), by=rules(domains=["a.example"], max_depth=0), origin=None)
    assert len(taken.links) == 1


def test_a_url_that_is_known_never_leaves_the_process() -> None:
    taken = harvest(*map(Request, ["/known", "/new", "/new#part"]), by=rules(["http://a.example/known"]))
    assert [request.url for request in requests(taken)] == ["http://a.example/new"]
    assert taken.tally == {"duplicates": 2}
    assert taken.urls == ["http://a.example/new"]


@pytest.mark.parametrize("fields", [{"dont_filter": True}, {"method": "POST"}, {"body": b"q"}, {"method": "get"}])
def test_what_is_not_deduped_by_url_alone_is_the_frontiers_business(fields: dict[str, Any]) -> None:
    taken = harvest(Request("/known", **fields), by=rules(["http://a.example/known"]))
    assert len(taken.links) == 1
    assert taken.urls == []


def test_unfiltered_requests_are_the_same_ones_whatever_the_worker_knows() -> None:
    outputs = [
        Request("/a"),
        Request("javascript:x"),
        Request("/poll", dont_filter=True),
        Request("/poll", dont_filter=True),
    ]
    here, there = harvest(*outputs), harvest(*outputs, by=rules(["http://a.example/a"]))
    ids = [entry.id for entry in here.links]
    assert len(set(ids)) == 3
    assert ids[1:] == [entry.id for entry in there.links]


def test_an_unfiltered_request_of_another_page_is_another_one() -> None:
    first, second = PageYield(rules(), 7, PAGE), PageYield(rules(), 8, PAGE)
    for taken in (first, second):
        taken.take(Request("/poll", dont_filter=True))
    assert first.links[0].id != second.links[0].id


def test_callbacks_are_stored_by_name() -> None:
    spider_rules = rules()
    books = spider_rules.spider
    outputs = [
        Request("/1", books.parse),
        Request("/2", "parse"),
        Request("/3", books.parse_book, books.failed),  # type: ignore[attr-defined]
        Request("/4", "parse_book", "failed"),
    ]
    found = requests(harvest(*outputs, by=spider_rules))
    assert [(request.callback, request.errback) for request in found] == [
        (None, None),
        (None, None),
        ("parse_book", "failed"),
        ("parse_book", "failed"),
    ]


@pytest.mark.parametrize("callback", [lambda response: None, Books().parse_book, "no_such_method", len, 7])
def test_a_callback_that_another_worker_could_not_find_is_an_error(callback: Any) -> None:
    with pytest.raises(TypeError, match="a method of the spider or its name"):
        harvest(Request("/", callback))


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        ("parse_bok", "not 'parse_bok', which Books does not have"),
        ("name", "not 'name', which Books does not have"),
        (Books().parse_book, r"not a method of another object \(Books.parse_book\)"),
        (Books.parse_book, r"not a method without its object \(Books.parse_book\): write self.parse_book"),
        (harvest, r"not a function outside the spider \(harvest\)"),
    ],
)
@pytest.mark.parametrize("field", ["callback", "errback"])
def test_why_something_is_no_callback_is_said(field: str, callback: Any, said: str) -> None:
    with pytest.raises(RequestError, match=f"{field} must be a method of the spider or its name, {said}"):
        harvest(Request("/", **{field: callback}))


def test_a_body_may_be_text() -> None:
    (found,) = requests(harvest(Request("/", method="post", body='{"q": "ü"}')))  # type: ignore[arg-type]
    assert (found.method, found.body) == ("POST", '{"q": "ü"}'.encode())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"meta": {"selector": object()}}, "meta"),
        ({"cb_kwargs": {"f": len}}, "cb_kwargs"),
        ({"priority": 2**63}, "priority"),
    ],
)
def test_what_cannot_be_stored_is_an_error_that_names_it(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(RequestError, match=named):
        harvest(Request("/", **fields))


def test_a_download_and_a_page_of_one_url_are_two_requests() -> None:
    url = "http://page.example/a.pdf"
    context = rules([url])
    taken = harvest(Request(url, "save_file"), Request(url), Request(url, context.spider.save_file), by=context)
    # The page is known to the worker; what is downloaded twice the frontier tells apart.
    assert [request.callback for request in requests(taken)] == ["save_file", "save_file"]
    assert len({entry.id for entry in taken.links}) == 1
    assert context.fingerprinter.request_id(Request(url)) != taken.links[0].id


# ---- what Scrapy gives a meaning


@pytest.mark.parametrize("name", sorted(META))
def test_a_key_of_meta_that_scrapy_would_obey_is_refused_by_name(name: str) -> None:
    value: Any = False if name == "download_fail_on_dataloss" else "http://ann:hunter2@proxy.example:3128"
    with pytest.raises(RequestError, match=rf"meta\['{name}'\].*: http://a\.example/") as caught:
        harvest(Request("http://a.example/", meta={"mine": 1, name: value}))
    assert caught.value.hint == META[name]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("known", [[], ["http://a.example/"]], ids=["new", "known"])
@pytest.mark.parametrize("origin", [PAGE, None], ids=["page", "seed"])
def test_a_request_with_a_proxy_of_its_own_never_becomes_one_without(origin: Request | None, known: list[str]) -> None:
    for value in ("proxy.example:3128", None, ""):
        taken = PageYield(rules(known), 7, origin)
        request = Request("http://a.example/")
        request.meta["proxy"] = value  # as spiders do, after they have made it
        with pytest.raises(RequestError, match="proxy"):
            taken.take(request)
        assert taken.links == []


def test_keys_of_ones_own_are_free_and_so_is_what_asks_for_nothing() -> None:
    meta = {"shelf": 3, "dont_redirect": False, "cookiejar": None, "proxies": ["x"], "page": 2}
    (found,) = requests(harvest(Request("/", meta=meta)))
    assert found.meta == meta


@pytest.mark.parametrize(
    ("meta", "options"),
    [
        ({"download_timeout": 7}, {"timeout": 7.0}),
        ({"max_retry_times": 4}, {"max_attempts": 5}),
        ({"proxy": "socks5h://me:pw@proxy.example"}, {"proxy": "socks5h://me:pw@proxy.example"}),
        ({"dont_retry": True, "max_retry_times": 4}, {"max_attempts": 1}),
        ({"handle_httpstatus_list": [404, 301]}, {"handle_statuses": (301, 404)}),
        ({"handle_httpstatus_list": [404], "handle_httpstatus_all": True}, {"handle_statuses": "all"}),
        ({"handle_httpstatus_all": False, "dont_retry": None, "download_fail_on_dataloss": True}, {}),
    ],
)
def test_a_key_of_scrapy_with_a_counterpart_is_that_option(meta: dict[str, Any], options: dict[str, Any]) -> None:
    (found,) = requests(harvest(Request("/", meta=meta)))
    names = ("timeout", "max_attempts", "handle_statuses", "proxy")
    expected = {"timeout": None, "max_attempts": None, "handle_statuses": (), "proxy": ""} | options
    assert {name: getattr(found, name) for name in names} == expected
    assert found.meta == meta


def test_an_option_of_the_request_wins_over_its_meta() -> None:
    meta = {"download_timeout": 7, "handle_httpstatus_list": [404], "max_retry_times": 9}
    (found,) = requests(harvest(Request("/", meta=meta, timeout=1, max_attempts=2, handle_statuses=[500])))
    assert (found.timeout, found.max_attempts, found.handle_statuses) == (1.0, 2, (500,))


@pytest.mark.parametrize(
    "meta", [{"download_timeout": "soon"}, {"handle_httpstatus_list": 404}, {"max_retry_times": -9}]
)
def test_a_value_that_a_key_of_scrapy_cannot_have_is_an_error(meta: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"http://page\.example"):
        harvest(Request("http://page.example/", meta=meta))


def test_a_large_page_is_ready_for_a_part_and_starts_anew_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_LINKS", 3)
    monkeypatch.setattr(module, "PART_ITEMS", 2)
    taken = harvest(Request("/1"), Request("/2"), Request("/2"), {"n": 1})
    assert not taken.is_large
    taken.take(Request("/3"))
    assert taken.is_large
    part, urls = taken.take_part(LEASE)
    assert (part.more, len(part.links), len(part.items), part.tally) == (True, 3, 1, {"duplicates": 1})
    assert urls == ["http://a.example/1", "http://a.example/2", "http://a.example/3"]
    assert (taken.links, taken.items, taken.urls, taken.tally, taken.is_large) == ([], [], [], {}, False)
    for number in (2, 3):
        taken.take({"n": number})
    assert taken.is_large
    assert (part.after, taken.take_part(LEASE)[0].after, taken.take_part(LEASE)[0].after) == (0, 1, 3)


def test_what_must_go_in_one_piece_is_never_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_ITEMS", 2)
    taken = PageYield(rules(), 7, PAGE, in_parts=False)
    for number in range(5):
        taken.take({"n": number})
    assert not taken.is_large


def test_memory_does_not_grow_with_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_LINKS", 10)
    taken = harvest(origin=None)
    for number in range(100):
        taken.take(Request(f"http://a.example/{number}"))
        if taken.is_large:
            taken.take_part(LEASE)
        assert len(taken._here) <= 10


def test_links_into_a_trap_are_counted_by_rule_and_are_not_taken() -> None:
    endless = "http://a.example/" + "a/" * 11
    by = rules(traps=TrapRules(Settings().traps, 2026))
    taken = harvest(Request(endless), Links([endless, "http://a.example/b"]), by=by)
    assert [request.url for request in requests(taken)] == ["http://a.example/b"]
    assert taken.tally == {"outside:trap_repeats": 2}
    assert requests(harvest(Request(endless), by=by, origin=None)) != [], "what the user typed is always taken"
