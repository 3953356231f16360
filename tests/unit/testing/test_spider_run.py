"""A spider runs against given pages through the real worker: without a network, and without waiting."""

from __future__ import annotations

import asyncio
import doctest
from collections.abc import Iterator
from typing import Any

import pytest

from skitter import Request, Response, Spider, testing
from skitter.errors import FetchError, UsageError
from skitter.testing import given_pages, spider_run

SHOP = "https://shop.example"


class Shop(Spider):
    start_urls = (f"{SHOP}/",)
    allowed_domains = ("shop.example",)
    custom_settings = {"delay_seconds": 30, "max_attempts": 3}  # noqa: RUF012  as users write it

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"title": response.css("h1::text").get(), "status": response.status}
        yield from response.follow_all(css="a")

    def told(self, failure: Any) -> Iterator[Any]:
        yield {"failed": failure.error_class}


def link(*paths: str) -> str:
    return "".join(f"<a href='{path}'>x</a>" for path in paths)


@pytest.mark.parametrize("module", [given_pages, spider_run])
def test_examples_of_the_reference_are_true(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


# ---- response


def test_text_is_what_was_given_whatever_it_says_of_its_encoding() -> None:
    page = testing.response("<meta charset=latin1><h1>Füße</h1>", "https://a.example/x?b=1#part")
    assert page.css("h1::text").get() == "Füße"
    assert (page.url, page.status, page.kind) == ("https://a.example/x?b=1", 200, "html")


def test_bytes_are_read_as_those_of_any_server() -> None:
    page = testing.response(
        "<meta charset=latin1><h1>Füße</h1>".encode("latin-1"), headers={"Content-Type": "text/html"}
    )
    assert page.css("h1::text").get() == "Füße"
    assert page.headers["content-type"] == "text/html"
    assert testing.response('{"a": 1}').json() == {"a": 1}
    assert testing.response("<?xml version='1.0'?><urlset/>").kind == "xml"


def test_a_callback_sees_its_request() -> None:
    request = Request(f"{SHOP}/1", meta={"page": 1})
    page = testing.response("", request.url, status=404, request=request)
    assert (page.meta, page.status, page.request) == ({"page": 1}, 404, request)


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="not") as caught:
        testing.response("", "/relative")
    assert "whole URL" in caught.value.hint


# ---- run


def test_pages_links_redirects_failures_and_what_is_missing() -> None:
    pages = {
        f"{SHOP}/": "<h1>home</h1>" + link("/a", "/moved", "/gone", "/missing", "https://other.example/"),
        f"{SHOP}/a": testing.response("<h1>a</h1>", f"{SHOP}/a"),
        f"{SHOP}/moved": testing.response("", f"{SHOP}/moved", status=301, headers={"location": "/b"}),
        f"{SHOP}/b": b"<h1>b</h1>",
        f"{SHOP}/gone": 410,
    }
    ran = testing.run(Shop, pages)
    assert [item["title"] for item in ran.items] == ["home", "a", "b"]
    assert [request.url for request in ran.requests] == [
        f"{SHOP}{path}" for path in ("/", "/a", "/moved", "/gone", "/missing", "/b")
    ]
    assert {failed.url: failed.status for failed in ran.failures} == {f"{SHOP}/gone": 410, f"{SHOP}/missing": 404}
    assert ran.missing == [f"{SHOP}/missing"]
    assert (ran.stats["done"], ran.stats["redirected"], ran.stats["failed"]) == (3, 1, 2)
    assert sum(n for name, n in ran.stats.items() if name.startswith("outside:")) == 1


def test_retries_delays_and_long_pauses_take_no_time() -> None:
    answers = iter([503, testing.response("", SHOP, status=429, headers={"retry-after": "3600"}), "<h1>at last</h1>"])
    ran = testing.run(
        Shop, {f"{SHOP}/": lambda _: next(answers), f"{SHOP}/robots.txt": "User-agent: *\nCrawl-delay: 20"}
    )
    assert [item["title"] for item in ran.items] == ["at last"]
    assert len(ran.requests) == 3
    # In real time the pause alone is far longer than any test may take.


def test_robots_txt_is_obeyed() -> None:
    ran = testing.run(Shop, {f"{SHOP}/robots.txt": "User-agent: *\nDisallow: /private", f"{SHOP}/": link("/private/1")})
    assert ran.stats["excluded"] == 1
    assert len(ran.requests) == 1


def test_a_callback_that_raises_is_a_failure_with_its_traceback() -> None:
    class Broken(Shop):
        def parse(self, response: Response) -> Any:
            raise ValueError("no price")

    (failure,) = testing.run(Broken, {f"{SHOP}/": "x"}).failures
    assert failure.error_class == "callback"
    assert "ValueError: no price" in failure.error


def test_methods_bodies_json_errors_and_functions() -> None:
    class Api(Shop):
        def start(self) -> Any:
            yield Request(f"{SHOP}/api", method="POST", body=b'{"page": 1}')
            yield Request(f"{SHOP}/down", errback="told")

        def parse(self, response: Response) -> Any:
            return response.json()["books"]

    pages = {
        f"POST {SHOP}/api": lambda request: {"books": [{"sent": request.body.decode()}]},
        f"{SHOP}/down": FetchError("timeout", "too slow"),
    }
    ran = testing.run(Api, pages)
    assert ran.items == [{"sent": '{"page": 1}'}, {"failed": "timeout"}]
    assert ran.missing == []


def test_functions_and_urls_and_arguments() -> None:
    def scrape(response: Response) -> dict[str, Any]:
        return {"title": response.title}

    class Told(Shop):
        topic = ""

        def start(self) -> Any:
            yield Request(f"{SHOP}/{self.topic}")

    pages = {f"{SHOP}/": "<title>shop</title>", f"{SHOP}/art": "<h1>art</h1>"}
    assert testing.run(scrape, pages, f"{SHOP}/").items == [{"title": "shop"}]
    assert testing.run(Told, pages, arguments={"topic": "art"}).items[0]["title"] == "art"
    assert testing.run(f"{SHOP}/", pages).items[0]["title"] == "shop"


def test_mistakes_of_the_test_are_raised_and_not_counted() -> None:
    def broken(request: object) -> str:
        raise KeyError("of the test")

    with pytest.raises(KeyError, match="of the test"):
        testing.run(Shop, {f"{SHOP}/": broken})
    with pytest.raises(UsageError, match=r"not an answer for https://shop.example/: float"):
        testing.run(Shop, {f"{SHOP}/": 1.5})  # type: ignore[dict-item]


def test_a_request_that_no_worker_can_serve_ends_the_run() -> None:
    class Needy(Shop):
        def start(self) -> Any:
            yield Request(f"{SHOP}/", need="browser")

    assert testing.run(Needy, {}).stats["queued"] == 1


async def test_it_runs_in_a_test_with_a_loop() -> None:
    assert asyncio.get_running_loop().is_running()
    assert testing.run(Shop, {f"{SHOP}/": "<h1>home</h1>"}).items == [{"title": "home", "status": 200}]
