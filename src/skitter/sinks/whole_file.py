"""Files that are written whole, ``.json``, ``.csv`` and ``.parquet``: a spool beside the target, rendered at the end.

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
from skitter.model.job import Item, SinkProgress
from skitter.sinks.compression import Packing, unpacked
from skitter.sinks.durable_files import in_place, mapped, replace
from skitter.sinks.item_spool import Spool
from skitter.sinks.json_records import json_lines

M = TypeVar("M", bound=msgspec.Struct)


class Form(Protocol):
    """What the target looks like."""

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        """The rows of an existing target as lines for the spool; ValueError when it is something else.

        A file that is packed can only be read from front to back.
        """
        ...

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        """The whole target; ``lines()`` starts reading the spool anew."""
        ...


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    length: int
    token: str


class RenderedSink:
    """A file that is complete when the run is, and is not touched before."""

    exact = True

    def __init__(self, target: str, form: Form, packing: Packing, *, overwrite: bool, job: str) -> None:
        self.target = target
        self._form = form
        self._packing = packing
        self._overwrite = overwrite
        self._job = job
        self._path = Path()
        self._spool: Spool | None = None

    def take(self) -> None:
        self._path = in_place(self.target)
        self._spool = Spool(self._path.with_name(f".{self._path.name}.spool.jsonl"), self.target)

    def open(self, progress: SinkProgress) -> bytes:
        spool = self._taken()
        if progress.mark and not progress.closed:
            mark = decoded(progress.mark, _Mark, self.target)
            spool.resume(mark.token, mark.length)
        else:
            # Done anew if it is interrupted.
            anew = self._overwrite and not progress.mark
            spool.begin(self._job, anew=anew)
            if not anew and self._path.exists():
                self._read_back(spool)
        spool.keep()
        return self._mark(spool)

    def _read_back(self, spool: Spool) -> None:
        with mapped(self.target):
            try:
                spool.append_all(self._rows())
            except ValueError as error:
                raise SinkError(
                    f"cannot add to the results that are there: {self.target}: {error}",
                    hint="-O overwrites them; or give another file with -o",
                ) from error

    def _rows(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            yield from self._form.read(unpacked(file, self._packing) if self._packing.suffix else file)

    def write(self, items: Sequence[Item]) -> bytes:
        spool = self._taken()
        if items:
            spool.append(json_lines(items))
        return self._mark(spool)

    def finish(self) -> None:
        replace(self._path, self.target, rendering(self._form, self._packing, self._taken()))

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


def rendering(form: Form, packing: Packing, spool: Spool) -> Callable[[BinaryIO], None]:
    """What writes the whole target, with what the spool holds, into a file."""

    def into(out: BinaryIO) -> None:
        with packing.packed(out) as file:
            form.render(spool.lines, file)

    return into


def decoded(mark: bytes, kind: type[M], target: str) -> M:
    """What a sink recorded earlier."""
    try:
        return msgspec.json.decode(mark, type=kind)
    except msgspec.DecodeError as error:
        raise SinkError(
            f"the progress of this file was recorded by another skitter: {target}",
            hint="use the version that began the run, or start again from nothing with --fresh",
        ) from error
