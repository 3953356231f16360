"""JSON lines, plain and compressed: each batch is appended and becomes durable before it is marked.

The mark is the length of the file. After a crash the file may be longer: by a batch that was
written and not yet marked, or by what another job or a person has appended since. The two are told
apart when the next batch comes, because a batch of ours comes again; only that is cut off.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Protocol

from skitter.errors import SinkError
from skitter.model.job import Item, SinkProgress
from skitter.sinks.disk import AppendFile, in_place
from skitter.sinks.records import json_lines

_CHUNK = 1 << 20
_MARK = b"1 "
"""The version of the mark's form."""


class Packing(Protocol):
    """How lines stand in the file. Whatever is packed can be appended to what was packed before."""

    def pack(self, lines: bytes) -> bytes: ...

    def peek(self, file: AppendFile, start: int, length: int) -> bytes:
        """The first lines from ``start`` on, as far as they can be read, at most so many bytes."""
        ...

    def ends_a_line(self, file: AppendFile) -> bool:
        """Whether the file is empty or its last line is complete; ValueError for another format."""
        ...


class Plain:
    """The lines themselves."""

    def pack(self, lines: bytes) -> bytes:
        return lines

    def peek(self, file: AppendFile, start: int, length: int) -> bytes:
        # After a power cut a file may be long enough and hold zeros where data was on its way; JSON has none.
        return file.read(start, length).partition(b"\0")[0]

    def ends_a_line(self, file: AppendFile) -> bool:
        size = file.size()
        return size == 0 or file.read(size - 1, 1) == b"\n"


class Gzip:
    """One gzip member for each batch, so that the file can be cut back between any two."""

    def pack(self, lines: bytes) -> bytes:
        packer = zlib.compressobj(level=6, wbits=31)
        return packer.compress(lines) + packer.flush()

    def peek(self, file: AppendFile, start: int, length: int) -> bytes:
        lines = b""
        unpacker = zlib.decompressobj(wbits=31)
        try:
            while len(lines) < length and (data := file.read(start, _CHUNK)):
                start += len(data)
                while data and len(lines) < length:
                    lines += unpacker.decompress(data, length - len(lines))
                    data = unpacker.unconsumed_tail
                    if unpacker.eof:
                        data, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)
        except zlib.error:
            pass  # torn: what was read until here counts
        return lines

    def ends_a_line(self, file: AppendFile) -> bool:
        # The whole file is read: a member that lacks its end would make all that follow unreadable.
        start, last, unpacker, inside = 0, b"\n", zlib.decompressobj(wbits=31), False
        try:
            while data := file.read(start, _CHUNK):
                start += len(data)
                while data:
                    last = unpacker.decompress(data, _CHUNK)[-1:] or last
                    data, inside = unpacker.unconsumed_tail, True
                    if unpacker.eof:
                        data, unpacker, inside = unpacker.unused_data, zlib.decompressobj(wbits=31), False
        except zlib.error:
            inside = True
        if inside:
            raise ValueError("it is not a complete gzip file")
        return last == b"\n"


class LinesSink:
    """A file of JSON lines."""

    exact = True

    def __init__(self, target: str, packing: Packing, *, overwrite: bool) -> None:
        self.target = target
        self._packing = packing
        self._overwrite = overwrite
        self._file: AppendFile | None = None
        self._tail = False
        """Something stands behind the mark, and it is not known yet whose it is."""

    def take(self) -> None:
        self._file = AppendFile(in_place(self.target), self.target)

    def open(self, progress: SinkProgress) -> bytes:
        file = self._taken()
        if progress.mark and not progress.closed:
            self._resume(file, progress.mark)
        elif self._overwrite and not progress.mark:
            file.cut(0)
        else:
            self._to_the_end(file)
        file.keep()
        return self._mark(file)

    def _resume(self, file: AppendFile, mark: bytes) -> None:
        if not mark.startswith(_MARK) or not mark[len(_MARK) :].isdigit():
            raise SinkError(
                f"the progress of this file was recorded by another skitter: {self.target}",
                hint="use the version that began the run, or start again from nothing with --fresh",
            )
        if not file.was_there:
            raise SinkError(
                f"the results of the unfinished run are gone: {self.target}",
                hint="put the file back, or go on without it: skitter drain --rest; or start from nothing with --fresh",
            )
        length = int(mark[len(_MARK) :])
        if file.size() < length:
            raise SinkError(
                f"the results of the unfinished run were cut: {self.target}:"
                f" {length} bytes were written, {file.size()} are left",
                hint="put the file back, or start again from nothing with --fresh",
            )
        file.end, self._tail = length, file.size() > length

    def _to_the_end(self, file: AppendFile) -> None:
        try:
            whole = self._packing.ends_a_line(file)
        except ValueError as error:
            raise SinkError(
                f"cannot add to the results that are there: {self.target}: {error}",
                hint="-O overwrites them; or give another file with -o",
            ) from error
        file.end = file.size()
        if not whole:
            file.append(self._packing.pack(b"\n"))

    def write(self, items: Sequence[Item]) -> bytes:
        file = self._taken()
        if items:
            lines = json_lines(items)
            if self._tail:
                self._settle_tail(file, lines)
            file.append(self._packing.pack(lines))
        return self._mark(file)

    def _settle_tail(self, file: AppendFile, lines: bytes) -> None:
        # A batch that comes again is at least as long as it was, so a longer tail is not ours alone.
        if lines.startswith(self._packing.peek(file, file.end, len(lines) + 1)):
            file.cut(file.end)
        else:
            self._to_the_end(file)
        self._tail = False

    def finish(self) -> None:
        """Nothing to do: every line has been in its place since it was written."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  nothing but the file is kept
        if self._file is not None:
            self._file.close()
            self._file = None

    def _taken(self) -> AppendFile:
        assert self._file is not None, "take() comes first"
        return self._file

    @staticmethod
    def _mark(file: AppendFile) -> bytes:
        return _MARK + b"%d" % file.end
