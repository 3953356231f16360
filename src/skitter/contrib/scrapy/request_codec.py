"""Conversion between Scrapy's requests and skitter's, in a form that every process of a job can read.

Scrapy's ``meta`` is stored as a whole under one key of skitter's ``meta``, together with attributes that only Scrapy
has (class, flags, encoding, headers with several values). Keys that affect fetching are also stored next to it, or as
fields of the request. Callbacks are stored by the names of the spider's methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import scrapy
from scrapy.http import Headers

from skitter.contrib.scrapy.stored_values import ValueReader, pack_values
from skitter.errors import RequestError, UrlError
from skitter.model.request import Request
from skitter.model.secrets import shown_url
from skitter.model.url import absolute

KEY = "scrapy"
"""Key in a request's ``meta`` with Scrapy's own data."""
PASSED = (
    "dont_redirect",
    "dont_retry",
    "download_timeout",
    "handle_httpstatus_all",
    "handle_httpstatus_list",
    "max_retry_times",
    "proxy",
)
"""Keys of Scrapy's ``meta`` that skitter's ``meta`` also supports (``spiders.scrapy_names``)."""
_FIELDS = frozenset(Request.__struct_fields__)
_CALLBACK_HINT = (
    "another process may call it, so it is stored by its name: use a method of the spider, such as self.parse_page,"
    " and pass values in cb_kwargs"
)


class RequestCodec:
    """Converts the requests of one spider in both directions.

    Subclasses may override ``name_of`` and ``method_of`` to change the stored names of methods.
    """

    def __init__(self, spider: scrapy.Spider) -> None:
        self._spider = spider
        self._reader = ValueReader(type(spider).__module__)
        self._names: dict[Callable[..., Any], str] = {}
        """Cached names of the spider's methods; bounded by the number of its methods."""

    # ---- to skitter

    def encode(self, request: scrapy.Request) -> Request:
        """Return skitter's request. Raises RequestError for a callback or value that cannot be stored."""
        url = request.url
        meta = self._packed(request)
        cb_kwargs = request._cb_kwargs  # noqa: SLF001  the property would create a dict for each link of a page
        fields: dict[str, Any] = {}
        if request.callback is not None:
            fields["callback"] = self.name_of(request, "callback")
        if request.errback is not None:
            fields["errback"] = self.name_of(request, "errback")
        if request.method != "GET":
            fields["method"] = request.method
        if request.body:
            fields["body"] = request.body
        if request._headers:  # noqa: SLF001
            fields["headers"] = _plain_headers(request.headers)
        if request._cookies or request._meta:  # noqa: SLF001
            _add_cookies(request, fields)
        if cb_kwargs:
            fields["cb_kwargs"] = pack_values(cb_kwargs, "cb_kwargs", shown_url(url))
        if request.priority:
            fields["priority"] = request.priority
        if request.dont_filter:
            fields["dont_filter"] = True
        return Request(url, meta=meta, **fields)

    def _packed(self, request: scrapy.Request) -> dict[str, Any]:
        """Return skitter's ``meta``, which is empty for a plain request."""
        extra: dict[str, Any] = {}
        found: dict[str, Any] = {}
        url = request.url
        if given := request._meta:  # noqa: SLF001
            extra["meta"] = pack_values(given, "meta", shown_url(url))
            found = {name: given[name] for name in PASSED if given.get(name)}
        if "#" in url or _normalised(url) != url:
            extra["url"] = url
        if type(request) is not scrapy.Request:
            extra |= _class_parts(request)
        if request._flags:  # noqa: SLF001
            extra["flags"] = list(request.flags)
        if request.encoding != "utf-8":
            extra["encoding"] = request.encoding
        if request._headers and any(len(request.headers.getlist(name)) != 1 for name in request.headers):  # noqa: SLF001
            extra["headers"] = [[name, request.headers.getlist(name)] for name in request.headers]
        if isinstance(request._cookies, list):  # noqa: SLF001
            extra["cookies"] = [dict(cookie) for cookie in request._cookies]  # noqa: SLF001
        if extra:
            found[KEY] = extra
        return found

    def name_of(self, request: scrapy.Request, field: str) -> str:
        """Return the name of the spider's method that a request names as its callback or errback."""
        callback: Any = getattr(request, field)
        try:
            name = self._names.get(callback)
        except TypeError:
            name = None
        if name is not None:
            return name
        owner, name = getattr(callback, "__self__", None), getattr(callback, "__name__", "")
        if owner is not self._spider or getattr(self._spider, name, None) != callback:
            raise RequestError(
                f"a request's {field} must be a method of the spider, not {_described(callback, owner)}:"
                f" {shown_url(request.url)}",
                hint=_CALLBACK_HINT,
            )
        self._names[callback] = name
        return name

    # ---- from skitter

    def decode(self, request: Request) -> scrapy.Request:
        """Return Scrapy's request, with methods of the spider as callbacks."""
        extra: Mapping[str, Any] = request.meta.get(KEY) or {}
        # A redirect keeps the meta of the first request, but has another URL.
        url = extra.get("url", request.url) if not request.chain else request.url
        headers: Any = request.headers
        if "headers" in extra:
            headers = Headers(dict(extra["headers"]), encoding=extra.get("encoding", "utf-8"))
        meta = self._reader.read_values(extra["meta"]) if "meta" in extra else {}
        if "url" not in extra and "meta" not in extra and request.meta:
            # Not created by this codec, for example a message from a queue.
            meta = {name: value for name, value in request.meta.items() if name != KEY}
        fields = {
            "url": url,
            "method": request.method,
            "headers": headers or None,
            "body": request.body,
            "cookies": extra.get("cookies", request.cookies) or None,
            "meta": meta,
            "encoding": extra.get("encoding", "utf-8"),
            "priority": request.priority,
            "dont_filter": request.dont_filter,
            "flags": extra.get("flags"),
            "cb_kwargs": self._reader.read_values(request.cb_kwargs) if request.cb_kwargs else None,
            "callback": self.method_of(request.callback),
            "errback": self.method_of(request.errback),
        }
        kind = self._reader.find_class(extra["class"], scrapy.Request) if "class" in extra else scrapy.Request
        if kind is not scrapy.Request:
            own = {name: self._reader.read(value) for name, value in extra.get("attributes", {}).items()}
            return kind(**fields, **own)
        return kind(**fields)

    def method_of(self, name: str | None) -> Callable[..., Any] | None:
        """Return the spider's method with a stored name. Raises RequestError if there is none."""
        if name is None:
            return None
        method = getattr(self._spider, name, None)
        if not callable(method):
            raise RequestError(f"the spider has no callback of this name: {name}", hint="has it been renamed since?")
        found: Callable[..., Any] = method
        return found


