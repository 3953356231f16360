"""The records of pages that commits refer to: found where they were written ahead, made as they stand in an archive."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import msgspec

from skitter.errors import BadItemsError, SinkError
from skitter.model.archive_ref import Archived, archived
from skitter.model.job import Item
from skitter.sinks.compression import Gzip, Packing
from skitter.sinks.durable_files import mapped
from skitter.sinks.page_spool import remove_if_used_up
from skitter.sinks.warc import revisit_record, warcinfo

REMEMBERED = 100_000
"""Payloads that are known when they come again, about 400 bytes each; the oldest is forgotten first."""
_HEADS_BYTES = 1 << 20
"""libcurl takes no more than 300 KB of headers."""
_GZIP = 31


class Records:
    """The records of pages, as they stand in an archive."""

    def __init__(self, target: str, packing: Packing, node: str) -> None:
        self._target = target
        self._packing = packing
        self._node = node
        self._originals: dict[bytes, tuple[str, Archived]] = {}
        """By payload digest: the key of the item, and the page."""
        self._taken: dict[str, set[int]] = {}
        """By file: the offsets of the pages that the archive holds."""
        self._taking: list[tuple[str, int]] = []
        """Of the last batch, which may not be recorded."""

    def info(self) -> bytes:
        """What stands before them."""
        return self._packing.pack(warcinfo())

    def first(self, items: Sequence[Item]) -> bytes:
        """How the records of these items begin; empty: none is of this machine."""
        for _, page in self._ours(items):
            with mapped(self._target), _opened(page, self._target) as file:
                file.seek(page.offset)
                return self._repacked(file.read(page.request_bytes))
        return b""

    def of(self, items: Sequence[Item]) -> Iterator[bytes]:
        """Request and response, or request and revisit, of each page of this machine; one at a time is in memory."""
        self._taking = []
        with ExitStack() as open_files, mapped(self._target):
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
            return self._packing.pack(revisit_record(heads, original.url, original.date, original.record_id))
        if page.payload_digest and known is None:
            self._originals[page.payload_digest] = (item.key, page)
            if len(self._originals) > REMEMBERED:
                del self._originals[next(iter(self._originals))]
        return self._repacked(answered)

    def _repacked(self, member: bytes) -> bytes:
        return member if self._packing.suffix else b"".join(Gzip().unpack([member]))

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

    def let_go(self) -> None:
        """The last batch is recorded: files whose pages are all in the archive are removed."""
        for file, offset in self._taking:
            self._taken.setdefault(file, set()).add(offset)
        self._taking = []
        for file in [file for file, pages in self._taken.items() if remove_if_used_up(Path(file), len(pages))]:
            del self._taken[file]

    def forget_last(self) -> None:
        """The last batch could not be written."""
        self._taking = []


def _opened(page: Archived, target: str) -> BinaryIO:
    try:
        return Path(page.file).open("rb")
    except FileNotFoundError as error:
        raise _gone(target, page.file) from error


def _gone(target: str, file: str) -> SinkError:
    return SinkError(
        f"pages that were written ahead for the archive are gone or were cut: {target}: {file}",
        hint="put the file back, or start again from nothing with --fresh",
    )
