"""The parts sink: a folder in which each file appears complete, when it is large or old enough.

The open part is a spool. It is rendered into its file by a rename when it is large or old enough, which is looked
at when more items come, and at the end. The mark names the open part: its number, its file, its spool's length.

Whoever is killed leaves a spool that the mark knows, and perhaps its file, rendered before the next part was
recorded; that file is written again under the same name. So a part's name is settled when its first items are
recorded, and its spool goes when a mark of the next part is known to be recorded.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.compression import Compression
from skitter.sinks.durable_files import AppendFile, replace, resolve_folder, sink_errors
from skitter.sinks.item_spool import Spool
from skitter.sinks.json_records import json_lines
from skitter.sinks.whole_file import FileFormat, decode_mark, spool_renderer

PART_BYTES = 128_000_000
_DIGITS = 6


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    number: int
    length: int
    token: str
    file: str = ""
    """The name of the part's file; empty until the part has items."""
    begun_at: float = 0.0


class PartNames:
    """The names of parts, from a pattern with ``{job}``, ``{worker}``, ``{date}`` and ``{part}`` in it."""

    def __init__(self, pattern: str, *, job: str, node: str) -> None:
        """``node``: the name of the machine that writes."""
        self._pattern = pattern
        self._known = {"{job}": job.replace("/", "_"), "{worker}": node.replace("/", "_")}
        self.stem = self._filled({"{part}": "part", "{date}": "date"})
        """The name stem of hidden files, the same for all parts."""
        ours = re.escape(self._filled({}))
        ours = ours.replace(re.escape("{part}"), r"(?P<number>\d+)", 1).replace(re.escape("{part}"), r"(?P=number)")
        self._ours = re.compile(ours.replace(re.escape("{date}"), r"\d{4}-\d\d-\d\d"))

    def name(self, number: int, begun_at: float) -> str:
        date = time.strftime("%Y-%m-%d", time.gmtime(begun_at))
        return self._filled({"{part}": f"{number:0{_DIGITS}}", "{date}": date})

    def number(self, name: str) -> int | None:
        """Return the number of a part; None if the file is no part."""
        found = self._ours.fullmatch(name)
        return int(found["number"]) if found else None

    def _filled(self, more: dict[str, str]) -> str:
        text = self._pattern
        for placeholder, value in (self._known | more).items():
            text = text.replace(placeholder, value)
        return text


class PartStore(Protocol):
    """A store of complete parts. Raises SinkError; after SinkUnavailableError the call is repeated."""

    def open(self) -> None:
        """Open the store; may be called again."""
        ...

    def names(self) -> Iterator[str]:
        """Iterate over the names of all files, also those that are no parts."""
        ...

    def put(self, name: str, render: Callable[[BinaryIO], None]) -> None:
        """Replace the file atomically by the output of ``render``."""
        ...

    def remove(self, name: str) -> None: ...


class FolderPartStore:
    """A local folder of parts, which also holds the spool."""

    def __init__(self, folder: Path, target: str) -> None:
        self._folder, self._target = folder, target

    def open(self) -> None:
        self._folder = resolve_folder(self._folder, self._target)

    def names(self) -> Iterator[str]:
        with sink_errors(self._target):
            yield from [path.name for path in self._folder.iterdir()]

    def put(self, name: str, render: Callable[[BinaryIO], None]) -> None:
        replace(self._folder / name, self._target, render)

    def remove(self, name: str) -> None:
        with sink_errors(self._target):
            (self._folder / name).unlink()


