"""Files that can only be written whole, ``.json`` and ``.csv``: a spool beside the target, rendered at the end.

The spool is a hidden file of JSON lines. Its first line says whose it is; then come the rows that
the target had before (``-o`` appends), then the items. The mark is the spool's length and its
token. ``finish`` renders the spool into the target by a rename, as often as it is asked; the spool
goes when the frontier has recorded that the target is complete.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from skitter.errors import SinkError
from skitter.model.job import Item, SinkProgress
from skitter.sinks.disk import AppendFile, in_place, mapped, replace
from skitter.sinks.packing import Packing, unpacked
from skitter.sinks.records import json_lines

_BATCH_BYTES = 1 << 20


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


class _Header(msgspec.Struct, frozen=True):
    """The first line of a spool."""

    job: str
    token: str
    """New with each spool, so that a mark is never taken for another spool's."""
    skitter_spool: int = 1
    """The version of the spool's form."""


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
        self._token = ""
        self._spool: AppendFile | None = None

    def take(self) -> None:
        self._path = in_place(self.target)
        self._spool = AppendFile(self._path.with_name(f".{self._path.name}.spool.jsonl"), self.target)

    def open(self, progress: SinkProgress) -> bytes:
        spool = self._taken()
        if progress.mark and not progress.closed:
            self._resume(spool, progress.mark)
        else:
            self._begin(spool, new_run=not progress.mark)
        spool.keep()
        return self._mark(spool)

    def _resume(self, spool: AppendFile, mark: bytes) -> None:
        try:
            committed = msgspec.json.decode(mark, type=_Mark)
        except msgspec.DecodeError as error:
            raise SinkError(
                f"the progress of this file was recorded by another skitter: {self.target}",
                hint="use the version that began the run, or start again from nothing with --fresh",
            ) from error
        header = self._header(spool)
        if header is None or header.token != committed.token or spool.end < committed.length:
            raise SinkError(
                f"what the unfinished run has collected is gone or was cut: {self.target}: {spool.path.name}",
                hint="put it back, or go on without it: skitter drain --rest; or start from nothing with --fresh",
            )
        self._token = committed.token
        spool.cut(committed.length)

    def _begin(self, spool: AppendFile, *, new_run: bool) -> None:
        """An empty spool, or one with the rows that are there. Done anew if it is interrupted."""
        anew = self._overwrite and new_run
        header = self._header(spool)
        if header is not None and header.job != self._job and not anew:
            raise SinkError(
                f"an unfinished run of another job collects results for this file: {self.target}: job {header.job}",
                hint=f"finish that job first, or give another file with -o; remove {spool.path.name} to give them up",
            )
        self._token = secrets.token_hex(8)
        spool.cut(0)
        spool.append(msgspec.json.encode(_Header(self._job, self._token)) + b"\n")
        if anew or not self._path.exists():
            return
        with mapped(self.target):
            try:
                for batch in _batches(self._rows()):
                    spool.append(batch)
            except ValueError as error:
                raise SinkError(
                    f"cannot add to the results that are there: {self.target}: {error}",
                    hint="-O overwrites them; or give another file with -o",
                ) from error

    def _rows(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            yield from self._form.read(unpacked(file, self._packing) if self._packing.suffix else file)

    @staticmethod
    def _header(spool: AppendFile) -> _Header | None:
        first = spool.read(0, 4096).partition(b"\n")[0]
        try:
            return msgspec.json.decode(first, type=_Header)
        except msgspec.DecodeError:
            return None  # empty, or torn when it was begun

    def write(self, items: Sequence[Item]) -> bytes:
        spool = self._taken()
        if items:
            spool.append(json_lines(items))
        return self._mark(spool)

    def finish(self) -> None:
        spool = self._taken()
        spool.cut(spool.end)  # a failed write may have left a tail that could not be cut off then

        def lines() -> Iterator[bytes]:
            with spool.path.open("rb") as file:
                next(file)  # the header
                yield from file

        def render(out: BinaryIO) -> None:
            with self._packing.packed(out) as file:
                self._form.render(lines, file)

        replace(self._path, self.target, render)

    def close(self, *, complete: bool = False) -> None:
        # If the spool stays because the process dies before, it is rebuilt from the target the next time,
        # or refused to another job; nothing is lost.
        if self._spool is not None:
            self._spool.close(remove=complete)
            self._spool = None

    def _taken(self) -> AppendFile:
        assert self._spool is not None, "take() comes first"
        return self._spool

    def _mark(self, spool: AppendFile) -> bytes:
        return msgspec.json.encode(_Mark(spool.end, self._token))


def _batches(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Appends are synced, so lines go in batches."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _BATCH_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)
