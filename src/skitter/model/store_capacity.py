"""How much room is left where a job is stored, and from when on that is too little."""

from __future__ import annotations

import msgspec

FULL_SHARE = 0.9
"""A store that has used up this share of its place is nearly full."""
ROOM_BYTES = 2_000_000_000
"""A disk with this much left is not: a crawl of a thousand pages a second fills it in about half an hour."""


class StoreCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """A disk, or the memory of a server, that a job is stored on."""

    place: str
    total_bytes: int
    free_bytes: int
    is_disk: bool

    @property
    def is_nearly_full(self) -> bool:
        """Whether it should be told before the store refuses writes."""
        if self.is_disk and self.free_bytes >= ROOM_BYTES:
            return False
        return self.free_bytes < (1 - FULL_SHARE) * self.total_bytes
