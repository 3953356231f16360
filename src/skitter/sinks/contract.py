"""Sink contract: every committed item reaches its target exactly once, even if processes are killed.

The frontier keeps one record for each sink: the position up to which the target holds every item, and the sink's own
mark. Both are written together. ``open`` restores the target to the mark, and ``write`` makes a batch durable before it
returns the next mark. So a writer that dies in between leaves only data that the next ``open`` or ``write`` removes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.model.page import Page
from skitter.model.request import Request

ARCHIVES = ".warc"
"""The text that occurs in the name of every target that may be a page archive."""


class Sink(Protocol):
    """A writer to one target. It is synchronous and called from one thread; every method may raise SinkError.

    ``open`` and ``finish`` may also raise SinkUnavailableError, and are then called again.
    """

    target: str
    """Name under which the frontier stores the progress. It must be the same at every start."""
    exact: bool
    """Whether items are written exactly once. If False, a batch may be written twice after a crash; (request id, place)
    identifies duplicates."""

    def take(self) -> None:
        """Lock the target for this process on this machine, without changing it.

        Called before the ownership is requested from the frontier. So all processes of a machine may share one owner:
        the next process continues at once where a killed one stopped, and none disturbs a live one.
        """
        ...

    def open(self, progress: SinkProgress) -> bytes:
        """Restore the target to the committed ``progress``, and return the mark to begin with.

        An empty ``progress.mark`` means a new run: only then may a target be emptied. With ``progress.closed`` the
        target was completed and may have changed since: append to its present content. The returned mark is recorded,
        with ``closed`` reset, before anything is written.
        """
        ...

    def write(self, items: Sequence[Item]) -> bytes:
        """Write the items durably after the mark; return the new mark, which is never empty.

        If it raises, the target is unchanged (or, if ``exact`` is False, a part of the batch may have been written).
        A batch that is repeated after a crash begins with the same items, and is at least as long.

        Raises SinkUnavailableError if the server is unavailable: the same batch is repeated. Raises BadItemsError if
        some items can never be written: the batch is repeated without them. Any other SinkError ends the delivery.
        """
        ...

    def finish(self) -> None:
        """Complete the target after the last item. May be called again, also after a crash."""
        ...

    def close(self, *, complete: bool = False) -> None:
        """Release the target. ``complete``: ``closed`` was recorded, so data kept for resuming may be removed."""
        ...


@runtime_checkable
class PageSink(Sink, Protocol):
    """A sink for pages. It receives references to pages in the workers' page spools (``Archived``), and no items.

    All other sinks receive only items.
    """

    ahead: Path
    """The absolute path of the folder where the workers of this machine spool pages."""


class Archive(Protocol):
    """The worker's side of a PageSink: it writes each page to this machine's disk before its commit refers to it."""

    async def add(self, epoch: int, request: Request, page: Page) -> bytes:
        """Store the page of a lease, and return the record of a ``PAGE`` item for its commit.

        ``epoch`` is the fencing token of the lease, and identifies it.
        """
        ...

    async def sync(self, held: Container[int]) -> None:
        """Make all added pages durable; called before each commit. A SinkError stops the worker.

        ``held``: the epochs (fencing tokens) of the leases whose pages may still be committed.
        """
        ...

    def committed(self, epoch: int) -> None:
        """Note that the commit of the lease with this epoch was accepted: the sink may now read its page."""
        ...

    def close(self) -> None: ...


class FileStore(Protocol):
    """A store of downloaded files, whose names are derived from their content. Called from several threads."""

    def put(self, name: str, content: bytes, content_type: str) -> None:
        """Store a file durably and atomically, unless it exists.

        Raises SinkUnavailableError, after which the call may be repeated, or SinkError.
        """
        ...


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """An item that an output refused: one line of a rejects file."""

    reason: str
    target: str
    key: str
    """Key of the item. A line that is repeated after a crash has the same key."""
    url: str = ""
    """URL of its page, if known."""
    record: Any


class Rejects(Protocol):
    """A store for rejected items, called from the thread of their sink."""

    def add(self, rejected: Sequence[Rejected]) -> None:
        """Store items durably. Raises SinkError."""
        ...
