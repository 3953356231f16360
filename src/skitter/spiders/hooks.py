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
    """Decision of a hook: fetch the request again. It spends an attempt, and after the last one the request is dead.

    ``reason`` is what it is counted by. ``delay`` is in seconds, a day at most; None: as after any failure.
    ``new_proxy``: through another proxy of the job's pool than this time. ``new_session``: the session that the
    frontier has handed out for it has expired, and is replaced.
    """

    __slots__ = ("delay", "new_proxy", "new_session", "reason")

    def __init__(
        self, reason: str, *, delay: float | None = None, new_proxy: bool = False, new_session: bool = False
    ) -> None:
        self.reason = _checked_reason("Retry", reason)
        self.new_proxy = new_proxy
        self.new_session = new_session
        if delay is not None and not 0 <= delay <= MAX_RETRY_AFTER_SECONDS:
            raise ValueError(f"a delay of Retry is from 0 to {MAX_RETRY_AFTER_SECONDS:g} seconds: {delay!r:.100}")
        self.delay = None if delay is None else float(delay)


class Drop:
    """Decision of a hook: give the request up, without an errback. ``skitter failed`` lists it with the reason."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = _checked_reason("Drop", reason)


class Ban:
    """Decision of a hook: this proxy, or this session, is of no use any more. The request is fetched with another one.

    ``proxy``: the host does not serve the proxy of the pool; the request spends no attempt, and after twenty times
    it is dead, class ``proxy``. ``session``: the session that the frontier has handed out is replaced, as by
    ``Retry(new_session=True)``. ``reason`` is what it is counted by.
    """

    __slots__ = ("proxy", "reason", "session")

    def __init__(self, reason: str, *, proxy: bool = False, session: bool = False) -> None:
        self.reason = _checked_reason("Ban", reason)
        self.proxy = proxy
        self.session = session
        if not proxy and not session:
            raise ValueError(f"Ban bans nothing: {reason!r:.100}; as in Ban(reason, proxy=True)")


class Answer:
    """Decision of the hooks ``on_request`` and ``on_error``: take this for the server's answer, and ask no server."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, body: bytes | str, *, status: int = 200, headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    ) -> None:
        self.body = body.encode() if isinstance(body, str) else bytes(body)
        if type(status) is not int or not 200 <= status <= 599:
            raise ValueError(f"not a status of an answer: {status!r:.100}")
        self.status = status
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self.headers = [(name.lower(), value) for name, value in pairs]

    def page(self, url: str) -> Page:
        """Return the answer as a page of this URL."""
        return Page(url=url, status=self.status, headers=self.headers, body=self.body)


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What ``on_start`` is told of the job."""

    name: str
    run: int
    spider: str
    """Its reference; empty: the built-in one."""
    arguments: Mapping[str, str]
    """Of ``-a KEY=VALUE``."""
    settings: Mapping[str, Any]
    """Those that all workers share, by name."""
    worker: str
    """The id of the worker that calls."""


class CloseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What ``on_close`` is told of the run that is finished."""

    job: str
    run: int
    pages: int
    items: int
    failed: int
    excluded: int
    redirected: int
    bytes: int
    errors: dict[str, int]
    """Dead requests by class."""
    dropped: dict[str, int]
    """Items that item functions and hooks have dropped, by reason."""
    stats: dict[str, int]
    """What ``self.stats`` has counted, in the whole cluster."""
    decisions: dict[str, int]
    """What hooks have decided, by ``DECISION:REASON``."""
    seconds: float
    """From the beginning of the run to its end."""


class Hooks:
    """Base class of hooks. Spiders have these methods too; each may be written as a function or as a coroutine.

    A class of hooks is named in the setting ``hooks`` as ``module:Class``, and each worker makes one object of it,
    without arguments. Hooks are called in order: those of the spider, then those of the classes as they are listed.
    None means: go on. A hook that raises, or that takes longer than ``callback_seconds``, makes its page dead, class
    ``hook``, and costs nothing else.
    """

    @cached_property
    def stats(self) -> Stats:
        """Counters that add up over all workers, as in ``self.stats.add("captchas")``."""
        return Stats()

    @property
    def logger(self) -> logging.Logger:
        """A logger named after the class. Its records are events of the crawl."""
        return logging.getLogger(f"skitter.spider.{type(self).__name__}")

    def on_start(self, job: JobInfo) -> Awaitable[None] | None:
        """Set up, once in each worker, before its first page. If it raises, the crawl ends with that error."""

    def on_close(self, summary: CloseSummary) -> Awaitable[None] | None:
        """Tear down after the run is finished: in one worker of all, and again if that one dies in the middle."""

    def on_request(
        self, request: Request
    ) -> Request | Response | Answer | Drop | Awaitable[Request | Response | Answer | Drop | None] | None:
        """See each request before it is sent, at each attempt.

        Return another Request to send that in its place, a Response or an Answer to ask no server, or a Drop. A request
        for another scheme, host or port is queued as a new one, as after a redirect: robots.txt, delays and dedup are
        those of its host. A changed request is not stored: the next attempt begins with the original.
        """

    def on_headers(self, response: Response) -> Drop | Retry | None:
        """See status and headers of each answer before its body is read; a Drop or Retry breaks off.

        Called while the answer arrives, so it cannot be a coroutine.
        """

    def on_browser_page(self, request: Request, page: Page) -> Retry | Drop | Awaitable[Retry | Drop | None] | None:
        """See each page that is rendered in its browser, after the actions of its request.

        ``page`` is Playwright's, of its asynchronous API, so this is a coroutine. The content of the page is taken when
        it returns. It has ``callback_seconds``, and what is left of the page's time.
        """

    def on_response(
        self, request: Request, response: Response
    ) -> Response | Retry | Drop | Awaitable[Response | Retry | Drop | None] | None:
        """See each answer, of any status, before anything else does; a Response replaces it."""

    def on_error(
        self, request: Request, failure: Failure
    ) -> Response | Answer | Retry | Drop | Awaitable[Response | Answer | Retry | Drop | None] | None:
        """See each failed attempt: no answer, a status that is an error, or a callback that raised.

        A Response or an Answer is what the callback is given instead, unless that has failed itself.
        """

    def on_item(self, item: Any) -> Any:
        """See each item after the item functions. Return it or another one, or raise DropItem or RejectItem.

        None keeps the item as it is.
        """

    def on_event(self, event: Event) -> Awaitable[None] | None:
        """See the events of this worker that are logged (docs/reference/events.md)."""


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
        raise TypeError(f'{kind} takes a reason, as in {kind}("captcha"): {reason!r:.100}')
    return " ".join(reason.split())[:100]
