"""Pages provided by a test: a response for a callback, and a fetcher that serves pages without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from skitter.errors import FetchError, UrlError, UsageError
from skitter.extract.content_type import kind_of
from skitter.extract.response import Response
from skitter.fetch.contract import FetchRequest
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.model.secrets import shown_url
from skitter.model.url import absolute

Answer = str | bytes | int | dict[str, Any] | list[Any] | Response | Exception | Callable[[FetchRequest], Any]
"""Answer to a request: a body, a status, JSON, a response, an error to raise, or a function that returns one."""
Headers = Mapping[str, str] | Sequence[tuple[str, str]]
_TYPES = {"html": "text/html", "xml": "application/xml", "other": "text/plain"}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def response(
    body: str | bytes = b"",
    url: str = "https://example.com/",
    *,
    status: int = 200,
    headers: Headers = (),
    request: Request | None = None,
) -> Response:
    """Return a response for tests that call a callback directly.

    A text body is encoded as UTF-8, and a Content-Type is derived from its first characters unless ``headers`` has one.
    For a body of bytes no Content-Type is added, and the encoding is detected as for any page. ``request`` is the
    request that was answered, with its ``meta``.

        >>> page = response("<h1>Books</h1><a href=/2>next</a>", "https://books.example/")
        >>> page.css("h1::text").get(), page.links()
        ('Books', ['https://books.example/2'])
    """
    pairs = [(name.lower(), value) for name, value in (headers.items() if isinstance(headers, Mapping) else headers)]
    if isinstance(body, str):
        body = body.encode()
        if not any(name == "content-type" for name, _ in pairs):
            pairs.append(("content-type", f"{_TYPES[kind_of('', body)]}; charset=utf-8"))
    page = Page(url=_absolute(url), status=status, headers=pairs, body=body, wire_bytes=len(body))
    return Response(page, request if request is not None else Request(page.url))


class GivenPages:
    """Fetcher that answers at once with the pages of a test, and with 404 for other URLs. It keeps no cookies."""

    def __init__(self, answer_to: Callable[[FetchRequest], Answer | None]) -> None:
        self._answer_to = answer_to
        self.requests: list[FetchRequest] = []
        """Requests that were sent, in order, without those for robots.txt."""
        self.missing: list[str] = []
        """Pages that were requested but not provided, each once."""
        self.error: Exception | None = None
        """Error of the test itself: an invalid answer, or a function that raised."""

    async def fetch(self, request: FetchRequest) -> Page:
        if request.on_send is not None:
            request.on_send()
        try:
            return self._page(request)
        except FetchError:
            raise
        except Exception as error:
            self.error = self.error or error
            raise

    def _page(self, request: FetchRequest) -> Page:
        answer = self._answer_to(request)
        if not is_robots(request):
            self.requests.append(request)
            name = page_name(request.method, request.url)
            if answer is None and name not in self.missing:
                self.missing.append(name)
        return _page_of(404 if answer is None else answer, request)

    async def close(self) -> None:
        """Do nothing."""


def table_of_pages(pages: Mapping[str, Answer]) -> Callable[[FetchRequest], Answer | None]:
    """Return a function that looks up answers in a table.

    Keys are URLs, or a method and a URL: ``"POST https://shop.example/search"``.
    """
    answers = {page_name(*_method_and_url(name)): answer for name, answer in pages.items()}
    return lambda request: answers.get(page_name(request.method, request.url))


def is_robots(request: FetchRequest) -> bool:
    """Return whether the request is for a robots.txt."""
    return urlsplit(request.url).path == "/robots.txt"


def page_name(method: str, url: str) -> str:
    """Return the name of a page: its URL without a password, after the method if that is not GET."""
    url = shown_url(_absolute(url))
    return url if method == "GET" else f"{method} {url}"


def _page_of(answer: Any, request: FetchRequest) -> Page:
    if callable(answer):
        answer = answer(request)
    if isinstance(answer, Exception):
        raise answer
    match answer:
        case Response():
            return answer.page
        case str() | bytes():
            return response(answer, request.url).page
        case bool():
            pass
        case int():
            return response("", request.url, status=answer).page
        case dict() | list():
            headers = {"content-type": "application/json"}
            return response(json.dumps(answer).encode(), request.url, headers=headers).page
    raise UsageError(
        f"not an answer for {shown_url(request.url)}: {type(answer).__name__}",
        hint="a body, a status, a dict or list for JSON, skitter.testing.response(…), or a function that returns one",
    )


def _method_and_url(name: str) -> tuple[str, str]:
    method, _, url = name.partition(" ")
    return (method, url) if method in _METHODS and url else ("GET", name)


def _absolute(url: str) -> str:
    try:
        return absolute(url)
    except UrlError as error:
        raise UsageError(
            str(error), hint="a page of a test is named by its whole URL: https://shop.example/1"
        ) from error
