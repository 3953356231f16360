"""Sinks for ``.warc`` and ``.warc.gz`` archives, which copy the page records that commits refer to.

The mark is the length of the file, as for JSON lines. The bytes that a killed writer left after the mark begin with the
first record of the batch that is delivered again, byte for byte, because request records are copied unchanged. So they
are recognised and cut off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from skitter.errors import SinkError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.compression import Compression, Plain, chunks_of
from skitter.sinks.durable_files import AppendFile, resolve_file
from skitter.sinks.page_spool_reader import PageRecords
from skitter.sinks.part_files import PartNames, PartsSink
from skitter.sinks.whole_file import decode_mark


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    length: int
    version: int = 1


class WarcSink:
    """A sink that appends to one WARC file, which is readable up to its last record at any time."""

    exact = True

    def __init__(self, target: str, path: str, compression: Compression, *, node: str, overwrite: bool) -> None:
        """``target`` names the file and the machine; ``path`` is the file."""
        self.target = target
        self.ahead = Path(os.path.realpath(path)).with_name(f".{Path(path).name}.ahead")
        self._path = path
        self._compression = compression
        self._overwrite = overwrite
        self._records = PageRecords(target, compression, node)
        self._file: AppendFile | None = None
        self._tail = False
        """Whether the file has bytes after the mark that may be ours or another writer's."""

    def take(self) -> None:
        self._file = AppendFile(resolve_file(self._path), self.target)

    def open(self, progress: SinkProgress) -> bytes:
        file = self._taken()
        if progress.mark and not progress.closed:
            self._resume(file, decode_mark(progress.mark, _Mark, self.target).length)
        else:
            if self._overwrite and not progress.mark:
                file.cut(0)
            else:
                self._to_the_end(file)
            file.append(self._records.info())
        file.persist()
        return self._mark(file)

    def _resume(self, file: AppendFile, length: int) -> None:
        if not file.was_there or file.size() < length:
            raise SinkError(
                f"the archive of the unfinished run is missing or truncated: {self._path}:"
                f" {length} bytes were written, {file.size()} are left",
                hint="restore the file, or start over with --fresh",
            )
        file.end, self._tail = length, file.size() > length

    def _to_the_end(self, file: AppendFile) -> None:
        try:
            with file.path.open("rb") as reading:
                # The whole file is read: a record that lacks its end would make all that follow unreadable.
                beginning = end = b""
                for piece in self._compression.unpack(chunks_of(reading)):
                    beginning, end = beginning or piece, (end + piece)[-4:]
            if beginning and not (beginning.startswith(b"WARC/") and end == b"\r\n\r\n"):
                raise ValueError("it is not a complete WARC file")  # noqa: TRY301
        except ValueError as error:
            raise SinkError(
                f"cannot append to the existing archive: {self._path}: {error}",
                hint="-O overwrites it; or choose another file with -o",
            ) from error
        file.end = file.size()

    def write(self, items: Sequence[Item]) -> bytes:
        file = self._taken()
        self._records.remove_used_files()  # the batch before is recorded
        if self._tail and (first := self._records.first(items)):
            # A power cut leaves zeros where data was not written yet.
            ours = first.startswith(file.read(file.end, len(first)).rstrip(b"\0"))
            if ours:
                file.cut(file.end)
            else:
                self._to_the_end(file)
            self._tail = False
        try:
            file.append(self._records.of(items))
        except SinkError:
            self._records.discard_last_batch()
            raise
        return self._mark(file)

    def finish(self) -> None:
        """Do nothing: every record was written durably by ``write``."""

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
    """The file format of a part, whose spool holds finished WARC records."""

    def __init__(self, records: PageRecords) -> None:
        self._records = records

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        yield from file

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        out.write(self._records.info())
        out.writelines(lines())


class WarcPartsSink(PartsSink):
    """A sink that writes a folder of WARC files, each complete when it gets its name."""

    def __init__(
        self,
        target: str,
        folder: Path,
        names: PartNames,
        compression: Compression,
        *,
        node: str,
        part_bytes: int,
        part_seconds: float,
        overwrite: bool,
        job: str,
    ) -> None:
        self._records = PageRecords(target, compression, node)
        # The records are compressed already.
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
        self._records.remove_used_files()  # the batch before is recorded
        try:
            return super().write(items)
        except SinkError:
            self._records.discard_last_batch()
            raise

    def close(self, *, complete: bool = False) -> None:
        super().close(complete=complete)
        if complete:
            clear(self.ahead)


def clear(folder: Path) -> None:
    """Remove the page spool of a complete run."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()
