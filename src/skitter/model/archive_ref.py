"""A page that was written ahead for an archive, as its commit refers to it.

It travels as an item of another kind: items are msgpack maps, a reference is an array.
"""

from __future__ import annotations

import msgspec


class Archived(msgspec.Struct, frozen=True, array_like=True):
    """Where the records of one page are, and what an archive has to know of them."""

    node: str
    """The machine."""
    file: str
    """Absolute."""
    offset: int
    request_bytes: int
    """The request record comes first, packed; then the response record."""
    response_bytes: int
    url: str
    date: str
    """As in the records."""
    record_id: str
    """Of the response."""
    payload_digest: bytes = b""
    """SHA-1; empty: there is no payload, or none that is worth knowing again."""
    version: int = 1

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


def is_archived(record: bytes) -> bool:
    """Whether an item of the outbox is a reference to a page."""
    return b"\x90" <= record[:1] <= b"\x9f"


_decode = msgspec.msgpack.Decoder(Archived).decode


def archived(record: bytes) -> Archived:
    """The reference; msgspec.DecodeError for something else."""
    return _decode(record)
