"""What one callback yields, on its way to a commit: requests become entries, items become records."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from skitter.errors import ItemError, RequestError, UrlError
from skitter.extract.items import encode_item, is_item
from skitter.extract.rejected_items import encode_reject
from skitter.model.item import ItemKind, NewItem
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import (
    DEFAULT_METHOD,
    FILE_CALLBACK,
    Entry,
    Fingerprinter,
    Links,
    Request,
    RequestFields,
    wrong,
)
from skitter.model.secrets import shown_url
from skitter.model.session import login_of
from skitter.model.url import absolute
from skitter.policy.scope import Scope
from skitter.spiders.base import Spider
from skitter.spiders.scrapy_names import with_options
from skitter.spiders.sitemaps import SITEMAP_CALLBACK
from skitter.worker.known_urls import KnownUrls
from skitter.worker.page_directives import DirectivePolicy

log = logging.getLogger("skitter.worker")
PART_LINKS = 2_000
PART_ITEMS = 2_000
"""A page that yields more than this is committed in parts, so that neither memory nor a transaction grows with it."""
DROP_REASONS = 50
DROP_REASON_CHARS = 100
"""Of reasons that items are dropped for, a worker counts so many apart: a reason with a price in it is none."""


class LinkContext:
    """What a worker knows that decides on a link or an item."""

    def __init__(self, *, spider: Spider, fingerprinter: Fingerprinter, scope: Scope, known: KnownUrls) -> None:
        self.spider = spider
        self.fingerprinter = fingerprinter
        self.scope = scope
        self.known = known
        self._drop_reasons: set[str] = set()
        self.note_need: Callable[[str], None] = lambda _need: None
        """Called with the need of each request that has one."""

    def drop_reason(self, text: str) -> str:
        """The reason, or the URL of an empty sitemap, as it is counted."""
        reason = " ".join(text.split())[:DROP_REASON_CHARS]
        if reason not in self._drop_reasons and len(self._drop_reasons) >= DROP_REASONS:
            return "other reasons"
        self._drop_reasons.add(reason)
        return reason

    def name_of(self, request: Request, field: str) -> str | None:
        """The stored name of its callback or errback: a worker elsewhere will look it up on its own spider."""
        callback = getattr(request, field)
        if callback is None or callback == "parse":
            return None
        name = callback if isinstance(callback, str) else getattr(callback, "__name__", "")
        method = getattr(self.spider, name, None)
        if not callable(method) or not (isinstance(callback, str) or method == callback):
            raise self._no_callback(request, field, callback)
        return None if name == "parse" else name

    def _no_callback(self, request: Request, field: str, callback: Any) -> RequestError:
        kind = type(self.spider).__name__
        if isinstance(callback, str):
            return wrong(request, field, f"{callback!r:.100}, which {kind} does not have")
        if (owner := getattr(callback, "__self__", None)) is not None:
            return wrong(request, field, f"a method of another object ({type(owner).__name__}.{callback.__name__})")
        name = callback.__qualname__
        if hasattr(self.spider, callback.__name__):
            return wrong(request, field, f"a method without its object ({name}): write self.{callback.__name__}")
        return wrong(request, field, f"a function outside the spider ({name})")


class PageYield:
    """Collects one page's yield. ``links``, ``items``, ``urls`` and ``tally`` go into its commit."""

    __slots__ = (
        "_ahead",
        "_depth",
        "_directives",
        "_here",
        "_in_parts",
        "_is_seeding",
        "_login",
        "_origin",
        "_parent",
        "_place",
        "_rules",
        "_session",
        "is_large",
        "items",
        "links",
        "tally",
        "urls",
    )

    def __init__(
        self,
        rules: LinkContext,
        parent: int,
        origin: Request | None,
        *,
        in_parts: bool = True,
        directives: DirectivePolicy | None = None,
    ) -> None:
        """``origin`` is the page's request, or None while seeding. ``in_parts``: what is large may be sent ahead.

        ``directives``: what the page asks for and the job obeys; None: nothing.
        """
        self._rules = rules
        self._directives = directives
        self._parent = parent
        self._origin = origin
        self._in_parts = in_parts
        self._is_seeding = origin is None
        self._session = origin.session if origin is not None else ""
        # What a page of a login sends to its site, as a form above all, goes on with the login.
        self._login = origin.need if origin is not None and origin.need and login_of(origin.need) else ""
        # What a sitemap lists is where a crawl begins: as deep as the sitemap itself.
        self._depth = 0 if origin is None else origin.depth + (origin.callback != SITEMAP_CALLBACK)
        self._place = 0
        self._ahead = 0
        self._here: set[str] = set()
        self.links: list[Entry] = []
        self.urls: list[str] = []
        """Of the links that a later page may repeat: what the worker knows once the commit is accepted."""
        self.items: list[NewItem] = []
        self.tally: dict[str, int] = defaultdict(int)
        self.is_large = False
        """Time to send a part."""

    def take_part(self, lease: Lease) -> tuple[Outcome, list[str]]:
        """What was collected so far, as a commit that more will follow; and its URLs to remember."""
        part = Outcome(
            lease=lease,
            ending=Ending.DONE,
            links=self.links,
            items=self.items,
            tally=dict(self.tally),
            more=True,
            after=self._ahead,
        )
        self._ahead += len(self.items)
        urls = self.urls
        self.links, self.urls, self.items, self.tally = [], [], [], defaultdict(int)
        # From here on the frontier tells duplicates apart: this must not grow with a list of a million seeds.
        self._here.clear()
        self.is_large = False
        return part, urls

    def take(self, output: Any) -> None:
        """One thing that a callback yielded."""
        if isinstance(output, Request):
            if output.meta:
                # Before duplicates are left out: what a worker knows must not decide whether a mistake is seen.
                output = with_options(output)
            self._take_request(output)
        elif isinstance(output, Links):
            self._take_links(output)
        elif is_item(output):
            if self._directives is not None and (rule := self._directives.against_items) is not None:
                self.tally[f"withheld:{rule}"] += 1
                return
            try:
                self._add_item(NewItem(encode_item(output)))
            except ItemError as error:
                self.reject(output, f"{error} ({error.hint})")
        elif output is not None:
            raise TypeError(f"a callback must yield items and Requests, not {type(output).__name__}: {output!r:.100}")

    def reject(self, item: Any, reason: str) -> None:
        """It cannot be stored, or must not be: it goes to the rejects file, and the page's other items go on."""
        reject = encode_reject(item, reason, shown_url(self._origin.url) if self._origin else "")
        self._add_item(NewItem(reject, ItemKind.REJECT))

    def drop(self, reason: str) -> None:
        """An item function has left it out."""
        self.tally[f"dropped:{self._rules.drop_reason(reason)}"] += 1

    def _add_item(self, item: NewItem) -> None:
        self.items.append(item)
        self.is_large = self._in_parts and (self.is_large or len(self.items) >= PART_ITEMS)

    def _take_links(self, urls: Links) -> None:
        if self._session != "":
            # What other sessions know says nothing of this one.
            for url in urls:
                self._take_request(Request(url, session=self._session))
            return
        new = self._rules.known.unknown(urls)
        if len(new) < len(urls):
            self.tally["duplicates"] += len(urls) - len(new)
            # Each counts as one place, known or not (see ``_take_request``).
            self._place += len(urls) - len(new)
        origin = shown_url(self._origin.url) if self._origin else None
        for url in new:
            # As ``_take_request`` does it, without asking what cannot be: they are plain, absolute and unknown.
            self._place += 1
            if url in self._here:
                self.tally["duplicates"] += 1
            elif not self._is_outside(url):
                request = RequestFields(url, depth=self._depth, referrer=origin, seed=self._is_seeding)
                self._add(request, plain=True)

    def take_original(self, url: str) -> None:
        """The page that this one is a duplicate of: it is treated in the same way, whatever the links here are."""
        assert self._origin is not None
        self._directives = None
        self._take_request(self._origin.replace(url=url, headers={}, cookies={}, dont_filter=False))

    def _take_request(self, request: Request) -> None:
        rules, origin = self._rules, self._origin
        # Counted before anything is left out: what a worker knows differs from one to the next, and an unfiltered
        # request must be the same one when the page is read again elsewhere.
        self._place += 1
        # What the frontier dedups by URL alone may be known here; anything else is its business.
        # (A list too: as a plain link the same URL may have been left out for what an earlier run has delivered.)
        plain = request.method == "GET" and not request.dont_filter and not request.body and not request.is_list
        goes_on = bool(self._login) and request.session == self._session and request.method != "GET"
        if request.session or request.render or goes_on:
            plain = False
        if request.callback is not None and _is_file(request.callback):
            plain = False
        if plain and request.url in rules.known:
            self.tally["duplicates"] += 1
            return
        try:
            url = absolute(request.url, origin.url if origin else None)
        except UrlError as error:
            self.tally[f"skipped:{error.rule}"] += 1
            if self._is_seeding:
                # Nobody meant to write it: pages are full of such links, but a list of seeds is not.
                log.warning("a seed is skipped: %s", error)
            return
        if plain and (url in self._here or url in rules.known):
            self.tally["duplicates"] += 1
            return
        if self._is_outside(url, is_sitemap=request.callback == SITEMAP_CALLBACK):
            return
        found = RequestFields(
            url,
            callback=None if request.callback is None else rules.name_of(request, "callback"),
            errback=None if request.errback is None else rules.name_of(request, "errback"),
            method=request.method if request.method is DEFAULT_METHOD else request.method.upper(),
            headers=request.headers,
            body=request.body,
            cookies=request.cookies,
            meta=request.meta,
            cb_kwargs=request.cb_kwargs,
            priority=request.priority,
            dont_filter=request.dont_filter or goes_on,
            is_list=request.is_list,
            need=self._login if goes_on else request.need,
            depth=self._depth,
            referrer=shown_url(origin.url) if origin else None,
            seed=self._is_seeding,
            timeout=request.timeout,
            max_attempts=request.max_attempts,
            handle_statuses=request.handle_statuses,
            session=request.session,
            proxy=request.proxy,
            render=request.render,
            actions=request.actions,
        )
        self._add(found, plain=plain)

    def _is_outside(self, url: str, *, is_sitemap: bool = False) -> bool:
        rule = None
        if not self._is_seeding:
            rule = self._rules.scope.rule_against(url, self._depth, is_sitemap=is_sitemap)
        if rule is None and self._directives is not None:
            # Not remembered: on another page the same link may be one to follow.
            rule = self._directives.against_link(url)
        if rule is None:
            return False
        self.tally[f"outside:{rule}"] += 1
        return True

    def _add(self, request: RequestFields, *, plain: bool) -> None:
        entry = self._rules.fingerprinter.entry(request, self._parent, self._place)
        self.links.append(entry)
        if entry.need:
            self._rules.note_need(entry.need)
        self.is_large = self._in_parts and (self.is_large or len(self.links) >= PART_LINKS)
        if plain:
            self._here.add(request.url)
            self.urls.append(request.url)


def _is_file(callback: Any) -> bool:
    """Whether it is the callback of downloads, whose identity is another one than that of a page."""
    return FILE_CALLBACK in (callback, getattr(callback, "__name__", ""))
