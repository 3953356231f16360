"""Leased request that Scrapy's engine is processing: links and items of its callback, and its outcome."""

from __future__ import annotations

import logging
from typing import Any

import scrapy
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from skitter.errors import ItemError
from skitter.extract.items import encode_item
from skitter.extract.rejected_items import encode_reject
from skitter.model.item import ItemKind, NewItem
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Entry
from skitter.model.secrets import shown_url

log = logging.getLogger("skitter.scrapy")
PART_LINKS = 1000
"""Maximum number of links in one call of the frontier."""
_CLASSES = {
    "CannotResolveHostError": "dns",
    "DNSLookupError": "dns",
    "DownloadTimeoutError": "timeout",
    "TimeoutError": "timeout",
    "SSLError": "tls",
    "ResponseDataLossError": "truncated",
    "ResponseFailed": "protocol",
    "ResponseNeverReceived": "protocol",
    "DownloadFailedError": "protocol",
    "ConnectionLost": "protocol",
    "ConnectionDone": "protocol",
    "DownloadCancelledError": "too_large",
    "DownloadConnectionRefusedError": "connect",
    "ConnectError": "connect",
    "OSError": "connect",
}
"""Error classes by the names of exceptions: Scrapy's own since version 2.15, and Twisted's before."""


class HeldPage:
    """Lease with the data for its commit."""

    def __init__(self, lease: Lease, request: scrapy.Request | None = None) -> None:
        self.lease = lease
        self.request = request
        self.links: list[Entry] = []
        self.urls: list[str] = []
        """URLs of the links, to be added to the known URLs after the commit."""
        self.items: list[NewItem] = []
        self.problem = ""
        """Traceback of the callback, or the error of a yielded value that cannot be stored."""
        self.is_scraped = False
        """Whether its response has reached the spider: requests that are scheduled from then on are its links."""
        self.is_over = False
        self._unfiltered = 0

    def next_place(self) -> int:
        """Return the number of the next request of this page that is exempt from dedup."""
        self._unfiltered += 1
        return self._unfiltered

    def add_item(self, item: Any) -> None:
        """Add an item that has passed all pipelines; one that cannot be stored is added to the rejects."""
        try:
            self.items.append(NewItem(encode_item(item)))
        except ItemError as error:
            url = shown_url(self.request.url) if self.request is not None else ""
            log.warning("an item cannot be stored: %s: %s", url, error)
            self.items.append(NewItem(encode_reject(item, str(error), url), ItemKind.REJECT))

    def outcome(self, result: Response | Failure | None, is_wanted: bool) -> Outcome:
        """Return the outcome of the request. ``result`` is None if another request replaces it (redirect, retry).

        ``is_wanted`` is whether the spider gets responses of this status. As in Scrapy, yielded links and items are
        kept in any case.
        """
        self.is_over = True
        if self.request is None:
            # The start requests.
            ending, kind = (Ending.FAILED, "callback") if self.problem else (Ending.DONE, "")
            return Outcome(
                lease=self.lease,
                ending=ending,
                links=self.links,
                items=self.items,
                error_class=kind,
                error=self.problem,
            )
        outcome = Outcome(lease=self.lease, ending=Ending.DONE, links=self.links, items=self.items)
        if result is None:
            outcome.ending = Ending.REDIRECTED
        elif isinstance(result, Failure):
            self._fail(outcome, result)
        else:
            outcome.status = result.status
            outcome.tally = {"bytes": len(result.body)}
            latency = result.meta.get("download_latency") if result.request is not None else None
            outcome.news = HostNews(answered=True, latency_seconds=latency)
            if not is_wanted:
                outcome.ending, outcome.error_class = Ending.FAILED, f"http_{result.status // 100}xx"
                outcome.error = f"status {result.status}"
        if self.problem:
            outcome.ending, outcome.error_class, outcome.error = Ending.FAILED, "callback", self.problem
        return outcome

    @staticmethod
    def _fail(outcome: Outcome, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, IgnoreRequest):
            # Not sent, or rejected by a middleware: robots.txt, offsite and so on.
            outcome.ending, outcome.error_class = Ending.EXCLUDED, _rule(error)
        else:
            names = [each.__name__ for each in type(error).__mro__]
            kind = next((_CLASSES[name] for name in names if name in _CLASSES), "hook")
            outcome.ending, outcome.error_class = Ending.FAILED, kind
        outcome.error = f"{type(error).__name__}: {error}"


def _rule(error: IgnoreRequest) -> str:
    return "robots" if "robots.txt" in str(error) else "ignored"
