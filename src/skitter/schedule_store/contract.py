"""The promises of a store of schedules, as a Protocol. ``records`` has what is stored; a backend sees bytes.

 1  Compare and set: a document is written if and only if its version is the one that the writer has read, under any
    concurrency and whoever dies. So of two schedulers that decide about the same tick, one has decided.
 2  A document and the rows that are written with it become durable together or not at all.
 3  The steady clock never goes back and never leaps, and all who use the store see the same; a restart of the machine
    that it belongs to gives it another ``boot``.
 4  What is written for an operator leaves an entry in the audit trail: in the same step, or by ``trail`` around it.
 5  Bounded: a document has its last ``ROWS_KEPT`` rows, by the order in which they were first written.

Methods raise ScheduleStoreError when the store fails. A call may be repeated after an error: a write that was done, and
whose answer was lost, then finds another version, and its caller looks again.
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
"""The version of a document that is not there."""


class Stored(NamedTuple):
    """A document and its version, which no other content of this name ever has."""

    version: str
    data: bytes


class Row(NamedTuple):
    """A row that belongs to a document. Written again, the one of the same time is replaced."""

    at: float
    data: bytes


class ScheduleStore(Protocol):
    """Documents by name, each with rows by time."""

    async def time(self) -> StoreTime:
        """The time by the store."""
        ...

    async def read(self, name: str) -> Stored | None:
        """A document; None: there is none."""
        ...

    async def read_all(self) -> dict[str, Stored]:
        """All documents, by name."""
        ...

    async def write(
        self, name: str, version: str, new: Stored, rows: Sequence[Row] = (), entry: Draft | None = None
    ) -> bool:
        """Replace a document of this version (``ABSENT``: make it), and write rows. False: it has another version.

        ``entry``: of the trail, to be written with it, if the store has no ``trail``.
        """
        ...

    async def remove(self, name: str, version: str, entry: Draft | None = None) -> bool:
        """Remove a document of this version and its rows. False: it has another version."""
        ...

    def trail(self) -> Trail | None:
        """The trail, if entries cannot be written in the same step; None: they are."""
        ...

    async def rows(self, name: str, limit: int) -> list[bytes]:
        """The rows of a document with the latest times, the latest first."""
        ...

    async def close(self) -> None: ...
