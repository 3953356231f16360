"""Items: records, rejects and page references that a commit adds to the outbox."""

from __future__ import annotations

import enum

import msgspec


class ItemKind(enum.IntEnum):
    """Kind of an item. Stored as a number; in Redis as one byte before the record."""

    RECORD = 0
    """Fields that a spider yielded (``extract.items``)."""
    REJECT = 1
    """Value that cannot be stored as a record, with the reason (``extract.rejected_items``)."""
    PAGE = 2
    """Reference to a page that was written for an archive (``model.archive_ref``)."""


COUNTERS = ("items", "rejected", "archived")
"""Names of the job's counters of published items, by kind."""


class NewItem(msgspec.Struct, frozen=True):
    """One item of a commit. It gets its position when the commit is accepted."""

    record: bytes
    kind: ItemKind = ItemKind.RECORD


class Item(msgspec.Struct, frozen=True):
    """One item of the outbox."""

    position: int
    """Position in the outbox. It grows with each item of the job, in the order of commits."""
    request_id: int
    place: int
    """Index among the items of its page."""
    record: bytes
    kind: ItemKind = ItemKind.RECORD

    @property
    def key(self) -> str:
        """Return the item's identity, which is the same whenever its page is fetched again."""
        return f"{self.request_id % 2**64:016x}-{self.place}"
