"""Outcome of a leased request: the ending, links, items and host news of one commit."""

from __future__ import annotations

import enum

import msgspec

from skitter.model.item import NewItem
from skitter.model.lease import Grant, Lease
from skitter.model.page_record import PageRecord
from skitter.model.proxy import ProxyNews
from skitter.model.request import Entry
from skitter.model.session import CookieNews, SessionNews

FAILED_ERRBACKS = "failed_errbacks"
"""Counter of pages whose errback failed as well."""


class Ending(enum.StrEnum):
    """Ending of a request."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """Done without parsing: the page has not changed since it was last parsed. It has no links and no items."""
    REDIRECTED = "redirected"
    RETRY = "retry"
    FAILED = "failed"
    EXCLUDED = "excluded"


class RobotsRecord(msgspec.Struct, frozen=True):
    """A host's robots.txt as the frontier keeps it. Empty text forbids nothing."""

    text: bytes = b""
    crawl_delay_seconds: float = 0.0
    version: int = 0


class HostNews(msgspec.Struct, frozen=True, kw_only=True):
    """Observations about a host in a commit. The default of every field means that nothing was observed."""

    answered: bool = False
    """Whether the host answered normally: its strikes are then reset."""
    unreachable: bool = False
    """Whether there was no connection (dns, connect, tls), robots.txt could not be read, or one of its pages blocked a
    worker until the worker was killed."""
    blocked: bool = False
    """Whether the host asked for a pause (429, 503, Retry-After)."""
    retry_after_seconds: float | None = None
    """Pause of the Retry-After header, if there was one."""
    latency_seconds: float | None = None
    address: str = ""
    robots: RobotsRecord | None = None
    """robots.txt that a gate has read."""
    sign: bool | None = None
    """With trap detection: whether the page looks like part of a trap. None if it was not judged."""


class Outcome(msgspec.Struct, kw_only=True):
    """One commit: the ending, the out-links, the items and the host news. It takes effect as a whole or not at all.

    A large page commits in parts: ``more`` says that another part follows. The links of a part are added at once. Its
    items are staged under the lease's ``epoch`` (fencing token), and published by the last part; if that ends otherwise
    than done, they are dropped.
    """

    lease: Lease
    ending: Ending
    links: list[Entry] = []
    items: list[NewItem] = []
    """Records and rejects in the order the spider yielded them, then the reference to the archived page."""
    error_class: str = ""
    """For retry, failed and excluded: dns, connect, …, http_4xx, callback; or the rule that excluded it."""
    error: str = ""
    """Message or traceback, for operators."""
    status: int = 0
    """HTTP status, if there was one."""
    retry_seconds: float = 0.0
    """For retry: delay until the next attempt."""
    max_attempts: int = 0
    """For retry: attempts before the request fails; 0: the setting of that name."""
    touched: bool = True
    """Whether the network was used. If False, the host's politeness slot is returned."""
    more: bool = False
    after: int | None = None
    """For a part: number of items in the earlier parts of its page. It identifies a part that is resent after a lost
    answer, so that its items are staged once. None: unknown; the part counts as new."""
    news: HostNews | None = None
    tally: dict[str, int] = {}
    """Counts that are added to the job's counters if the commit is accepted: bytes, duplicates, outside:RULE …"""
    proxy_news: ProxyNews | None = None
    """Observations about the proxy of the lease."""
    page: PageRecord | None = None
    """New record of the page, in a job that recrawls. If None, the record is unchanged, and the page stays due."""
    cookies: CookieNews | None = None
    """Changes of the cookie jar by the response; only in the last part of a page."""
    session_news: SessionNews | None = None
    """Observations about the session that the frontier has assigned."""


class HostTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A strike against a host, or the end of its budget (class ``host_budget``), in the answer to a commit.

    Reported once per strike, not once per request.
    """

    key: str
    error_class: str
    strikes: int
    """Blocks and failed connections in a row."""
    pause_seconds: float
    """Time until its next request may start."""
    given_up: bool
    """Whether the host is down or its budget is spent; its queue is emptied."""
    rule: str = ""
    """Setting of the budget, if it is spent."""
    pages: int = 0
    """Pages that were counted against the budget."""


class Committed(msgspec.Struct, frozen=True):
    """Answer to a commit."""

    accepted: list[bool]
    """One per outcome. False: the epoch (fencing token) of the lease was outdated, and the outcome had no effect."""
    grant: Grant | None = None
    """New leases, if the commit asked for some."""
    new_links: int = 0
    """Number of accepted links that were new."""
    troubles: list[HostTrouble] = []
    """Troubles of hosts, in the order of the outcomes."""
    jars: list[int] = []
    """For each accepted outcome with cookies, the new version of its jar; 0 if others had changed the jar since the
    version that the outcome names. Empty for a call that is resent."""
    store: str = ""
    """Identity of the store that accepted them, as in ``Grant.store``."""
