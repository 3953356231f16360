"""Outcome of a leased request: the ending, links, items and host news of one commit."""

from __future__ import annotations

import enum

import msgspec

from skitter.model.item import NewItem
from skitter.model.lease import Grant, Lease
from skitter.model.page_record import PageRecord
from skitter.model.proxy import ProxyNews
from skitter.model.request import Entry

FAILED_ERRBACKS = "failed_errbacks"
"""The counter of pages whose errback failed as well."""


class Ending(enum.StrEnum):
    """Ending of a request."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """Done, without parsing: the page is as it was when it was parsed last. It has no links and no items."""
    REDIRECTED = "redirected"
    RETRY = "retry"
    DEAD = "dead"
    EXCLUDED = "excluded"


class RobotsRecord(msgspec.Struct, frozen=True):
    """A host's robots.txt as the frontier keeps it. Empty text forbids nothing."""

    text: bytes = b""
    crawl_delay_seconds: float = 0.0
    version: int = 0


class HostNews(msgspec.Struct, frozen=True, kw_only=True):
    """Observations about a host in a commit; every field has a default that means nothing was observed."""

    answered: bool = False
    """The host answered normally: its strikes are reset."""
    unreachable: bool = False
    """No connection was made (dns, connect, tls), its robots.txt could not be read, or one of its pages held a worker
    until the worker was killed."""
    blocked: bool = False
    """The host asked for a pause (429, 503, Retry-After)."""
    retry_after_seconds: float | None = None
    """The pause of its Retry-After, if there was one."""
    latency_seconds: float | None = None
    address: str = ""
    robots: RobotsRecord | None = None
    """The robots.txt that a gate has read."""
    sign: bool | None = None
    """With trap detection: whether the page looks like part of a trap. None: not judged."""


class Outcome(msgspec.Struct, kw_only=True):
    """One commit: the ending, the out-links, the items and the host news, true together or not at all.

    A large page commits in parts: ``more`` says that another part follows. The links of a part are
    added at once, its items are staged under the lease's epoch, and the last part shows them; if it
    ends otherwise than done, it drops them.
    """

    lease: Lease
    ending: Ending
    links: list[Entry] = []
    items: list[NewItem] = []
    """Records and rejects in the order the spider yielded them, then the reference to the archived page."""
    error_class: str = ""
    """For retry, dead and excluded: dns, connect, …, http_4xx, callback; or the rule that excluded it."""
    error: str = ""
    """Message or traceback, for people."""
    status: int = 0
    """The HTTP status, if there was one."""
    retry_seconds: float = 0.0
    """For retry: delay until the next attempt."""
    max_attempts: int = 0
    """For retry: attempts of this request before it is dead; 0: the setting of that name."""
    touched: bool = True
    """False: no network was touched, so the host's politeness slot is given back."""
    more: bool = False
    after: int | None = None
    """For a part: number of items in the earlier parts of its page. A part that is sent again after a lost answer is
    recognised by it, so that its items are staged once. None: unknown, the part counts as new."""
    news: HostNews | None = None
    tally: dict[str, int] = {}
    """Added to the job's counters if the commit is accepted: bytes, duplicates, outside:RULE …"""
    proxy_news: ProxyNews | None = None
    """What was seen of the proxy of the lease."""
    page: PageRecord | None = None
    """The new record of the page, in a job that recrawls; None: it stays as it is, and the page stays due."""


class HostTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A strike against a host, or the end of its budget (class ``host_budget``), in the answer to a commit.

    Reported once per strike, not once per request.
    """

    key: str
    error_class: str
    strikes: int
    """Blocks and failed connections in a row."""
    pause_seconds: float
    """Until its next request may start."""
    given_up: bool
    """The host is down or its budget is spent; its queue is buried."""
    rule: str = ""
    """The setting of the budget, when it is spent."""
    pages: int = 0
    """Pages that were counted against the budget."""


class Committed(msgspec.Struct, frozen=True):
    """The answer to a commit."""

    accepted: list[bool]
    """One per outcome; False: the lease was no longer current, and nothing of the outcome took effect."""
    grant: Grant | None = None
    """New leases, when the commit asked for some."""
    new_links: int = 0
    """Of the accepted links, those that were not known."""
    troubles: list[HostTrouble] = []
    """In the order of the outcomes."""
