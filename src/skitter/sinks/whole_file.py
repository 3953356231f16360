"""The sink for files that are written whole (``.json``, ``.csv``, ``.parquet``): a spool rendered at the end.

In the spool come first the rows that the target had before (``-o`` appends), then the items. The mark is
the spool's length and its token. ``finish`` renders the spool into the target by a rename, as often as it
is asked; the spool goes when the frontier has recorded that the target is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import msgspec

from skitter.errors import SinkError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.compression import Compression, unpacked
from skitter.sinks.durable_files import replace, resolve_file, sink_errors
from skitter.sinks.item_spool import Spool
from skitter.sinks.json_records import json_lines

M = TypeVar("M", bound=msgspec.Struct)


class FileFormat(Protocol):
    """The interface of a file format."""

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        """Read the rows of an existing target as lines for the spool; ValueError for another format.

        A file that is packed can only be read from front to back.
        """
        ...

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        """Write the whole target; each call of ``lines()`` reads the spool from the start."""
        ...


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    length: int
    token: str


class WholeFileSink:
    """A sink whose file is written when the run is complete, and not touched before."""

    exact = True

    def __init__(self, target: str, form: FileFormat, compression: Compression, *, overwrite: bool, job: str) -> None:
        self.target = target
        self._form = form
        self._compression = compression
        self._overwrite = overwrite
        self._job = job
        self._path = Path()
        self._spool: Spool | None = None

    def take(self) -> None:
        self._path = resolve_file(self.target)
        self._spool = Spool(self._path.with_name(f".{self._path.name}.spool.jsonl"), self.target)

    def open(self, progress: SinkProgress) -> bytes:
        spool = self._taken()
        if progress.mark and not progress.closed:
            mark = decode_mark(progress.mark, _Mark, self.target)
            spool.resume(mark.token, mark.length)
        else:
            # Done anew if it is interrupted.
            anew = self._overwrite and not progress.mark
            spool.begin(self._job, anew=anew)
            if not anew and self._path.exists():
                self._read_back(spool)
        spool.persist()
        return self._mark(spool)

    def _read_back(self, spool: Spool) -> None:
        with sink_errors(self.target):
            try:
                spool.append_all(self._rows())
            except ValueError as error:
                raise SinkError(
                    f"cannot append to the existing results: {self.target}: {error}",
                    hint="-O overwrites them; or choose another file with -o",
                ) from error

    def _rows(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            yield from self._form.read(unpacked(file, self._compression) if self._compression.suffix else file)

    def write(self, items: Sequence[Item]) -> bytes:
        spool = self._taken()
        if items:
            spool.append(json_lines(items))
        return self._mark(spool)

    def finish(self) -> None:
        replace(self._path, self.target, spool_renderer(self._form, self._compression, self._taken()))

    def close(self, *, complete: bool = False) -> None:
        # If the spool stays because the process dies before, it is rebuilt from the target the next time,
        # or refused to another job; nothing is lost.
        if self._spool is not None:
            self._spool.close(remove=complete)
            self._spool = None

    def _taken(self) -> Spool:
        assert self._spool is not None, "take() comes first"
        return self._spool

    @staticmethod
    def _mark(spool: Spool) -> bytes:
        return msgspec.json.encode(_Mark(spool.length, spool.token))


def spool_renderer(form: FileFormat, compression: Compression, spool: Spool) -> Callable[[BinaryIO], None]:
    """Return a function that writes the content of the spool to a file in this format."""

    def into(out: BinaryIO) -> None:
        with compression.packed(out) as file:
            form.render(spool.lines, file)

    return into


def decode_mark(mark: bytes, kind: type[M], target: str) -> M:
    """Decode a mark that a sink recorded earlier."""
    try:
        return msgspec.json.decode(mark, type=kind)
    except msgspec.DecodeError as error:
        raise SinkError(
            f"the progress of this file was recorded by another version of skitter: {target}",
            hint="use the version that started the run, or start over with --fresh",
        ) from error
