"""Errors that skitter raises on purpose, and their exit codes.

SkitterError                 what happened; ``hint`` says what to do
 ├── UsageError              exit 2: the command line, a spider or a setting is wrong
 │    ├── SettingsError      a setting has a wrong name or value
 │    ├── SpiderError        a spider cannot be found, imported or constructed
 │    └── JobError           the job is not what the command expects
 │         └── MissingJobError   there is no job of this name
 ├── BackendError            exit 3: a frontier, a sink or a source cannot be reached or used
 │    ├── FrontierError      the store failed: away, corrupt, full
 │    │    ├── FormatError   the store was written by another program or another version
 │    │    │    └── DamageError   a stored value cannot be read; the message names its job and its place
 │    │    │         └── ContradictionError   a rule failed on what is stored, and no value is known to be at fault
 │    │    ├── VanishedError the store, or the job in it, was deleted or replaced while it was in use
 │    │    └── AuditError    the audit trail cannot be written or read; what was to be recorded was not made
 │    ├── ClusterError       a coordinator (``skitter.cluster``) cannot be used
 │    │    ├── ClusterAwayError      its server is away for now: whether the call has happened is not known
 │    │    │    └── SessionExpiredError   the server has taken this process for gone: what it held is another's
 │    │    ├── ClusterConflictError  a key is not as the change expects it, and nothing was changed; ``path`` names it
 │    │    └── LockLostError         a lock that was held may be another's by now
 │    ├── DedupError         a set of ``skitter.dedup`` in Redis cannot be reached or used
 │    ├── SinkError          a target cannot be written
 │    │    ├── SinkAwayError     its server is away for now: the same call may be made again
 │    │    └── BadItemsError     some items can never be written there; ``reasons`` names them
 │    ├── IntakeError        a source of requests cannot be read
 │    │    └── IntakeAwayError   its server is away for now: it is opened again
 │    ├── ScheduleStoreError the store of schedules cannot be reached or used
 │    ├── EventStreamError   events cannot be published there
 │    │    └── EventStreamAwayError   its server is away for now: events wait, and the crawl goes on
 │    └── SliceError         the process of a slice ended without a word: it was killed, or it could not start
 ├── UrlError                a URL that cannot be crawled; ``rule`` says why
 ├── SitemapError            a sitemap that cannot be read further; ``rule`` says why
 ├── FetchError              a fetch that brought no response; ``error_class`` says why
 │    └── BrowserLostError   the browser that had the page has crashed or hangs
 ├── ScrapeError             a page that a single task cannot have; the message begins with the class of the error
 ├── LateError               a request that was not at the socket in time, and was not sent
 ├── SelectorError           a CSS selector that is wrong (``extract.css_selectors``; also a ValueError)
 ├── FormError               a form that is not on the page, or that cannot be sent as it was asked to
 ├── ParseError              a page that would take more memory than its worker may have
 ├── ExtraMissingError       an optional package is not installed; the hint is the install line
 ├── ItemError               an item that cannot be encoded
 ├── RequestError            a Request with a wrong value, or for a feature that is not there (also a TypeError)
 ├── DropItem                raised by an item function: the item is left out, and counted
 └── RejectItem              raised by an item function: the item goes to the rejects file

Driver errors (sqlite3, pycurl, OSError) are mapped where the driver is called, and stay
reachable as ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Mapping


class SkitterError(Exception):
    """Base class of all errors that skitter raises. ``str(error)`` reads ``what happened: value``."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(SkitterError):
    exit_code = 2


class SettingsError(UsageError):
    pass


class SpiderError(UsageError):
    pass


class JobError(UsageError):
    pass


class MissingJobError(JobError):
    pass


class BackendError(SkitterError):
    exit_code = 3


class FrontierError(BackendError):
    pass


class FormatError(FrontierError):
    pass


class DamageError(FormatError):
    pass


class ContradictionError(DamageError):
    pass


class VanishedError(FrontierError):
    pass


class AuditError(FrontierError):
    pass


class ClusterError(BackendError):
    pass


class ClusterAwayError(ClusterError):
    pass


class SessionExpiredError(ClusterAwayError):
    pass


class ClusterConflictError(ClusterError):
    """A change of keys that was refused; ``path`` is the key that is not as expected."""

    def __init__(self, path: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class LockLostError(ClusterError):
    pass


class DedupError(BackendError):
    pass


class SinkError(BackendError):
    pass


class SinkAwayError(SinkError):
    pass


class BadItemsError(SinkError):
    """Items that the target refuses; ``reasons`` maps the ``position`` of each to the reason."""

    def __init__(self, target: str, reasons: Mapping[int, str]) -> None:
        super().__init__(f"{len(reasons)} items cannot be written: {target}: {next(iter(reasons.values()), '')}")
        self.reasons = reasons


class IntakeError(BackendError):
    pass


class IntakeAwayError(IntakeError):
    pass


class ScheduleStoreError(BackendError):
    pass


class EventStreamError(BackendError):
    pass


class EventStreamAwayError(EventStreamError):
    pass


class SliceError(BackendError):
    pass


class UrlError(SkitterError):
    """A URL that cannot be crawled; ``rule`` is one of: scheme, unparsable, too_long."""

    def __init__(self, rule: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


class SitemapError(SkitterError):
    """A sitemap that cannot be read further; ``rule`` is one of: not_a_sitemap, dtd, broken, too_large, too_many."""

    def __init__(self, rule: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


class FetchError(SkitterError):
    """A fetch without a response; ``error_class`` is one of (docs/reference/errors.md): dns, connect, proxy, tls,
    timeout, slow, truncated, protocol, memory, too_large, redirect, guard, browser."""

    def __init__(self, error_class: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.error_class = error_class


class BrowserLostError(FetchError):
    """The browser that had the page has crashed or hangs; its request is handed back without an attempt."""

    def __init__(self, message: str) -> None:
        super().__init__("browser", message)


class ScrapeError(SkitterError):
    """A page that the task ``scrape`` cannot have: ``CLASS: what happened: URL``."""


class LateError(SkitterError):
    pass


class FormError(SkitterError):
    pass


class ParseError(SkitterError):
    pass


class ExtraMissingError(SkitterError):
    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the optional extra: {extra}",
            hint=f"pip install 'skitter[{extra}]'",
        )


class ItemError(SkitterError):
    pass


class RequestError(SkitterError, TypeError):
    pass


class DropItem(SkitterError):  # noqa: N818  the name that hands know from Scrapy
    """Raised by an item function: the item is left out, and counted by this reason. Keep the reasons few."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "no reason given")


class RejectItem(SkitterError):  # noqa: N818  as DropItem
    """Raised by an item function: the item goes to the rejects file with this reason, for somebody to look at."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "no reason given")
