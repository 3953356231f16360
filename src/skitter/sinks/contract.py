"""The sink contract: committed items reach their target once, whatever process is killed.

The frontier keeps one record for each sink: the position up to which the target holds every item,
and the sink's own mark, both written at once. ``open`` brings the target back to the mark and
``write`` makes a batch durable before it returns the next one. So a writer that dies between the
two leaves only data that the next ``open`` or ``write`` removes.
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

    ``open`` and ``finish`` may raise SinkAwayError too, and are then called again.
    """

    target: str
    """The name under which the frontier keeps the progress: the same at every start."""
    exact: bool
    """False: a batch may be written twice after a crash; (request id, place) tells repeats apart."""

    def take(self) -> None:
        """Take the target for this process alone, as far as its machine goes; it stays as it is.

        Comes before the frontier is asked for the ownership. So all processes of a machine may be one owner:
        the next one goes on at once where a killed one was, and none disturbs one that lives.
        """
        ...

    def open(self, progress: SinkProgress) -> bytes:
        """Bring the target to what ``progress`` says is committed, and return the mark to begin with.

        An empty ``progress.mark`` is a new run: only then may a target be emptied. With
        ``progress.closed`` the target was completed and may have changed since: go on after
        what is there. The mark returned is recorded, with ``closed`` taken off, before anything is written.
        """
        ...

    def write(self, items: Sequence[Item]) -> bytes:
        """Make the items durable behind the mark; returns the new mark, which is never empty.

        When it raises, the target is as it was (or, where ``exact`` is False, a part of the batch may be there).
        A batch that comes again after a crash begins with the same items, and is at least as long.

        SinkAwayError: the server is away; the same batch comes again. BadItemsError: these items can never be
        written, and the batch comes again without them. Any other SinkError ends the delivery.
        """
        ...

    def finish(self) -> None:
        """Everything is written: complete the target. May be called again, also after a crash."""
        ...

    def close(self, *, complete: bool = False) -> None:
        """Release the target. ``complete``: ``closed`` is recorded, so data kept for resuming may be removed."""
        ...


@runtime_checkable
class PageSink(Sink, Protocol):
    """A sink for pages: it gets references to pages in the workers' page spools (``Archived``), and no items.

    All other sinks get items only.
    """

    ahead: Path
    """The absolute path of the folder where the workers of this machine spool pages."""


class Archive(Protocol):
    """The worker's side of a PageSink: a page is on this machine's disk before its commit refers to it."""

    async def add(self, epoch: int, request: Request, page: Page) -> bytes:
        """Store the page of the lease with this epoch, and return the record of a ``PAGE`` item for its commit."""
        ...

    async def sync(self, held: Container[int]) -> None:
        """Make all added pages durable; called before each commit. SinkError ends the work.

        ``held``: the epochs of the leases whose pages may still be committed.
        """
        ...

    def committed(self, epoch: int) -> None:
        """Note that the commit of this lease was accepted: the sink may read its page from now on."""
        ...

    def close(self) -> None: ...


class FileStore(Protocol):
    """A store of downloaded files, by names that follow from their content. Called from several threads."""

    def put(self, name: str, content: bytes, content_type: str) -> None:
        """Store a file durably and as a whole, unless it is there. SinkAwayError: it may be tried again; SinkError."""
        ...


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a target refused: one line of a rejects file."""

    reason: str
    target: str
    key: str
    """The key of the item; a line that is repeated after a crash has the same key."""
    url: str = ""
    """The URL of its page, if known."""
    record: Any


class Rejects(Protocol):
    """A store for rejected items, called from the thread of their sink."""

    def add(self, rejected: Sequence[Rejected]) -> None:
        """Store items durably; raises SinkError."""
        ...
