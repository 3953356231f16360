"""Errors that skitter raises on purpose, and their exit codes.

SkitterError                 base class; ``hint`` says what to do
 ├── UsageError              exit 2: the command line, a spider or a setting is wrong
 │    ├── SettingsError      a setting has a wrong name or value
 │    ├── SpiderError        a spider cannot be found, imported or constructed
 │    └── JobError           the job is not what the command expects
 │         └── MissingJobError   there is no job of this name
 ├── BackendError            exit 3: a frontier, a sink or a source cannot be reached or used
 │    ├── FrontierError      the store failed: unavailable, corrupt, full
 │    │    ├── FormatError   the store was written by another program or another version
 │    │    │    └── DamageError   a stored value cannot be read; the message names its job and location
 │    │    │         └── ContradictionError   stored values contradict each other; it is unknown which is wrong
 │    │    ├── VanishedError the store, or the job in it, was deleted or replaced while in use
 │    │    └── AuditError    the audit trail cannot be written or read; the change was not made
 │    │         └── TrailMissingError   the store does not exist yet, so it has no audit trail
 │    ├── ClusterError       a coordinator (``skitter.cluster``) cannot be used
 │    │    ├── ClusterUnavailableError   its server does not answer; the call may or may not have taken effect
 │    │    │    └── SessionExpiredError   the server has ended the session; its locks and memberships are lost
 │    │    ├── ClusterConflictError  a key is not as expected; nothing was changed; ``path`` names the key
 │    │    └── LockLostError         the lock is lost: another process may hold it
 │    ├── DedupError         a set of ``skitter.dedup`` in Redis cannot be reached or used
 │    ├── SinkError          an output cannot be written
 │    │    ├── MissingFolderError   exit 2: the folder of an output is missing and is not created
 │    │    ├── SinkUnavailableError   its server does not answer; the call may be repeated
 │    │    └── BadItemsError     some items can never be written to the output; ``reasons`` names them
 │    ├── IntakeError        an intake (a source of requests) cannot be read
 │    │    └── IntakeUnavailableError   its server does not answer; the intake is reopened
 │    ├── ScheduleStoreError the store of schedules cannot be reached or used
 │    ├── EventStreamError   events cannot be published
 │    │    └── EventStreamUnavailableError   its server does not answer; events wait, and the crawl continues
 │    └── SliceError         the process of a slice was killed, or could not start
 ├── CrawlError              a crawl that failed or is incomplete (``Summary.raise_for_state``)
 │    └── CrawlTimeoutError  a crawl that did not end within its ``timeout`` (also a TimeoutError)
 ├── UrlError                a URL that cannot be crawled; ``rule`` says why
 ├── SitemapError            a sitemap that cannot be read to its end; ``rule`` says why
 ├── FetchError              a fetch without a response; ``error_class`` says why
 │    └── BrowserLostError   the browser with the page crashed or hangs
 ├── ScrapeError             a single page could not be fetched; the message begins with the error class
 ├── LateError               a request that could not start in time, and was not sent
 ├── SelectorError           an invalid CSS selector (``extract.css_selectors``; also a ValueError)
 ├── FormError               a form that is not on the page, or that cannot be submitted as requested
 ├── ParseError              a page that would need more memory than its worker may use
 ├── ExtraMissingError       an optional package is not installed; the hint is the install command
 ├── ItemError               an item that cannot be encoded
 ├── RequestError            a Request with a wrong value, or for a missing feature (also a TypeError)
 ├── DropItem                raised by an item function: the item is dropped and counted
 └── RejectItem              raised by an item function: the item goes to the rejects file

Driver errors (sqlite3, pycurl, OSError) are mapped where the driver is called, and stay
reachable as ``__cause__``.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SkitterError(Exception):
    """Base class of all errors that skitter raises. ``str(error)`` reads ``what happened: value``."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            # In a program, a traceback is all that a person sees.
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses have other parameters than ``args``, so they are restored without their constructor.
        return copyreg.__newobj__, (type(self),), {"args": self.args, **self.__dict__}  # type: ignore[attr-defined]


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


class TrailMissingError(AuditError):
    pass


class ClusterError(BackendError):
    pass


class ClusterUnavailableError(ClusterError):
    pass


class SessionExpiredError(ClusterUnavailableError):
    pass


class ClusterConflictError(ClusterError):
    """A refused change of keys; ``path`` is the key that is not as expected."""

    def __init__(self, path: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class LockLostError(ClusterError):
    pass


class DedupError(BackendError):
    pass


class SinkError(BackendError):
    pass


class MissingFolderError(SinkError):
    exit_code = UsageError.exit_code


class SinkUnavailableError(SinkError):
    pass


class BadItemsError(SinkError):
    """Items that the output refuses; ``reasons`` maps the ``position`` of each to the reason."""

    def __init__(self, target: str, reasons: Mapping[int, str]) -> None:
        super().__init__(f"{len(reasons)} items cannot be written: {target}: {next(iter(reasons.values()), '')}")
        self.reasons = reasons


class IntakeError(BackendError):
    pass


class IntakeUnavailableError(IntakeError):
    pass


class ScheduleStoreError(BackendError):
    pass


class EventStreamError(BackendError):
    pass


class EventStreamUnavailableError(EventStreamError):
    pass


class SliceError(BackendError):
    pass


class CrawlError(SkitterError):
    pass


class CrawlTimeoutError(CrawlError, TimeoutError):
    pass


class UrlError(SkitterError):
    """A URL that cannot be crawled; ``rule`` is one of: scheme, unparsable, too_long."""

    def __init__(self, rule: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


class SitemapError(SkitterError):
    """A sitemap that is not read to its end; ``rule``: not_a_sitemap, dtd, broken, empty, too_large or too_many."""

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
    """The browser with the page crashed or hangs; its request is returned without counting an attempt."""

    def __init__(self, message: str) -> None:
        super().__init__("browser", message)


class ScrapeError(SkitterError):
    """A page that the task ``scrape`` could not fetch. The message reads ``CLASS: what happened to URL``."""


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
    """Raised by an item function to drop an item. Drops are counted by reason, so use few different reasons."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "no reason given")


class RejectItem(SkitterError):  # noqa: N818  as DropItem
    """Raised by an item function to write an item, with this reason, to the rejects file for review."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "no reason given")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known word, or an empty text."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]} ?" if near else ""
