"""Fetches of a job that recrawls: conditional requests, what counts as unchanged, and the page's new record.

RFC 9110 has the validators (section 8.8), RFC 9111 how they are used and refreshed (4.1, 4.3).
"""

from __future__ import annotations

import hashlib

import msgspec

from skitter.model.job import JobSpec
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.model.page import Page
from skitter.model.page_record import PageRecord
from skitter.model.request import Request
from skitter.policy import recrawl
from skitter.policy.retry import time_of_http_date
from skitter.policy.user_agents import UserAgents
from skitter.settings import Settings, Traps, read_statuses

NOT_MODIFIED = 304
MAX_HEADER_CHARS = 500
"""A validator or a Vary that is longer is not kept: what a stranger writes has a bound."""
_PARSING_SETTINGS = (
    *("max_depth", "obey_nofollow", "obey_noindex", "obey_canonical", "obey_tdm", "item_functions"),
    *Traps.__struct_fields__,
)
_CONDITIONS = ("if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range")


class RevisitRules:
    """What is the same for all fetches of a worker."""

    def __init__(self, settings: Settings, spec: JobSpec) -> None:
        self._settings = settings
        self._user_agents = UserAgents(settings.fetch.user_agents) if settings.fetch.user_agents else None
        self._host_rates = recrawl.HostRates()
        self._retry_statuses = read_statuses(settings.retry.retry_statuses)
        self.parsed_by = _parsed_by(spec)

    def may_pass(self, status: int) -> bool:
        """Return whether a status is one that is tried again."""
        return status in self._retry_statuses

    def vary_hash(self, vary: str, request: Request) -> bytes | None:
        """Hash of the headers of a request that Vary names; None: they cannot be known, or an asterisk says as much."""
        names = sorted({name.strip().lower() for name in vary.split(",")} - {""})
        has_jar = self._settings.fetch.cookies
        if "*" in names or ("cookie" in names and has_jar) or len(vary) > MAX_HEADER_CHARS:
            return None
        agent = self._settings.fetch.agent
        if self._user_agents is not None:
            agent = self._user_agents.of(request.url, request.session or "")
        sent = {"user-agent": agent, "cookie": repr(sorted(request.cookies.items()))}
        sent |= {name.lower(): value for name, value in request.headers.items()}
        return _hash("\n".join(f"{name}: {sent.get(name, '')}" for name in names).encode())

    def schedule(self, lease: Lease, *, changed: bool) -> PageRecord:
        """The record of a page that was fetched, with its history and its next time, and nothing of its content."""
        old, now, key = lease.page, lease.leased_at, lease.host_key
        rate, interval, changed_at = self._host_rates.of(key), 0.0, now
        visits = []
        if old is not None:
            visits = recrawl.with_visit(old.visits, now - old.fetched_at, changed=changed)
            rate = recrawl.change_rate(visits, rate)
            self._host_rates.learn(key, rate)
            interval = old.interval_seconds
            changed_at = now if changed else old.changed_at
        interval = recrawl.next_interval(rate, interval, self._settings.recrawl.recrawl_seconds)
        return PageRecord(now, now + interval, interval, changed_at, visits)


