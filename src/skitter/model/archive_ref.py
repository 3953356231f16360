"""Reference of a commit to a page that was written for an archive before the commit: an item of kind ``PAGE``."""

from __future__ import annotations

import msgspec


class Archived(msgspec.Struct, frozen=True, array_like=True):
    """Location of the archive records of one page, and the figures that an archive's index needs."""

    node: str
    """The machine that has the file."""
    file: str
    """Absolute path."""
    offset: int
    request_bytes: int
    """The request record comes first, packed; then the response record."""
    response_bytes: int
    url: str
    date: str
    """WARC-Date of the records."""
    record_id: str
    """WARC-Record-ID of the response."""
    payload_digest: bytes = b""
    """SHA-1 of the payload; empty if there is no payload or it is not deduplicated."""
    version: int = 1

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


_decode = msgspec.msgpack.Decoder(Archived).decode


def archived(record: bytes) -> Archived:
    """Decode a reference; raise msgspec.DecodeError for anything else."""
    return _decode(record)