class PartsSink:
    """A sink that writes parts to a folder or another store, each complete when it gets its name."""

    exact = True

    def __init__(
        self,
        target: str,
        folder: Path,
        names: PartNames,
        form: FileFormat,
        compression: Compression,
        *,
        encode: Callable[[Sequence[Item]], Iterator[bytes]] = lambda items: iter((json_lines(items),)),
        part_bytes: int = PART_BYTES,
        part_seconds: float = 0.0,
        overwrite: bool,
        job: str,
        clock: Callable[[], float] = time.time,
        store: PartStore | None = None,
    ) -> None:
        """A part is closed when its rows, as they are encoded, have that many bytes, or it is that old (0: never).

        ``folder`` holds the spool, and the parts if there is no ``store``.
        """
        self.target = target
        self._folder = folder
        self._store = store or FolderPartStore(folder, target)
        self._names = names
        self._form = form
        self._compression = compression
        self._encode = encode
        self._part_bytes = part_bytes
        self._part_seconds = part_seconds
        self._overwrite = overwrite
        self._job = job
        self._clock = clock
        self._lock: AppendFile | None = None
        self._spool: Spool | None = None
        self._number = 0
        self._file = ""
        self._begun_at = 0.0
        self._previous_spool: Spool | None = None
        """The spool of the previous part, until a mark of this one is recorded."""
        self._marked_part = 0
        """The number of the part in the last mark that was returned."""

    def take(self) -> None:
        self._folder = resolve_folder(self._folder, self.target)
        self._lock = AppendFile(self._folder / f".{self._names.stem}.lock", self.target, private=True)

    def open(self, progress: SinkProgress) -> bytes:
        mark = decode_mark(progress.mark, _Mark, self.target) if progress.mark else None
        self._store.open()
        if mark is not None and not progress.closed:
            self._resume(mark)
        else:
            self._begin_anew(mark)
        return self._mark()

    def _resume(self, mark: _Mark) -> None:
        self._number, self._file, self._begun_at = mark.number, mark.file, mark.begun_at
        self._spool = Spool(self._spool_path(mark.number), self.target)
        self._spool.resume(mark.token, mark.length)
        self._spool.persist()
        # The part before was recorded as complete; one behind was never recorded.
        self._remove(number for number in self._spools() if number != mark.number)

    def _begin_anew(self, mark: _Mark | None) -> None:
        anew = self._overwrite and mark is None
        parts = dict(self._parts())
        for name in parts if anew else ():
            self._store.remove(name)
        there = 0 if anew else max(parts.values(), default=0)
        for number in self._spools():
            # Spools of an abandoned run are removed; those of another job's unfinished run are not.
            spool = Spool(self._spool_path(number), self.target)
            try:
                spool.begin(self._job, anew=anew)
            finally:
                spool.close()
            self._remove([number])
        self._begin(max(there, mark.number if mark else 0) + 1)

    def _begin(self, number: int) -> None:
        spool = Spool(self._spool_path(number), self.target)
        try:
            spool.begin(self._job, anew=True)
            spool.persist()
        except BaseException:
            spool.close()
            raise
        self._number, self._file, self._begun_at, self._spool = number, "", 0.0, spool

    def write(self, items: Sequence[Item]) -> bytes:
        self._remove_previous_spool()
        rows = self._encode(items) if items else iter(())
        # There may be none for this target, and what is wrong with an item is said before anything is done.
        if first := next(rows, b""):
            if self._is_full():
                self._roll()
            if not self._file:
                self._begun_at = self._clock()
                self._file = self._names.name(self._number, self._begun_at)
            self._opened().append(chain((first,), rows))
        return self._mark()

    def _is_full(self) -> bool:
        if not self._opened().size_bytes:
            return False
        old = self._part_seconds and self._clock() - self._begun_at >= self._part_seconds
        return bool(old) or self._opened().size_bytes >= self._part_bytes

    def _roll(self) -> None:
        # All that the spool holds is recorded: a batch comes only when the one before was.
        self._render()
        full = self._opened()
        self._begin(self._number + 1)
        self._previous_spool = full

    def _remove_previous_spool(self) -> None:
        if self._previous_spool is not None and self._marked_part == self._number:
            self._previous_spool.close(remove=True)
            self._previous_spool = None

    def finish(self) -> None:
        if self._opened().size_bytes:
            self._render()

    def close(self, *, complete: bool = False) -> None:
        if self._previous_spool is not None:
            self._previous_spool.close(remove=complete)
            self._previous_spool = None
        if self._spool is not None:
            self._spool.close(remove=complete)
            self._spool = None
        if self._lock is not None:
            self._lock.close(remove=True)
            self._lock = None

    def _render(self) -> None:
        self._store.put(self._file, spool_renderer(self._form, self._compression, self._opened()))

    def _opened(self) -> Spool:
        assert self._spool is not None, "open() comes first"
        return self._spool

    def _mark(self) -> bytes:
        self._marked_part = self._number
        spool = self._opened()
        return msgspec.json.encode(_Mark(self._number, spool.length, spool.token, self._file, self._begun_at))

    # ---- the folder

    def _parts(self) -> Iterator[tuple[str, int]]:
        for name in self._store.names():
            if (number := self._names.number(name)) is not None:
                yield name, number

    def _spool_path(self, number: int) -> Path:
        return self._folder / f".{self._names.stem}.spool-{number:0{_DIGITS}}.jsonl"

    def _spools(self) -> list[int]:
        pattern = re.compile(rf"\.{re.escape(self._names.stem)}\.spool-(\d+)\.jsonl")
        with sink_errors(self.target):
            return [int(found[1]) for path in self._folder.iterdir() if (found := pattern.fullmatch(path.name))]

    def _remove(self, spools: Sequence[int] | Iterator[int]) -> None:
        for number in spools:
            with suppress(OSError):  # it is in nobody's way
                self._spool_path(number).unlink(missing_ok=True)
