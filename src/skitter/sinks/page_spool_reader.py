"""WARC records of committed pages, read from the workers' page spools and converted for an archive."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import msgspec

from skitter.errors import BadItemsError, SinkError
from skitter.model.archive_ref import Archived, archived
from skitter.model.item import Item
from skitter.sinks.compression import Compression, Gzip
from skitter.sinks.durable_files import sink_errors
from skitter.sinks.page_spool import remove_if_used_up
from skitter.sinks.warc_records import revisit_record, warcinfo

REMEMBERED = 100_000
"""Payload digests kept to write revisit records, about 400 bytes each; the oldest is dropped first."""
_HEADS_BYTES = 1 << 20
"""libcurl takes no more than 300 KB of headers."""
_GZIP = 31


class PageRecords:
    """A reader of page spools that makes the records of an archive."""

    def __init__(self, target: str, compression: Compression, node: str) -> None:
        self._target = target
        self._compression = compression
        self._node = node
        self._originals: dict[bytes, tuple[str, Archived]] = {}
        """Payload digest -> the key of the item, and the page."""
        self._taken: dict[str, set[int]] = {}
        """Spool file -> the offsets of the pages that the archive holds."""
        self._taking: list[tuple[str, int]] = []
        """Spool file and offset of each page of the last batch, which may not be recorded yet."""

    def info(self) -> bytes:
        """Return the warcinfo record that begins a file."""
        return self._compression.pack(warcinfo())

    def first(self, items: Sequence[Item]) -> bytes:
        """Return the first request record of these items; empty if none is of this machine."""
        for _, page in self._ours(items):
            with sink_errors(self._target), _opened(page, self._target) as file:
                file.seek(page.offset)
                return self._repacked(file.read(page.request_bytes))
        return b""

    def of(self, items: Sequence[Item]) -> Iterator[bytes]:
        """Iterate over the request and response (or revisit) records of this machine's pages, one at a time."""
        self._taking = []
        with ExitStack() as open_files, sink_errors(self._target):
            files: dict[str, BinaryIO] = {}
            for item, page in self._ours(items):
                if page.file not in files:
                    files[page.file] = open_files.enter_context(_opened(page, self._target))
                file = files[page.file]
                file.seek(page.offset)
                asked, answered = file.read(page.request_bytes), file.read(page.response_bytes)
                if len(answered) < page.response_bytes:
                    raise _gone(self._target, page.file)
                yield self._repacked(asked)
                yield self._answer(item, page, answered)
                self._taking.append((page.file, page.offset))

    def _answer(self, item: Item, page: Archived, answered: bytes) -> bytes:
        known = self._originals.get(page.payload_digest) if page.payload_digest else None
        # A batch that could not be written comes again: then the original is this one.
        if known is not None and known[0] != item.key:
            original = known[1]
            heads = zlib.decompressobj(wbits=_GZIP).decompress(answered, _HEADS_BYTES)
            return self._compression.pack(revisit_record(heads, original.url, original.date, original.record_id))
        if page.payload_digest and known is None:
            self._originals[page.payload_digest] = (item.key, page)
            if len(self._originals) > REMEMBERED:
                del self._originals[next(iter(self._originals))]
        return self._repacked(answered)

    def _repacked(self, member: bytes) -> bytes:
        return member if self._compression.suffix else b"".join(Gzip().unpack([member]))

    def _ours(self, items: Sequence[Item]) -> Iterator[tuple[Item, Archived]]:
        bad: dict[int, str] = {}
        pages: list[tuple[Item, Archived]] = []
        for item in items:
            try:
                page = archived(item.record)
            except msgspec.MsgspecError as error:
                bad[item.position] = f"not a page of an archive: {error}"
            else:
                if page.node == self._node:
                    pages.append((item, page))
        if bad:
            raise BadItemsError(self._target, bad)
        return iter(pages)

    def remove_used_files(self) -> None:
        """Note that the last batch is recorded, and remove spool files whose pages are all in the archive."""
        for file, offset in self._taking:
            self._taken.setdefault(file, set()).add(offset)
        self._taking = []
        for file in [file for file, pages in self._taken.items() if remove_if_used_up(Path(file), len(pages))]:
            del self._taken[file]

    def discard_last_batch(self) -> None:
        """Forget the pages of the last batch, which could not be written."""
        self._taking = []


def _opened(page: Archived, target: str) -> BinaryIO:
    try:
        return Path(page.file).open("rb")
    except FileNotFoundError as error:
        raise _gone(target, page.file) from error


def _gone(target: str, file: str) -> SinkError:
    return SinkError(
        f"spooled pages of the archive are missing or truncated: {target}: {file}",
        hint="restore the file, or start over with --fresh",
    )
