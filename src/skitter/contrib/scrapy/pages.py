"""Scrapy's responses and failures for pages and errors of skitter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urldefrag

import scrapy
from scrapy import exceptions
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.internet import error as twisted_error
from twisted.python.failure import Failure as TwistedFailure
from twisted.web.client import ResponseFailed

from skitter.model.page import Page
from skitter.spiders.failure import Failure

_DECODED = ("content-encoding",)
"""Headers that do not apply to a decoded body; Scrapy removes them too."""


class LivePage(Page):
    """Page with a Scrapy object that a middleware has created or seen."""

    scrapy: Any = None
    """Response, request to send instead, or failure for the errback."""


def live_page(page: Page, live: Any, **changes: Any) -> LivePage:
    """Return a page with a Scrapy object."""
    return LivePage(**{name: getattr(page, name) for name in Page.__struct_fields__} | changes, scrapy=live)


def made_page(url: str, live: Any) -> LivePage:
    """Return a page that was not fetched, for a Scrapy object."""
    status = live.status if isinstance(live, Response) else 200
    body = live.body if isinstance(live, Response) else b""
    headers = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name in (live.headers if isinstance(live, Response) else ())
        for value in live.headers.getlist(name)
    ]
    return LivePage(url=url, status=status, headers=headers, body=body, scrapy=live)


def make_response(page: Page, request: scrapy.Request) -> Response:
    """Return Scrapy's response for a page, of the class that Scrapy would choose."""
    found: dict[str, list[str]] = {}
    for name, value in page.headers:
        if name not in _DECODED:
            found.setdefault(name, []).append(value)
    headers = Headers(found, encoding="latin-1")
    url = request.url if "#" not in request.url else urldefrag(request.url)[0]
    kind = _kind(page, headers, url)
    return kind(
        url,
        status=page.status,
        headers=headers,
        body=page.body,
        request=request,
        ip_address=_address(page.address),
        protocol=page.http_version or None,
    )


_KINDS: dict[str, type[Response]] = {}
"""Response classes by content type, for types whose class depends on nothing else."""


def _kind(page: Page, headers: Headers, url: str) -> type[Response]:
    content_type = page.header("content-type") or ""
    kind = _KINDS.get(content_type)
    if kind is None:
        kind = responsetypes.from_args(headers=headers, url=url, body=page.body)
        if content_type and kind is not Response and len(_KINDS) < 1000:
            _KINDS[content_type] = kind
    return kind


def _address(text: str) -> Any:
    if not text:
        return None
    import ipaddress

    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


# ---- failures: both Scrapy's own exceptions and Twisted's, which most errbacks check for


class DnsError(exceptions.CannotResolveHostError, twisted_error.DNSLookupError):
    """The host name cannot be resolved."""


class RefusedError(exceptions.DownloadConnectionRefusedError, twisted_error.ConnectionRefusedError):
    """The server or proxy cannot be connected to."""


class SlowError(exceptions.DownloadTimeoutError, twisted_error.TimeoutError, twisted_error.TCPTimedOutError):
    """The server did not respond in time."""


class BrokenOffError(exceptions.ResponseDataLossError, ResponseFailed):
    """The response is incomplete or not valid HTTP."""

    def __init__(self, message: str) -> None:
        begin: Any = ResponseFailed.__init__
        begin(self, [failure_of(twisted_error.ConnectionLost(message))])


ERRORS: dict[str, Callable[[str], Exception]] = {
    "connect": RefusedError,
    "dns": DnsError,
    "proxy": RefusedError,
    "protocol": BrokenOffError,
    "slow": SlowError,
    "timeout": SlowError,
    "tls": BrokenOffError,
    "too_large": exceptions.DownloadCancelledError,
    "truncated": BrokenOffError,
}
"""Exceptions by error class; other classes become DownloadFailedError."""


def make_failure(failure: Failure, request: scrapy.Request, response: Response | None) -> Any:
    """Return the failure to pass to an errback."""
    error: Exception
    if response is not None:
        error = HttpError(response, "Ignoring non-200 response")
    else:
        error = ERRORS.get(failure.error_class, exceptions.DownloadFailedError)(failure.message)
    return failure_of(error, request)


def failure_of(error: BaseException, request: scrapy.Request | None = None) -> Any:
    """Return an exception as a failure; Any, because Twisted has no type hints. ``request``: the failed request."""
    make: Any = TwistedFailure
    made = make(error, type(error), error.__traceback__)
    made.request = request
    return made
