"""The JSON lines sink, plain and compressed: each batch is durable before its mark is returned.

The mark is the length of the file. After a crash the file may be longer: by a batch that was
written and not yet marked, or by lines that another job or a person has appended since. The next batch
tells which, because a batch that was not marked comes again; only such a batch is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from skitter.errors import SinkError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.compression import Compression
from skitter.sinks.durable_files import AppendFile, resolve_file
from skitter.sinks.json_records import json_lines

_CHUNK = 1 << 20
_MARK = b"1 "
"""The version of the mark's form."""


class LinesReader:
    """A reader of JSON lines in a file that has one compressed piece for each batch."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self.pack = compression.pack

    def peek(self, file: AppendFile, start: int, length: int) -> bytes:
        """Return at most ``length`` bytes of the lines from ``start`` on, as far as they can be read."""
        lines = b""
        with suppress(ValueError):  # torn: what was read until here counts
            for piece in self._compression.unpack(_chunks(file, start)):
                lines += piece
                if len(lines) >= length:
                    break
        # After a power cut a file may be long enough and hold zeros where data was on its way; JSON has none.
        return lines[:length].partition(b"\0")[0]

    def ends_a_line(self, file: AppendFile) -> bool:
        """Return whether the file is empty or its last line complete; ValueError for another format."""
        last = b"\n"
        if not self._compression.suffix:
            return file.size() == 0 or file.read(file.size() - 1, 1) == last
        # The whole file is read: a piece that lacks its end would make all that follow unreadable.
        for piece in self._compression.unpack(_chunks(file, 0)):
            last = piece[-1:] or last
        return last == b"\n"


def _chunks(file: AppendFile, start: int) -> Iterator[bytes]:
    while data := file.read(start, _CHUNK):
        start += len(data)
        yield data


class JsonLines:
    """The file format of a part of JSON lines."""

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        yield from file

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        out.writelines(lines())


class LinesSink:
    """A sink that appends to one file of JSON lines."""

    exact = True

    def __init__(self, target: str, compression: Compression, *, overwrite: bool) -> None:
        self.target = target
        self._layout = LinesReader(compression)
        self._overwrite = overwrite
        self._file: AppendFile | None = None
        self._tail = False
        """Whether the file has bytes after the mark that may be ours or another writer's."""

    def take(self) -> None:
        self._file = AppendFile(resolve_file(self.target), self.target)

    def open(self, progress: SinkProgress) -> bytes:
        file = self._taken()
        if progress.mark and not progress.closed:
            self._resume(file, progress.mark)
        elif self._overwrite and not progress.mark:
            file.cut(0)
        else:
            self._to_the_end(file)
        file.persist()
        return self._mark(file)

    def _resume(self, file: AppendFile, mark: bytes) -> None:
        if not mark.startswith(_MARK) or not mark[len(_MARK) :].isdigit():
            raise SinkError(
                f"the progress of this file was recorded by another version of skitter: {self.target}",
                hint="use the version that started the run, or start over with --fresh",
            )
        if not file.was_there:
            raise SinkError(
                f"the results of the unfinished run are missing: {self.target}",
                hint="restore the file, or continue without it: skitter deliver --rest; or start over with --fresh",
            )
        length = int(mark[len(_MARK) :])
        if file.size() < length:
            raise SinkError(
                f"the results of the unfinished run were truncated: {self.target}:"
                f" {length} bytes were written, {file.size()} are left",
                hint="restore the file, or start over with --fresh",
            )
        file.end, self._tail = length, file.size() > length

    def _to_the_end(self, file: AppendFile) -> None:
        try:
            whole = self._layout.ends_a_line(file)
        except ValueError as error:
            raise SinkError(
                f"cannot append to the existing results: {self.target}: {error}",
                hint="-O overwrites them; or choose another file with -o",
            ) from error
        file.end = file.size()
        if not whole:
            file.append(self._layout.pack(b"\n"))

    def write(self, items: Sequence[Item]) -> bytes:
        file = self._taken()
        if items:
            lines = json_lines(items)
            if self._tail:
                self._settle_tail(file, lines)
            file.append(self._layout.pack(lines))
        return self._mark(file)

    def _settle_tail(self, file: AppendFile, lines: bytes) -> None:
        # A batch that comes again is at least as long as it was, so a longer tail is not ours alone.
        if lines.startswith(self._layout.peek(file, file.end, len(lines) + 1)):
            file.cut(file.end)
        else:
            self._to_the_end(file)
        self._tail = False

    def finish(self) -> None:
        """Do nothing: every line was written durably by ``write``."""

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
