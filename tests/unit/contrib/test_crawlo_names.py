"""Crawlo's names for requests, items and spiders do what they do there, or are refused."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.contrib.crawlo import Field, Item, Request, RequestPriority, Spider
from skitter.errors import RequestError
from skitter.extract.items import to_record
from skitter.spiders.loading import check_spider


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"params": {"q": "a b", "tag": ["x", "y"]}}, {"url": "http://a.example/?q=a+b&tag=x&tag=y"}),
        ({"form_data": {"q": "a"}}, {"method": "POST", "body": b"q=a"}),
        ({"json_body": {"q": 1}}, {"method": "POST", "body": b'{"q":1}'}),
        ({"body": {"q": 1}, "method": "put"}, {"method": "PUT", "body": b'{"q":1}'}),
        ({"body": "text", "method": "POST"}, {"body": b"text"}),
        ({"auth": ("u", "p")}, {"headers": {"Authorization": "Basic dTpw"}}),
        ({"allow_redirects": False, "meta": {"a": 1}}, {"meta": {"a": 1, "dont_redirect": True}}),
        ({"priority": RequestPriority.URGENT, "timeout": 5}, {"priority": 200, "timeout": 5.0}),
        ({"dont_filter": True, "cookies": {"a": "b"}}, {"dont_filter": True, "cookies": {"a": "b"}}),
    ],
)
def test_keywords_of_a_request_are_read(options: dict[str, Any], fields: dict[str, Any]) -> None:
    request = Request("http://a.example/", **options)
    assert {name: getattr(request, name) for name in fields} == fields


@pytest.mark.parametrize("options", [{"verify": False}, {"flags": ["x"]}, {"encoding": "gbk"}])
def test_a_keyword_without_a_counterpart_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"skitter has no counterpart for .* of a Crawlo request: http://a.example/"):
        Request("http://a.example/", **options)


class Book(Item):
    title = Field(nullable=False, max_length=5)
    price = Field(field_type=float)
    shop = Field(default="here")


class Novel(Book):
    author = Field()


def test_an_item_has_its_fields_by_key_and_attribute() -> None:
    book = Novel(title="Emma", price=2.5, author="Austen", shop=" ")
    book.title = "Emma2"
    assert (book["title"], book.price, book.shop, len(book)) == ("Emma2", 2.5, "here", 4)
    assert to_record(book) == book.to_dict() == {"title": "Emma2", "price": 2.5, "author": "Austen", "shop": "here"}
    del book["price"]
    with pytest.raises(AttributeError, match="Novel has no value of this name: price"):
        _ = book.price


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"title": ""}, ValueError),
        ({"title": "too long"}, ValueError),
        ({"price": "2"}, TypeError),
        ({"other": 1}, KeyError),
    ],
)
def test_a_value_that_a_field_forbids_is_an_error(values: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Book(values)


async def test_start_requests_may_be_plain_or_async() -> None:
    class Plain(Spider):
        start_urls = ("http://a.example/", "http://b.example/")

        def parse(self, response: Any) -> Any:
            yield {}

    class Async(Plain):
        async def start_requests(self) -> Any:
            yield self.make_request("http://c.example/", callback=self.parse)

    for kind, urls in ((Plain, ["http://a.example/", "http://b.example/"]), (Async, ["http://c.example/"])):
        spider = kind()
        check_spider(spider)
        assert [request.url async for request in spider.start()] == urls
