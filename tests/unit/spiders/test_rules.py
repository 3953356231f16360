"""Rules follow links by themselves; a wrong rule is named before anything runs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from skitter import Rule, Spider
from skitter.errors import SpiderError
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Links, Request
from skitter.spiders.loading import check_spider

PAGE = b"""<a href="/item/1">1</a><a href="/item/2">2</a><a href="/list/2">next</a><a href="/about">about</a>
<p class=more><a href="/item/9">9</a></p>"""


class Shop(Spider):
    start_urls = ("http://site.test/",)
    rules = (
        Rule(restrict="p.more", callback="parse_special", cb_kwargs={"why": "more"}),
        Rule(r"/item/\d", callback="parse_item"),
        Rule(allow=["/item/", "/list/"]),
    )

    def parse_special(self, response: Response, why: str) -> Iterator[dict[str, str]]:
        yield {"special": why}

    def parse_item(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"item": response.url}


def page(meta: dict[str, Any] | None = None) -> Response:
    url = "http://site.test/"
    found = Page(url=url, status=200, headers=[("content-type", "text/html")], body=PAGE)
    return Response(found, Request(url, meta=meta or {}))


def with_rules(*rules: Any, **methods: Any) -> Spider:
    return type("Shop", (Spider,), {"start_urls": ["http://site.test/"], "rules": rules, **methods})()


def test_a_link_belongs_to_the_first_rule_that_matches() -> None:
    spider = Shop()
    check_spider(spider)
    found = list(spider.parse(page()))
    assert [(each.url, each.callback, each.cb_kwargs) for each in found if isinstance(each, Request)] == [
        ("http://site.test/item/9", "parse_special", {"why": "more"}),
        ("http://site.test/item/1", "parse_item", {}),
        ("http://site.test/item/2", "parse_item", {}),
    ]
    (links,) = [each for each in found if isinstance(each, Links)]
    assert links == ["http://site.test/list/2"]


async def _items(callback: Any) -> list[Any]:
    spider = with_rules(Rule("/item/", callback="parse_item", follow=True), parse_item=callback)
    check_spider(spider)
    (first, *_) = spider.parse(page())
    assert (first.callback, first.cb_kwargs) == ("parse_and_follow", {})
    result = getattr(spider, first.callback)(page(first.meta))
    return [each async for each in result] if hasattr(result, "__aiter__") else list(result)


async def test_a_rule_may_have_a_callback_of_any_kind_and_follow_too() -> None:
    async def generator(self: Spider, response: Response) -> AsyncIterator[dict[str, str]]:
        yield {"a": "b"}

    async def coroutine(self: Spider, response: Response) -> dict[str, str]:
        return {"a": "b"}

    def one(self: Spider, response: Response) -> dict[str, str]:
        return {"a": "b"}

    def several(self: Spider, response: Response) -> list[dict[str, str]]:
        return [{"a": "b"}]

    def steps(self: Spider, response: Response) -> Iterator[dict[str, str]]:
        yield {"a": "b"}

    for callback in (generator, coroutine, one, several, steps):
        item, *links = await _items(callback)
        assert item == {"a": "b"}
        assert [link.url[-6:] for link in links] == ["item/1", "item/2", "item/9"]
    assert len(await _items(lambda self, response: None)) == 3


def test_a_callback_that_is_gone_by_now_is_named() -> None:
    with pytest.raises(Exception, match="no callback of this name: parse_old"):
        Shop().parse_and_follow(page({"rule_callback": "parse_old"}))


def test_requests_of_a_rule_can_be_changed_or_left_out() -> None:
    def first_only(self: Spider, request: Request, response: Response) -> Request | None:
        return request.replace(priority=5) if request.url.endswith("1") else None

    spider = with_rules(Rule("/item/", process_request="first_only"), first_only=first_only)
    check_spider(spider)
    assert [(each.url, each.priority) for each in spider.parse(page())] == [("http://site.test/item/1", 5)]


def test_a_callback_may_be_given_as_the_method_itself() -> None:
    rule = Rule("/item/", callback=Shop.parse_item)
    assert (rule.callback, rule.follow) == ("parse_item", False)


def test_a_parse_of_its_own_decides_and_may_follow_the_rules() -> None:
    def parse(self: Spider, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from self.follow_rules(response)

    spider = with_rules(Rule("/list/"), parse=parse)
    check_spider(spider)
    assert list(spider.parse(page())) == [{"url": "http://site.test/"}, ["http://site.test/list/2"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"allow": "["}, "a rule has a wrong value: not a regular expression: '['"),
        ({"allow": 3}, "a rule has a wrong value: 'int' object is not iterable"),
        ({"restrict": "a >"}, "a rule has a wrong value: incomplete selector: 'a >'"),
        ({"follow": False}, "a rule has neither a callback nor follow"),
        ({"cb_kwargs": {"a": 1}}, "a rule has cb_kwargs but no callback"),
        ({"callback": 3}, "a rule's callback must be a method of the spider or its name, not 3"),
        ({"callback": lambda: None}, "a rule's callback must be a method of the spider or its name, not <function"),
    ],
)
def test_a_wrong_rule_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SpiderError, match=re.escape(message)) as caught:
        Rule(**arguments)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([Rule(callback="parse_itm")], "a rule names a callback that Shop does not have: parse_itm"),
        ([Rule(process_request="change")], "a rule names a process_request that Shop does not have: change"),
        ([object()], "rules must be of the class skitter.Rule, not object: Shop"),
        (Rule("/x"), "rules must be a list of rules: Shop"),
    ],
)
def test_a_spider_with_wrong_rules_does_not_start(rules: Any, message: str) -> None:
    spider = with_rules()
    spider.rules = rules
    with pytest.raises(SpiderError, match=re.escape(message)):
        check_spider(spider)
