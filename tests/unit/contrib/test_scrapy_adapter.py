"""Parts of the Scrapy adapter: settings, old names, remembered joins, records of items, classes of pages."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import subprocess
import sys
from decimal import Decimal
from urllib.parse import urljoin

import pytest
import scrapy
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse
from scrapy.settings import Settings
from twisted.internet.error import DNSLookupError
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.web.client import ResponseFailed

from skitter.contrib.scrapy.components import own_components
from skitter.contrib.scrapy.exported_items import ItemExport
from skitter.contrib.scrapy.link_caches import _FolderJoins
from skitter.contrib.scrapy.pages import make_failure, make_response
from skitter.contrib.scrapy.project_settings import setting_layer
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.spiders.failure import Failure


def layer(**values) -> tuple[dict, list, list[str]]:
    settings, warnings = Settings(), []
    settings.setdict(values, priority="project")
    (_, found), sinks, _ = setting_layer("shop/settings.py", "books", settings, warnings)
    return found, sinks, warnings


def test_settings_of_a_project_become_those_of_a_job() -> None:
    found, sinks, warnings = layer(
        ROBOTSTXT_OBEY=True,
        RETRY_HTTP_CODES="500, 403",
        DOWNLOAD_DELAY=0.5,
        CONCURRENT_REQUESTS_PER_DOMAIN=2,
        MONGO_URI="mongodb://x",
        FEEDS={"%(name)s.jsonl": {"format": "jsonlines", "fields": ["a"], "overwrite": True}},
        DOWNLOADER_MIDDLEWARES={"scrapy.downloadermiddlewares.retry.RetryMiddleware": None},
    )
    assert (found["obey_robots"], found["delay_seconds"], found["per_host"], found["max_attempts"]) == (True, 0.5, 2, 1)
    assert sinks == [{"target": "books.jsonl", "overwrite": True}]
    assert warnings == []


def test_scrapys_defaults_hold_where_skitters_would_give_other_pages() -> None:
    found, _, _ = layer()
    assert (found["obey_robots"], found["timeout_seconds"], found["traps"]) == (False, 180.0, "off")


def test_what_has_no_counterpart_is_named_once() -> None:
    _, _, warnings = layer(
        DUPEFILTER_CLASS="shop.Filter",
        DOWNLOAD_HANDLERS={"https": "x.Handler"},
        DNS_TIMEOUT=3,
        FEED_EXPORTERS={"a": "b"},
    )
    text = "\n".join(warnings)
    assert "DUPEFILTER_CLASS has no effect" in text
    assert "DOWNLOAD_HANDLERS has no effect" in text
    assert "FEED_EXPORTERS has no effect" in text
    assert "DNS_TIMEOUT" in text


def test_components_are_those_that_the_project_names() -> None:
    settings = Settings(
        {
            "DOWNLOADER_MIDDLEWARES": {
                "shop.B": 900,
                "shop.A": 100,
                "shop.Off": None,
                "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": 110,
            }
        }
    )
    assert own_components(settings, "DOWNLOADER_MIDDLEWARES") == [(100.0, "shop.A"), (900.0, "shop.B")]


OLD = """
from skitter.contrib.scrapy import old_names
old_names.install()
from scrapy.contrib.downloadermiddleware.useragent import UserAgentMiddleware
from scrapy.contrib.linkextractors.sgml import SgmlLinkExtractor
from scrapy.contrib.loader.processor import Join
from scrapy.contrib.pipeline.images import ImagesPipeline
from scrapy.contrib.spiders import CrawlSpider, Rule
from scrapy.loader.processors import MapCompose, TakeFirst
from scrapy.spider import BaseSpider
from scrapy.utils.markup import remove_tags
from scrapy.utils.url import canonicalize_url
from scrapy.xlib.pydispatch import dispatcher
from scrapy.conf import settings
from scrapy import log
import scrapy, scrapy.downloadermiddlewares.useragent as new, scrapy.spiders
assert new.UserAgentMiddleware is UserAgentMiddleware
assert new.__spec__.name == new.__name__ == "scrapy.downloadermiddlewares.useragent"
assert BaseSpider is scrapy.Spider and hasattr(scrapy.Spider, "start_requests")
try:
    import scrapy.not_there
except ModuleNotFoundError:
    print("well")
"""


def test_names_of_old_versions_are_the_new_objects() -> None:
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr


def test_remembered_joins_are_those_of_urljoin() -> None:
    join = _FolderJoins()
    bases = "http://a.b http://a.b/ http://a.b/c/d/e.html http://a.b/c/?x=/y/z http://a.b/c/d;p/q#f/g /rel/x".split()
    links = ["", " x", *"x x/y ../x ./x /x //h/x http://q/r http:foo ?a=1 #f x?y#z x;p mailto:a@b . .. ü".split()]
    for base, link in itertools.product([*bases, ""], links):
        assert join(base, link) == urljoin(base, link), (base, link)


class Book(scrapy.Item):
    title = scrapy.Field()
    price = scrapy.Field(serializer=str)


@dataclasses.dataclass
class Author:
    name: str


def test_records_are_what_scrapy_writes() -> None:
    export = ItemExport(Settings())
    assert export.record(Book(price=1)) == {"price": "1"}
    record = export.record({"when": dt.date(2020, 1, 2), "much": Decimal("1.5"), "by": [Author("A")], "t": ("a",)})
    assert record == {"when": "2020-01-02", "much": "1.5", "by": [{"name": "A"}], "t": ["a"]}
    assert ItemExport(Settings({"FEED_EXPORT_FIELDS": {"b": "B", "c": "C"}})).record({"a": 1, "b": 2}) == {"B": 2}


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html; charset=utf-8", b"<p>", HtmlResponse),
        ("application/rss+xml", b"<rss/>", XmlResponse),
        ("text/plain", b"x", TextResponse),
        ("image/png", b"\x89PNG\x01", Response),
        ("", b"<!doctype html><html></html>", HtmlResponse),
    ],
)
def test_responses_have_the_class_that_scrapy_chooses(content_type: str, body: bytes, kind: type) -> None:
    headers = [
        ("content-type", content_type),
        ("content-encoding", "gzip"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
    ]
    page = Page(url="http://a.example/", status=200, headers=headers if content_type else [], body=body)
    response = make_response(page, scrapy.Request("http://a.example/#part"))
    assert (type(response), response.url, response.body) == (kind, "http://a.example/", body)
    if content_type:
        assert response.headers.getlist("Set-Cookie") == [b"a=1", b"b=2"]
        assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize(
    ("error_class", "kinds"),
    [
        ("dns", (scrapy.exceptions.CannotResolveHostError, DNSLookupError)),
        ("timeout", (scrapy.exceptions.DownloadTimeoutError, TwistedTimeoutError)),
        ("truncated", (scrapy.exceptions.ResponseDataLossError, ResponseFailed)),
        ("memory", (scrapy.exceptions.DownloadFailedError,)),
    ],
)
def test_failures_are_of_scrapys_kinds_and_of_twisteds(error_class: str, kinds: tuple) -> None:
    request = scrapy.Request("http://a.example/")
    failure = make_failure(Failure(Request("http://a.example/"), error_class, "why", None), request, None)
    assert failure.request is request
    assert all(failure.check(kind) for kind in kinds)
