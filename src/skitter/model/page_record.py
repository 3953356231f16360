"""Page record: what a job that recrawls keeps of a page from run to run."""

from __future__ import annotations

from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]
"""A time or a duration. What was damaged and is none cannot be decoded."""


class Visit(msgspec.Struct, frozen=True, array_like=True):
    """A fetch of a page that was fetched before."""

    seconds: Seconds
    """Since the fetch before it."""
    changed: bool


class PageRecord(msgspec.Struct, frozen=True, array_like=True):
    """The last fetch of a page: its validators, the hash of its content, and how often it has changed.

    Times are the store's clock. A store keeps a record as it is, and finds it by ``next_at``.
    """

    fetched_at: Seconds
    next_at: Seconds
    """It is not fetched again before this time."""
    interval_seconds: Seconds
    """From ``fetched_at`` to ``next_at``."""
    changed_at: Seconds = 0.0
    """The fetch that found its present content."""
    visits: list[Visit] = []
    """The newest ones, oldest first."""
    content_hash: bytes = b""
    """Of the decoded body, or of the target of a redirect; empty: there was none, as with a 404."""
    etag: str = ""
    last_modified: str = ""
    vary: str = ""
    """The names of the request headers that the answer depends on, as the server wrote them."""
    vary_hash: bytes = b""
    """Of the values that these headers had."""
    parsed_by: bytes = b""
    """Hash of the spider and of the rules for links that the page was parsed with."""


class KnownPage(msgspec.Struct, frozen=True):
    """A request that a job which recrawls has had, to be queued in another run."""

    id: int
    host_key: str
    payload: bytes
    due_at: float
    """``PageRecord.next_at``; until its first fetch has ended, the time when it was added."""
