"""Contract of a schedule store, as a Protocol. A backend stores bytes; ``records`` defines their content.

 1  Compare and set: a document is written if and only if it still has the version that the writer has read, under any
    concurrency and process deaths. If two schedulers decide about the same tick, exactly one decision is stored.
 2  A document and the rows that are written with it become durable together or not at all.
 3  The steady clock never goes back and never jumps, and is the same for all users of the store; a restart of its
    machine gives it another ``boot``.
 4  A change by an operator leaves an entry in the audit trail: written in the same step, or around it with ``trail``.
 5  Bounded: a document keeps its last ``ROWS_KEPT`` rows, in the order in which they were first written.

Methods raise ScheduleStoreError when the store fails. A call may be repeated after an error: if the write was done but
its reply was lost, the repeated call finds another version, and the caller reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from skitter.audit.entry import Draft
from skitter.audit.trail import Trail
from skitter.policy.schedule_ticks import StoreTime

ROWS_KEPT = 2000
VERSION_CHARS = 16
"""Length of every version."""
ABSENT = ""
"""Version of a document that does not exist."""


class Stored(NamedTuple):
    """Document and its version. A version is never reused for other content of the same name."""

    version: str
    data: bytes


class Row(NamedTuple):
    """Row of a document. Writing a row replaces an earlier row with the same time."""

    at: float
    data: bytes


class ScheduleStore(Protocol):
    """Store of documents by name, each with rows by time."""

    async def time(self) -> StoreTime:
        """Return the current time of the store."""
        ...

    async def read(self, name: str) -> Stored | None:
        """Return a document, or None if it does not exist."""
        ...

    async def read_all(self) -> dict[str, Stored]:
        """Return all documents by name."""
        ...

    async def write(
        self, name: str, version: str, new: Stored, rows: Sequence[Row] = (), entry: Draft | None = None
    ) -> bool:
        """Replace a document of this version and write rows; return False if it has another version.

        ``ABSENT`` as the version creates the document. ``entry`` is the audit entry to write in the same step, if the
        store has no ``trail``.
        """
        ...

    async def remove(self, name: str, version: str, entry: Draft | None = None) -> bool:
        """Remove a document of this version and its rows; return False if it has another version."""
        ...

    def trail(self) -> Trail | None:
        """Return the audit trail, or None if entries are written in the same step as the change."""
        ...

    async def rows(self, name: str, limit: int) -> list[bytes]:
        """Return the rows of a document with the latest times, latest first."""
        ...

    async def close(self) -> None:
        """Release the connection to the store."""
        ...
