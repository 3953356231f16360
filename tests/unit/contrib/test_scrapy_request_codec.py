"""Scrapy's requests in stored form: what comes back is what was yielded, and what cannot be stored is refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections import OrderedDict
from decimal import Decimal
from typing import NamedTuple

import attrs
import pytest
import scrapy
from pydantic import BaseModel
from scrapy.http import FormRequest, JsonRequest
from scrapy.link import Link
from scrapy.loader import ItemLoader

from skitter.contrib.scrapy.request_codec import RequestCodec
from skitter.errors import RequestError
from skitter.model.request import Fingerprinter, decode


class Book(scrapy.Item):
    title = scrapy.Field()
    price = scrapy.Field()


@dataclasses.dataclass
class Author:
    name: str
    born: dt.date | None = None


@attrs.define
class Tag:
    name: str


class Shop(BaseModel):
    name: str


class Colour(enum.Enum):
    RED = "r"


class Point(NamedTuple):
    x: int
    y: list


class Books(scrapy.Spider):
    name = "books"

    def parse_book(self, response, **kwargs):
        pass

    def failed(self, failure):
        pass


@pytest.fixture
def spider() -> Books:
    return Books()


def stored(spider: scrapy.Spider, request: scrapy.Request) -> scrapy.Request:
    """What another process makes of it."""
    codec = RequestCodec(spider)
    encoded = codec.encode(request)
    return codec.decode(decode(Fingerprinter(b"k").entry(encoded).payload))


def test_a_request_comes_back_with_all_that_scrapy_knows_of_it(spider: Books) -> None:
    request = scrapy.Request(
        "http://shop.example/a b?q=1#top",
        callback=spider.parse_book,
        errback=spider.failed,
        method="PUT",
        headers={"Accept": ["a", "b"], "X-Key": "1"},
        body="ü",
        cookies=[{"name": "c", "value": "1", "domain": "shop.example"}],
        meta={"cookiejar": 1, "handle_httpstatus_list": [404], "download_timeout": 3},
        cb_kwargs={"page": 2},
        encoding="latin-1",
        priority=5,
        dont_filter=True,
        flags=["f"],
    )
    back = stored(spider, request)
    assert back.to_dict(spider=spider) == request.to_dict(spider=spider)
    encoded = RequestCodec(spider).encode(request)
    assert encoded.cookies == {"c": "1"}
    assert encoded.headers["Accept"] == "a,b"
    assert encoded.meta["download_timeout"] == 3


def test_a_plain_link_costs_nothing_but_its_url_and_callback(spider: Books) -> None:
    encoded = RequestCodec(spider).encode(scrapy.Request("http://shop.example/1", spider.parse_book))
    assert (encoded.meta, encoded.headers, encoded.callback) == ({}, {}, "parse_book")


def test_values_that_spiders_pass_on_come_back_as_what_they_were(spider: Books) -> None:
    book = Book(title="T", price=Decimal("1.50"))
    values = {
        "book": book,
        "author": Author("A", dt.date(2020, 1, 2)),
        "tag": Tag("t"),
        "shop": Shop(name="s"),
        "colour": Colour.RED,
        "point": Point(1, [2]),
        "link": Link("http://a.example/", text="x"),
        "nested": [{"book": book, 1: (1, {"a"})}, dt.datetime(2020, 1, 2, 3, 4, tzinfo=dt.UTC)],
        "by tuple": {(1, 2): book},
        "tagged": {"\0": "item"},
        "ordered": OrderedDict(a=1),
        "request": FormRequest("http://a.example/", formdata={"a": "1"}),
    }
    back = stored(spider, scrapy.Request("http://shop.example/", meta=values, cb_kwargs={"book": book})).meta
    request, expected = back.pop("request"), values.pop("request")
    assert (type(request), request.body) == (FormRequest, expected.body)
    assert back == values
    assert {name: type(value) for name, value in back.items()} == {
        **{name: type(value) for name, value in values.items()},
        "ordered": dict,
    }


def test_a_loader_goes_on_with_what_it_has_collected(spider: Books) -> None:
    loader = ItemLoader(item=Book(price=3))
    loader.add_value("title", "a")
    back = stored(spider, scrapy.Request("http://shop.example/", meta={"loader": loader})).meta["loader"]
    back.add_value("title", "b")
    assert dict(back.load_item()) == {"price": [3], "title": ["a", "b"]}


def test_forms_and_json_keep_their_class(spider: Books) -> None:
    form = stored(spider, FormRequest("http://a.example/", formdata={"a": "1"}))
    assert (type(form), form.method, form.body) == (FormRequest, "POST", b"a=1")
    sent = stored(spider, JsonRequest("http://a.example/", data={"a": 1}))
    assert (type(sent), sent.body, sent.headers[b"Content-Type"]) == (JsonRequest, b'{"a": 1}', b"application/json")


def outside(response):
    pass


def test_callbacks_without_a_name_are_refused(spider: Books) -> None:
    codec = RequestCodec(spider)
    for callback, told in (
        (lambda response: None, "a lambda"),
        (outside, "a function outside of it"),
        (Books().parse_book, "a method of another object"),
    ):
        with pytest.raises(RequestError, match=told):
            codec.encode(scrapy.Request("http://a.example/", callback))


def test_values_without_a_stored_form_are_refused_by_their_place(spider: Books) -> None:
    page = scrapy.http.HtmlResponse("http://a.example/", body=b"<p>1</p>")
    with pytest.raises(RequestError, match=r"meta\['deep'\]\[0\]\['page'\] .* HtmlResponse"):
        RequestCodec(spider).encode(scrapy.Request("http://a.example/", meta={"deep": [{"page": page}]}))


def test_a_stored_class_is_not_imported_from_anywhere(spider: Books) -> None:
    codec = RequestCodec(spider)
    encoded = codec.encode(scrapy.Request("http://a.example/", meta={"book": Book(title="T")}))
    encoded.meta["scrapy"]["meta"]["book"]["class"] = "antigravity:Book"
    with pytest.raises(RequestError, match="unknown class"):
        codec.decode(encoded)
