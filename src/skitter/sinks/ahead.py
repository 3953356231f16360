"""Pages written ahead, in the worker: records go to a file of the worker's own, and the commit refers to them.

Files are numbered, and the worker begins file n + 2 only when every page of file n was committed or given up. So the
sink knows: once it has written a page of file n + 2, nobody will ask for file n.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path

from skitter.model.archive import Archived
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.sinks.disk import AppendFile, made_folder
from skitter.sinks.packing import Gzip
from skitter.sinks.warc import date_of, new_id, request_record, response_record, sha1, target_uri

FILE_BYTES = 64 << 20
_LARGE = 200_000
"""A body of this size is packed beside the loop: it takes some milliseconds."""
_NAME = re.compile(r"(.+)-(\d{6,})\.warc\.gz")
_PACKING = Gzip(level=4)
"""Two thirds of the time of level 6 and 3 % more bytes, for pages of 30 KB."""


class _File:
    """One file, and what is on its way to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting: list[bytes] = []
        self.epochs: set[int] = set()
        """Of the leases whose pages are here and may still be committed."""
        self._is_kept = False
        self._file = AppendFile(path, str(path))
        # Not 0: a process may work for a job twice, and both times under the same name.
        self.end = self._file.end
        """With what is on its way."""

    def flush(self, data: bytes) -> None:
        if not self._is_kept:
            self._file.keep()
            self._is_kept = True
        self._file.append(data)

    def close(self) -> None:
        self._file.close()


class WrittenAhead:
    """The worker's side of an archive (``contract.Archive``)."""

    def __init__(
        self, folder: Path, worker: str, *, node: str, sent: Mapping[str, str], file_bytes: int = FILE_BYTES
    ) -> None:
        """``sent``: the headers of every request."""
        self._folder = made_folder(folder, str(folder))
        self._worker = re.sub(r"[^\w.-]", "_", worker)
        self._node = node
        self._sent = sent
        self._file_bytes = file_bytes
        self._number = 0
        self._files: list[_File] = []
        """The one that grows is the last, and there is at most one before it."""
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
        file.epochs.add(epoch)
        return reference.encoded()

    def _growing(self) -> _File:
        files = self._files
        if not files or (files[-1].end >= self._file_bytes and (len(files) == 1 or not files[0].epochs)):
            self._number += 1
            files.append(_File(self._folder / f"{self._worker}-{self._number:06}.warc.gz"))
            while len(files) > 2:
                files.pop(0).close()
        return files[-1]

    async def sync(self, held: Container[int]) -> None:
        """Make everything durable that was added. ``held``: the leases that may still be committed."""
        async with self._turn:
            for file in self._files.copy():
                if file.waiting:
                    data, file.waiting = b"".join(file.waiting), []
                    await asyncio.to_thread(file.flush, data)
            for file in self._files:
                file.epochs = {epoch for epoch in file.epochs if epoch in held}

    def close(self) -> None:
        """Let the files go; they stay."""
        while self._files:
            self._files.pop().close()


def used_up(file: str) -> list[Path]:
    """The files that nobody will ask for, now that a page of this one is in the archive."""
    path = Path(file)
    found = _NAME.fullmatch(path.name)
    if found is None:
        return []
    earlier = []
    with suppress(OSError):
        for name in os.listdir(path.parent):  # noqa: PTH208  names are all that is wanted
            other = _NAME.fullmatch(name)
            if other and other[1] == found[1] and int(other[2]) + 2 <= int(found[2]):
                earlier.append(path.with_name(name))
    return earlier
