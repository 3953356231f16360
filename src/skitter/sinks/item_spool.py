"""The item spool: a hidden file of JSON lines, from which a file that must be written whole is rendered.

Its first line says whose it is, and has a token that is new with each spool: so a mark (the token and a length) is
never taken for another spool's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from skitter.errors import SinkError
from skitter.sinks.durable_files import AppendFile

_BATCH_BYTES = 1 << 20


class _Header(msgspec.Struct, frozen=True):
    """The first line of a spool."""

    job: str
    token: str
    skitter_spool: int = 1
    """The version of the spool's form."""


class Spool:
    """A hidden file of rows, locked by this process."""

    def __init__(self, path: Path, target: str) -> None:
        """Open or make the file; SinkError while another process has it. Its content stays until ``begin``."""
        self.path = path
        self.token = ""
        self._target = target
        self._file = AppendFile(path, target, private=True)
        self._start = 0

    @property
    def length(self) -> int:
        """Return the length in bytes with the header, as marks record it."""
        return self._file.end

    @property
    def size_bytes(self) -> int:
        """Return the size of the rows."""
        return self._file.end - self._start

    def begin(self, job: str, *, anew: bool = False) -> None:
        """Empty the spool for this job. Refuses the spool of another job's unfinished run, unless ``anew``."""
        header = self._header()
        if header is not None and header.job != job and not anew:
            raise SinkError(
                f"an unfinished run of another job collects results for this file: {self._target}: job {header.job}",
                hint=f"finish that job first, or choose another file with -o; remove {self.path.name} to discard them",
            )
        self.token = secrets.token_hex(8)
        self._file.cut(0)
        self._file.append(msgspec.json.encode(_Header(job, self.token)) + b"\n")
        self._start = self._file.end

    def resume(self, token: str, length: int) -> None:
        """Cut the spool back to a mark."""
        header = self._header()
        if header is None or header.token != token or self._file.end < length:
            raise SinkError(
                f"results of the unfinished run are missing or truncated: {self._target}: {self.path.name}",
                hint="restore it, or continue without it: skitter deliver --rest; or start over with --fresh",
            )
        self.token = token
        self._start = len(msgspec.json.encode(header)) + 1
        self._file.cut(length)

    def append(self, rows: bytes | Iterable[bytes]) -> None:
        """Append rows durably; when it raises, the spool ends where it did."""
        self._file.append(rows)

    def append_all(self, rows: Iterable[bytes]) -> None:
        """Append rows in batches, because each append is synced."""
        held: list[bytes] = []
        size = 0
        for row in rows:
            held.append(row)
            size += len(row)
            if size >= _BATCH_BYTES:
                self._file.append(b"".join(held))
                held, size = [], 0
        self._file.append(b"".join(held))

    def lines(self) -> Iterator[bytes]:
        """Iterate over all rows."""
        self._file.cut(self._file.end)  # a failed write may have left a tail that could not be cut off then
        with self.path.open("rb") as file:
            next(file)  # the header
            yield from file

    def persist(self) -> None:
        """Make the file durable. Until then, ``close`` removes a file that was made here."""
        self._file.persist()

    def close(self, *, remove: bool = False) -> None:
        self._file.close(remove=remove)

    def _header(self) -> _Header | None:
        first = self._file.read(0, 4096).partition(b"\n")[0]
        try:
            return msgspec.json.decode(first, type=_Header)
        except msgspec.DecodeError:
            return None  # empty, or torn when it was begun
