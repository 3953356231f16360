"""The page spool of a worker: page records go to a file of the worker's own, and the commit refers to them.

When a file is large the next one begins. Once it is known of each page of a file whether it was committed, their
number is written beside it (``.total``), and the sink removes both when it has written that many. So nothing depends on
the order in which a frontier hands references out. Files of a worker that died stay until the run is complete.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path

from skitter.model.archive_ref import Archived
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.sinks.compression import Gzip
from skitter.sinks.durable_files import AppendFile, resolve_folder, sink_errors
from skitter.sinks.warc_records import date_of, new_id, request_record, response_record, sha1, target_uri

FILE_BYTES = 64 << 20
_LARGE = 200_000
"""Bodies of this size are compressed in a thread, because it takes some milliseconds."""
_PACKING = Gzip(level=4)
"""Two thirds of the time of level 6 and 3 % more bytes, for pages of 30 KB."""


class _File:
    """One spool file with its unwritten data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting: list[bytes] = []
        self.open: set[int] = set()
        """The epochs of the leases whose pages are here and may still be committed."""
        self.committed = 0
        self._is_kept = False
        self._file = AppendFile(path, str(path), private=True)
        self._was_there = self._file.was_there
        # Not 0: a process may work for a job twice, and both times under the same name.
        self.end = self._file.end
        """The end of the file including unwritten data."""

    def flush(self, data: bytes) -> None:
        if not self._is_kept:
            self._file.persist()
            self._is_kept = True
        self._file.append(data)

    def write_total(self) -> None:
        """Write the number of committed pages beside the file: no more will be committed."""
        if not self._was_there:
            with sink_errors(str(self.path)):
                unfinished = self.path.with_suffix(".new")
                unfinished.write_text(str(self.committed))
                unfinished.replace(total_of(self.path))

    def close(self) -> None:
        self._file.close()


class PageSpool:
    """The page spool of one worker, which implements ``contract.Archive``."""

    def __init__(
        self, folder: Path, worker: str, *, node: str, sent: Mapping[str, str], file_bytes: int = FILE_BYTES
    ) -> None:
        """Open the spool folder. ``sent`` are the headers of every request."""
        self._folder = resolve_folder(folder, str(folder), private=True)
        self._worker = re.sub(r"[^\w.-]", "_", worker)
        self._node = node
        self._sent = sent
        self._file_bytes = file_bytes
        self._number = 0
        self._files: list[_File] = []
        """The spool files; the last one is appended to."""
        self._turn = asyncio.Lock()

    async def add(self, epoch: int, request: Request, page: Page) -> bytes:
        """Spool a page, and return the record of the item to commit for it."""
        date, response_id = date_of(page.started_at), new_id()

        def packed() -> tuple[bytes, bytes]:
            about = request_record(request, page, self._sent, date=date, response_id=response_id)
            return _PACKING.pack(about), _PACKING.pack(response_record(page, date=date, response_id=response_id))

        asked, answered = await asyncio.to_thread(packed) if len(page.body) > _LARGE else packed()
        # No await from here on: the offset is reserved and returned at once.
        file = self._growing()
        reference = Archived(
            node=self._node,
            file=str(file.path),
            offset=file.end,
            request_bytes=len(asked),
            response_bytes=len(answered),
            url=target_uri(page),
            date=date,
            record_id=response_id,
            payload_digest=sha1(page.body) if page.body else b"",
        )
        file.waiting += [asked, answered]
        file.end += len(asked) + len(answered)
        file.open.add(epoch)
        return reference.encoded()

    def _growing(self) -> _File:
        if not self._files or self._files[-1].end >= self._file_bytes:
            self._number += 1
            self._files.append(_File(self._folder / f"{self._worker}-{self._number:06}.warc.gz"))
        return self._files[-1]

    async def sync(self, held: Container[int]) -> None:
        """Make all added pages durable. ``held`` are the leases that may still be committed."""
        async with self._turn:
            for file in self._files.copy():
                # Before the rest is awaited: what is added meanwhile is of leases that are held.
                file.open = {epoch for epoch in file.open if epoch in held}
                if file.waiting:
                    data, file.waiting = b"".join(file.waiting), []
                    await asyncio.to_thread(file.flush, data)
            for file in self._files[:-1]:
                if not file.open and not file.waiting:
                    file.write_total()
                    file.close()
                    self._files.remove(file)

    def committed(self, epoch: int) -> None:
        """Note that the page of this lease is committed."""
        for file in self._files:
            if epoch in file.open:
                file.open.remove(epoch)
                file.committed += 1

    def close(self) -> None:
        """Close the files without removing them."""
        while self._files:
            self._files.pop().close()


def total_of(file: Path) -> Path:
    """Return the path of the file with the number of committed pages of a spool file."""
    return file.with_suffix(".total")


def remove_if_used_up(file: Path, pages: int) -> bool:
    """Remove a spool file whose ``pages`` archived pages are all of it; return whether it was removed."""
    with suppress(OSError, ValueError):
        if int(total_of(file).read_text()) <= pages:
            file.unlink(missing_ok=True)
            total_of(file).unlink(missing_ok=True)
            return True
    return False
