"""A function is a spider if its parameters say what it is to be given."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from skitter.errors import SpiderError, UsageError
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.spiders.function_spider import function_spider
from skitter.spiders.loading import full_reference, load_spider

URL = "https://a.example/1"


def response() -> Response:
    page = Page(url=URL, status=200, headers=[("content-type", "text/html")], body=b"<title>one</title>")
    return Response(page, Request(URL, meta={"shop": 7}))


def scrape(url: str, meta: dict[str, Any]) -> dict[str, Any]:
    return {"url": url, "meta": meta, "thread": threading.current_thread() is not threading.main_thread()}


async def scrape_async(url: str) -> list[str]:
    return [url]


def with_response(response: Response, meta: dict[str, Any]) -> dict[str, Any]:
    return {"title": response.title, "shop": meta["shop"]}


def two_items(url: str) -> Any:
    yield {"url": url}
    yield {"of a generator": threading.current_thread() is not threading.main_thread()}


def fails(url: str) -> None:
    raise KeyError(url)


def ends_iteration(url: str) -> None:
    raise StopIteration(url)


def test_a_function_of_a_url_is_called_in_a_thread() -> None:
    kind = function_spider(scrape)
    assert (kind.__name__, kind.name, kind.takes_url) == ("scrape", "scrape", True)
    assert asyncio.run(kind().parse(response())) == {"url": URL, "meta": {"shop": 7}, "thread": True}


def test_a_coroutine_function_is_awaited_where_it_is_called() -> None:
    assert asyncio.run(function_spider(scrape_async)().parse(response())) == [URL]


def test_a_function_of_a_response_is_a_callback_like_any_other() -> None:
    kind = function_spider(with_response)
    assert not kind.takes_url
    assert kind().parse(response()) == {"title": "one", "shop": 7}


def test_a_generator_is_read_in_its_thread() -> None:
    assert asyncio.run(function_spider(two_items)().parse(response())) == [{"url": URL}, {"of a generator": True}]


@pytest.mark.parametrize(("function", "error"), [(fails, KeyError), (ends_iteration, RuntimeError)])
def test_what_it_raises_is_raised_where_it_is_awaited(function: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(function_spider(function)().parse(response()))


def test_one_that_hangs_is_left_behind_when_it_is_given_up() -> None:
    go_on = threading.Event()

    def hangs(url: str) -> dict[str, str]:
        go_on.wait()
        return {"too late": url}

    async def given_up() -> None:
        async with asyncio.timeout(0.05):
            await function_spider(hangs)().parse(response())

    with pytest.raises(TimeoutError):
        asyncio.run(given_up())
    go_on.set()


@pytest.mark.parametrize(
    "function",
    [lambda: None, lambda page: None, lambda meta, url: None, lambda url, meta, more: None, lambda url, other: None],
)
def test_other_parameters_are_refused(function: Any) -> None:
    with pytest.raises(SpiderError, match="not a spider: the function") as caught:
        function_spider(function)
    assert "(url, meta)" in caught.value.hint


def test_parameters_with_a_default_are_the_functions_own_business() -> None:
    assert function_spider(lambda url, retries=3: None).takes_url


def test_a_function_is_loaded_by_its_name_and_stored_by_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def scrape(url, meta):\n    return {'url': url}\n\ndef helper(x): pass\n")
    kind = load_spider("shop.py:scrape", tmp_path)
    assert full_reference("./shop.py:scrape", kind, tmp_path) == "shop.py:scrape"
    with pytest.raises(SpiderError, match="not a spider"):
        load_spider("shop.py:helper", tmp_path)


def test_a_function_needs_urls_and_a_class_takes_none() -> None:
    from skitter.app.script import source_of
    from skitter.spiders.base import Spider

    class Books(Spider):
        start_urls = (URL,)

        def parse(self, response: Response) -> None: ...

    with pytest.raises(UsageError, match="a function needs URLs: scrape"):
        source_of(scrape, (), {})
    with pytest.raises(UsageError, match="a spider does not take URLs"):
        source_of(Books, URL, {})
    with pytest.raises(UsageError, match="not a spider"):
        source_of(len, (), {})
    assert source_of(scrape, URL, {}).seeds == [URL]