class Revisit:
    """One fetch of a page, known or new."""

    def __init__(self, rules: RevisitRules, lease: Lease, request: Request) -> None:
        self._rules = rules
        self._lease = lease
        self._request = request
        self._content_hash = b""
        old = lease.page
        self._old = old if old is not None and old.parsed_by == rules.parsed_by else None
        """The record, if what it tells of the content still counts: another spider would make something else of it."""
        self._validators = self._make_validators()

    @property
    def headers(self) -> dict[str, str]:
        """The headers to be sent."""
        return self._request.headers | self._validators if self._validators else self._request.headers

    def _make_validators(self) -> dict[str, str]:
        old, request = self._old, self._request
        if old is None or request.method not in ("GET", "HEAD"):
            return {}
        if any(name.lower() in _CONDITIONS for name in request.headers):
            # The spider has its own condition, and its callback gets the answer to it.
            return {}
        if old.vary and self._rules.vary_hash(old.vary, request) != old.vary_hash:
            return {}
        found = {"If-None-Match": old.etag, "If-Modified-Since": old.last_modified}
        return {name: value for name, value in found.items() if value}

    def is_unchanged(self, page: Page) -> bool:
        """Whether the page is as it was when it was parsed: by the server's word, or by its content."""
        if page.status == NOT_MODIFIED:
            return bool(self._validators)
        if self._old is None or page.status != 200:
            return False
        return self._hash_of(page) == self._old.content_hash

    def record(self, page: Page, outcome: Outcome) -> PageRecord | None:
        """The new record; None: the old one stays, and the page is due again in the next run.

        So it is with failures that may pass, and with a page that its callback failed at: that has to be parsed.
        """
        ending, old = outcome.ending, self._lease.page
        if ending is Ending.UNCHANGED:
            assert self._old is not None
            content_hash = self._old.content_hash
        elif ending is Ending.DONE:
            content_hash = self._hash_of(page)
        elif ending is Ending.REDIRECTED:
            content_hash = _hash((page.header("location") or "").encode())
        elif outcome.error_class == "http_4xx" and ending is Ending.FAILED and not self._rules.may_pass(page.status):
            # It is gone. As long as it is, it does not change, and is asked for less and less often.
            content_hash = b""
        else:
            return None
        changed = old is not None and content_hash != old.content_hash
        scheduled = self._rules.schedule(self._lease, changed=changed)
        record = msgspec.structs.replace(scheduled, content_hash=content_hash)
        if ending is Ending.UNCHANGED or (ending is Ending.DONE and page.status == 200):
            return self._with_validators(record, page)
        return record

    def _with_validators(self, record: PageRecord, page: Page) -> PageRecord:
        """Those of the answer; of a 304, those that it does not have stay as they were (RFC 9111, 3.2 and 4.3.4)."""
        record = msgspec.structs.replace(record, parsed_by=self._rules.parsed_by)
        found = {"etag": _kept(page, "etag"), "last_modified": _last_modified(page), "vary": _joined(page, "vary")}
        old = self._old
        if page.status == NOT_MODIFIED and old is not None:
            if _is_strong(found["etag"]) and found["etag"] != old.etag:
                # It speaks of something else than what was asked for. Next time the content is looked at.
                return record
            before = {"etag": old.etag, "last_modified": old.last_modified, "vary": old.vary}
            found = {name: value or before[name] for name, value in found.items()}
        vary_hash = self._rules.vary_hash(found["vary"], self._request)
        if vary_hash is None:
            return record
        return msgspec.structs.replace(record, **found, vary_hash=vary_hash if found["vary"] else b"")

    def _hash_of(self, page: Page) -> bytes:
        self._content_hash = self._content_hash or _hash(page.body)
        return self._content_hash


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _parsed_by(spec: JobSpec) -> bytes:
    """Hash of all that decides what is made of a page: with another spider or other rules it has to be parsed again."""
    rules = {name: spec.settings.get(name) for name in _PARSING_SETTINGS}
    told = (spec.spider, spec.code, spec.seeds, spec.sitemaps, sorted(spec.arguments.items()), rules)
    return _hash(msgspec.json.encode(told))


def _kept(page: Page, name: str) -> str:
    value = page.header(name) or ""
    return value if len(value) <= MAX_HEADER_CHARS and value.isascii() and value.isprintable() else ""


def _last_modified(page: Page) -> str:
    """Last-Modified, if the page cannot have changed again in the second that it names (RFC 9110, 8.8.2.2)."""
    value = _kept(page, "last-modified")
    modified_at, date = time_of_http_date(value), time_of_http_date(page.header("date") or "")
    return value if modified_at is not None and date is not None and date - modified_at >= 1 else ""


def _joined(page: Page, name: str) -> str:
    return ", ".join(value for key, value in page.headers if key == name)


def _is_strong(etag: str) -> bool:
    return etag.startswith('"')
