"""``.warc`` and ``.warc.gz``: the sink's side of an archive. It copies the records that commits refer to.

The mark is the length of the file, as for JSON lines. What a killed writer has left behind the mark begins with the
record that comes again first, byte for byte, because a request record is copied as it is; so it is known, and cut off.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from skitter.errors import BadItemsError, SinkError
from skitter.model.archive import Archived, archived
from skitter.model.job import Item, SinkProgress
from skitter.sinks.ahead import used_up
from skitter.sinks.disk import AppendFile, in_place, mapped
from skitter.sinks.packing import Gzip, Packing, Plain, chunks_of
from skitter.sinks.parts import PartNames, PartsSink
from skitter.sinks.rendered import decoded
from skitter.sinks.warc import revisit_record, warcinfo

REMEMBERED = 100_000
"""Payloads that are known when they come again, about 400 bytes each; the oldest is forgotten first."""
_HEADS_BYTES = 1 << 20
"""libcurl takes no more than 300 KB of headers."""
_GZIP = 31


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    length: int
    version: int = 1


class Records:
    """The records of pages, as they stand in an archive."""

    def __init__(self, target: str, packing: Packing, node: str) -> None:
        self._target = target
        self._packing = packing
        self._node = node
        self._originals: dict[bytes, tuple[str, Archived]] = {}
        """By payload digest: the key of the item, and the page."""
        self._used: set[str] = set()

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

    def of(self, items: Sequence[Item]) -> bytes:
        """Request and response, or request and revisit, of each page of this machine."""
        records: list[bytes] = []
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
                records += [self._repacked(asked), self._answer(item, page, answered)]
            self._used |= files.keys()
        return b"".join(records)

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
        """Everything that was asked for is recorded: what no other page can be in is removed."""
        for file in self._used:
            for path in used_up(file):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self._used.clear()


class WarcSink:
    """One file. It grows with the crawl, and any reader of WARC can read it at any time up to its last record."""

    exact = True

    def __init__(self, target: str, path: str, packing: Packing, *, node: str, overwrite: bool) -> None:
        """``target`` names the file and the machine; ``path`` is the file."""
        self.target = target
        self.ahead = Path(os.path.realpath(path)).with_name(f".{Path(path).name}.ahead")
        self._path = path
        self._packing = packing
        self._overwrite = overwrite
        self._records = Records(target, packing, node)
        self._file: AppendFile | None = None
        self._tail = False
        """Something stands behind the mark, and it is not known yet whose it is."""

    def take(self) -> None:
        self._file = AppendFile(in_place(self._path), self.target)

    def open(self, progress: SinkProgress) -> bytes:
        file = self._taken()
        if progress.mark and not progress.closed:
            self._resume(file, decoded(progress.mark, _Mark, self.target).length)
        else:
            if self._overwrite and not progress.mark:
                file.cut(0)
            else:
                self._to_the_end(file)
            file.append(self._records.info())
        file.keep()
        return self._mark(file)

    def _resume(self, file: AppendFile, length: int) -> None:
        if not file.was_there or file.size() < length:
            raise SinkError(
                f"the archive of the unfinished run is gone or was cut: {self._path}:"
                f" {length} bytes were written, {file.size()} are left",
                hint="put the file back, or start again from nothing with --fresh",
            )
        file.end, self._tail = length, file.size() > length

    def _to_the_end(self, file: AppendFile) -> None:
        try:
            with file.path.open("rb") as reading:
                # The whole file is read: a record that lacks its end would make all that follow unreadable.
                beginning = end = b""
                for piece in self._packing.unpack(chunks_of(reading)):
                    beginning, end = beginning or piece, (end + piece)[-4:]
            if beginning and not (beginning.startswith(b"WARC/") and end == b"\r\n\r\n"):
                raise ValueError("it is not a complete WARC file")  # noqa: TRY301
        except ValueError as error:
            raise SinkError(
                f"cannot add to the archive that is there: {self._path}: {error}",
                hint="-O overwrites it; or give another file with -o",
            ) from error
        file.end = file.size()

    def write(self, items: Sequence[Item]) -> bytes:
        file = self._taken()
        self._records.let_go()  # the batch before is recorded
        if self._tail and (first := self._records.first(items)):
            # Zeros: what a power cut leaves where data was on its way.
            ours = first.startswith(file.read(file.end, len(first)).rstrip(b"\0"))
            if ours:
                file.cut(file.end)
            else:
                self._to_the_end(file)
            self._tail = False
        if records := self._records.of(items):
            file.append(records)
        return self._mark(file)

    def finish(self) -> None:
        """Nothing to do: every record has been in its place since it was written."""

    def close(self, *, complete: bool = False) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            if complete:
                clear(self.ahead)

    def _taken(self) -> AppendFile:
        assert self._file is not None, "take() comes first"
        return self._file

    @staticmethod
    def _mark(file: AppendFile) -> bytes:
        return msgspec.json.encode(_Mark(file.end))


class _Part:
    """The form of a part: its spool holds the records as they are to stand in the file."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        yield from file

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        out.write(self._records.info())
        out.writelines(lines())


class WarcPartsSink(PartsSink):
    """A folder of files, each complete from the instant it has its name."""

    def __init__(
        self,
        target: str,
        folder: Path,
        names: PartNames,
        packing: Packing,
        *,
        node: str,
        part_bytes: int,
        part_seconds: float,
        overwrite: bool,
        job: str,
    ) -> None:
        self._records = Records(target, packing, node)
        # Records are packed when they come here.
        super().__init__(
            target,
            folder,
            names,
            _Part(self._records),
            Plain(),
            encode=self._records.of,
            part_bytes=part_bytes,
            part_seconds=part_seconds,
            overwrite=overwrite,
            job=job,
        )
        self.ahead = Path(os.path.realpath(folder)) / f".{names.stem}.ahead"

    def write(self, items: Sequence[Item]) -> bytes:
        self._records.let_go()  # the batch before is recorded
        return super().write(items)

    def close(self, *, complete: bool = False) -> None:
        super().close(complete=complete)
        if complete:
            clear(self.ahead)


def clear(folder: Path) -> None:
    """The run is complete: what was written ahead for it goes."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


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