def _add_cookies(request: scrapy.Request, fields: dict[str, Any]) -> None:
    """Add the fields ``cookies`` and, if skitter has sessions, ``session``."""
    is_alone = bool(request.meta.get("dont_merge_cookies"))
    if request.cookies and not is_alone:
        fields["cookies"] = plain_cookies(request.cookies)
    if "session" in _FIELDS and (is_alone or request.meta.get("cookiejar") is not None):
        fields["session"] = None if is_alone else str(request.meta["cookiejar"])


def plain_cookies(cookies: Any) -> dict[str, str]:
    """Return cookie values by name, from a dict or from Scrapy's list of dicts."""
    pairs = (
        cookies.items() if isinstance(cookies, Mapping) else [(each.get("name"), each.get("value")) for each in cookies]
    )
    return {_text(name): _text(value) for name, value in pairs if name is not None and value is not None}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain_headers(headers: Headers) -> dict[str, str]:
    found = {name: b",".join(headers.getlist(name)) for name in headers}
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in found.items()}


def _class_parts(request: scrapy.Request) -> dict[str, Any]:
    """Return the class of a request and the attributes that only that class has."""
    kind = type(request)
    own = [name for name in request.attributes if name not in scrapy.Request.attributes]
    values = {name: getattr(request, name) for name in own}
    parts: dict[str, Any] = {"class": f"{kind.__module__}:{kind.__qualname__}"}
    if any(value is not None and value != {} for value in values.values()):
        parts["attributes"] = pack_values(values, "attributes", shown_url(request.url))
    return parts


def _normalised(url: str) -> str:
    try:
        return absolute(url)
    except UrlError:
        # Reported when the request is queued.
        return url


def _described(callback: Any, owner: Any) -> str:
    name = getattr(callback, "__name__", type(callback).__name__)
    if name == "<lambda>":
        return "a lambda"
    if owner is not None:
        return f"a method of another object ({type(owner).__name__}.{name})"
    if "<locals>" in getattr(callback, "__qualname__", ""):
        return f"a function inside a function ({name})"
    return f"a function outside of it ({name})"
