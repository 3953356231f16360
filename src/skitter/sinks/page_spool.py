"""Pages written ahead, in the worker: records go to a file of the worker's own, and the commit refers to them.

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
from skitter.sinks.durable_files import AppendFile, made_folder, mapped
from skitter.sinks.warc import date_of, new_id, request_record, response_record, sha1, target_uri

FILE_BYTES = 64 << 20
_LARGE = 200_000
"""A body of this size is packed beside the loop: it takes some milliseconds."""
_PACKING = Gzip(level=4)
"""Two thirds of the time of level 6 and 3 % more bytes, for pages of 30 KB."""


class _File:
    """One file, and what is on its way to it."""

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
        """With what is on its way."""

    def flush(self, data: bytes) -> None:
        if not self._is_kept:
            self._file.keep()
            self._is_kept = True
        self._file.append(data)

    def tell_total(self) -> None:
        """Nothing more will be committed."""
        if not self._was_there:
            with mapped(str(self.path)):
                unfinished = self.path.with_suffix(".new")
                unfinished.write_text(str(self.committed))
                unfinished.replace(total_of(self.path))

    def close(self) -> None:
        self._file.close()


class WrittenAhead:
    """The worker's side of an archive (``contract.Archive``)."""

    def __init__(
        self, folder: Path, worker: str, *, node: str, sent: Mapping[str, str], file_bytes: int = FILE_BYTES
    ) -> None:
        """``sent``: the headers of every request."""
        self._folder = made_folder(folder, str(folder), private=True)
        self._worker = re.sub(r"[^\w.-]", "_", worker)
        self._node = node
        self._sent = sent
        self._file_bytes = file_bytes
        self._number = 0
        self._files: list[_File] = []
        """The one that grows is the last."""
        self._turn = asyncio.Lock()

    async def add(self, epoch: int, request: Request, page: Page) -> bytes:
        """Take a page; what to commit for it."""
        date, response_id = date_of(page.started_at), new_id()

        def packed() -> tuple[bytes, bytes]:
            about = request_record(request, page, self._sent, date=date, response_id=response_id)
            return _PACKING.pack(about), _PACKING.pack(response_record(page, date=date, response_id=response_id))

        asked, answered = await asyncio.to_thread(packed) if len(page.body) > _LARGE else packed()
        # From here on without a pause: the place is taken and told at once.
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
        """Make everything durable that was added. ``held``: the leases that may still be committed."""
        async with self._turn:
            for file in self._files.copy():
                # Before the rest is awaited: what is added meanwhile is of leases that are held.
                file.open = {epoch for epoch in file.open if epoch in held}
                if file.waiting:
                    data, file.waiting = b"".join(file.waiting), []
                    await asyncio.to_thread(file.flush, data)
            for file in self._files[:-1]:
                if not file.open and not file.waiting:
                    file.tell_total()
                    file.close()
                    self._files.remove(file)

    def committed(self, epoch: int) -> None:
        """The page of this lease is in the frontier."""
        for file in self._files:
            if epoch in file.open:
                file.open.remove(epoch)
                file.committed += 1

    def close(self) -> None:
        """Let the files go; they stay."""
        while self._files:
            self._files.pop().close()


def total_of(file: Path) -> Path:
    """Where it is written how many pages of a file were committed."""
    return file.with_suffix(".total")


def remove_if_used_up(file: Path, pages: int) -> bool:
    """Remove a file of which so many pages are in the archive, if there are no more; whether it is gone."""
    with suppress(OSError, ValueError):
        if int(total_of(file).read_text()) <= pages:
            file.unlink(missing_ok=True)
            total_of(file).unlink(missing_ok=True)
            return True
    return False
