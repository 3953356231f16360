"""Hooks: what a spider, or a class that the setting ``hooks`` names, may do at each step of a crawl.

A worker finds out once, when it starts, which hooks there are; those that nobody wrote cost nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.model.page import Page
from skitter.model.request import Request
from skitter.policy.retry import MAX_RETRY_AFTER_SECONDS
from skitter.spiders.failure import Failure
from skitter.spiders.stats import Stats

if TYPE_CHECKING:
    # Not loaded where hooks are only looked up: a process without pages needs no parser.
    from skitter.extract.response import Response
    from skitter.observe.events import Event


class Retry:
    """Decision of a hook: fetch the request again. It counts as an attempt; after the last one the request fails.

    ``reason`` names the counter. ``delay`` is in seconds, at most a day; None means the usual delay after a failure.
    ``new_proxy``: use another proxy of the job's pool. ``new_session``: the session that the frontier handed out has
    expired and is replaced."""

    __slots__ = ("delay", "new_proxy", "new_session", "reason")

    def __init__(
        self, reason: str, *, delay: float | None = None, new_proxy: bool = False, new_session: bool = False
    ) -> None:
        self.reason = _checked_reason("Retry", reason)
        self.new_proxy = new_proxy
        self.new_session = new_session
        if delay is not None and not 0 <= delay <= MAX_RETRY_AFTER_SECONDS:
            raise ValueError(
                f"the delay of Retry must be from 0 to {MAX_RETRY_AFTER_SECONDS:g} seconds: {delay!r:.100}"
            )
        self.delay = None if delay is None else float(delay)


class Drop:
    """Decision of a hook: drop the request, without an errback. ``skitter failed`` lists it with the reason."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = _checked_reason("Drop", reason)


class Ban:
    """Decision of a hook: this proxy or this session can no longer be used. The request is fetched with another one.

    ``proxy``: the host does not serve the proxy of the pool; no attempt is counted, and after twenty times the
    request fails, class ``proxy``. ``session``: the session that the frontier handed out is replaced, as by
    ``Retry(new_session=True)``. ``reason`` names the counter."""

    __slots__ = ("proxy", "reason", "session")

    def __init__(self, reason: str, *, proxy: bool = False, session: bool = False) -> None:
        self.reason = _checked_reason("Ban", reason)
        self.proxy = proxy
        self.session = session
        if not proxy and not session:
            raise ValueError(f"Ban needs proxy=True or session=True: {reason!r:.100}; as in Ban(reason, proxy=True)")


class Answer:
    """Decision of the hooks ``on_request`` and ``on_error``: use this as the response, and do not contact a server."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, body: bytes | str, *, status: int = 200, headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    ) -> None:
        self.body = body.encode() if isinstance(body, str) else bytes(body)
        if type(status) is not int or not 200 <= status <= 599:
            raise ValueError(f"invalid status of an Answer: {status!r:.100}")
        self.status = status
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self.headers = [(name.lower(), value) for name, value in pairs]

    def page(self, url: str) -> Page:
        """Return it as a page with this URL."""
        return Page(url=url, status=self.status, headers=self.headers, body=self.body)


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Information about the job for ``on_start``."""

    name: str
    run: int
    spider: str
    """Reference of the spider; empty for the built-in one."""
    arguments: Mapping[str, str]
    """Spider arguments, from ``-a KEY=VALUE``."""
    settings: Mapping[str, Any]
    """Settings that all workers share, by name."""
    worker: str
    """Id of the worker that calls the hook."""


class CloseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Information about the finished run for ``on_close``."""

    job: str
    run: int
    pages: int
    items: int
    failed: int
    excluded: int
    redirected: int
    bytes: int
    errors: dict[str, int]
    """Failed requests by class."""
    dropped: dict[str, int]
    """Items dropped by item functions and hooks, by reason."""
    stats: dict[str, int]
    """Counters of ``self.stats``, for the whole cluster."""
    decisions: dict[str, int]
    """Decisions of hooks, by ``DECISION:REASON``."""
    seconds: float
    """Duration of the run."""


class Hooks:
    """Base class of hooks. Spiders have these methods too; each may be a function or a coroutine.

    A hook class is named in the setting ``hooks`` as ``module:Class``; each worker creates one object of it, without
    arguments. Hooks are called in order: those of the spider, then those of the classes as listed. Returning None
    means: continue. A hook that raises an exception, or takes longer than ``callback_seconds``, fails its page,
    class ``hook``, and nothing else."""

    @cached_property
    def stats(self) -> Stats:
        """Counters that are summed over all workers, e.g. ``self.stats.add("captchas")``."""
        return Stats()

    @property
    def logger(self) -> logging.Logger:
        """Logger named after the class. Its records are events of the crawl."""
        return logging.getLogger(f"skitter.spider.{type(self).__name__}")

    def on_start(self, job: JobInfo) -> Awaitable[None] | None:
        """Set up, once in each worker, before its first page. If it raises an exception, the crawl ends with that
        error."""

    def on_close(self, summary: CloseSummary) -> Awaitable[None] | None:
        """Clean up after the run has finished: in one worker only, and again in another one if that worker dies
        meanwhile."""

    def on_request(
        self, request: Request
    ) -> Request | Response | Answer | Drop | Awaitable[Request | Response | Answer | Drop | None] | None:
        """Called for each request before it is sent, at each attempt.

        Return another Request to send that instead, a Response or an Answer to contact no server, or a Drop. A
        request for another scheme, host or port is queued as a new one, as after a redirect: robots.txt, delays and
        deduplication are those of its host. A changed request is not stored: the next attempt starts with the
        original."""

    def on_headers(self, response: Response) -> Drop | Retry | Ban | None:
        """Called with status and headers of each response before its body is read; a Drop, Retry or Ban aborts it.

        It is called while the response arrives, so it cannot be a coroutine."""

    def on_browser_page(self, request: Request, page: Page) -> Retry | Drop | Awaitable[Retry | Drop | None] | None:
        """Called for each rendered page in its browser, after the actions of its request.

        ``page`` is a page of Playwright's asynchronous API, so this is a coroutine. The content of the page is taken
        when it returns. It may take ``callback_seconds``, and what is left of the page's time."""

    def on_response(
        self, request: Request, response: Response
    ) -> Response | Retry | Drop | Ban | Awaitable[Response | Retry | Drop | Ban | None] | None:
        """Called for each response, with any status, before anything else; a Response replaces it."""

    def on_error(
        self, request: Request, failure: Failure
    ) -> Response | Answer | Retry | Drop | Ban | Awaitable[Response | Answer | Retry | Drop | Ban | None] | None:
        """Called for each failed attempt: no response, an error status, or a callback that raised an exception.

        A returned Response or Answer is passed to the callback instead, unless the callback itself has failed."""

    def on_item(self, item: Any) -> Any:
        """Called for each item after the item functions. Return it or another one, or raise DropItem or RejectItem.

        None keeps the item unchanged."""

    def on_event(self, event: Event) -> Awaitable[None] | None:
        """Called for the events of this worker that are logged (docs/reference/events.md)."""


NAMES = (
    *("on_start", "on_close", "on_request", "on_headers", "on_browser_page", "on_response", "on_error", "on_item"),
    "on_event",
)
"""The names of all hooks."""


def has_hook(kind: type[Any], name: str) -> bool:
    """Return whether a class has a hook of its own."""
    method = getattr(kind, name, None)
    return method is not None and method is not getattr(Hooks, name)


def _checked_reason(kind: str, reason: Any) -> str:
    if not isinstance(reason, str) or not reason.strip():
        raise TypeError(f'{kind} needs a reason, as in {kind}("captcha"): {reason!r:.100}')
    return " ".join(reason.split())[:100]
