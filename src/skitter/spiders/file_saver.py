"""Stores the files of ``response.download``, off the event loop, and says what is recorded of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skitter.errors import SinkUnavailableError

if TYPE_CHECKING:
    # Few crawls have files, and a worker starts without what stores them.
    from skitter.extract.response import Response
    from skitter.sinks.contract import FileStore

AWAY_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How long a store that is unavailable is waited for; then the worker stops, and the files are fetched again some
day."""


class FileSaver:
    """Files of one worker."""

    def __init__(self, open_store: Callable[[], FileStore]) -> None:
        """``open_store``: called for the first file; it may raise SinkError."""
        self._open_store = open_store
        self._store: FileStore | None = None

    async def save(
        self, response: Response, types: Sequence[str], max_bytes: int | None, item: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Store the file of a response before its record is committed, and return the record. Raises SinkError."""
        from skitter.extract.downloads import REFUSED, STORED, Download

        file = Download(response)
        if reason := file.objection(types, max_bytes):
            return file.record(REFUSED, item, reason=reason)
        checksum = await asyncio.to_thread(lambda: file.checksum)
        path = file.name(checksum)
        await self._put(path, file.content, file.content_type)
        return file.record(STORED, item, path=path, checksum=checksum)

    async def save_picture(self, response: Response, picture: bytes, item: Mapping[str, Any]) -> dict[str, Any]:
        """Store a screenshot of a page, and return its record. Raises SinkError."""
        from skitter.extract.response import Response as PageResponse
        from skitter.model.page import Page

        page = Page(url=response.url, status=200, headers=[("content-type", "image/png")], body=picture)
        return await self.save(PageResponse(page, response.request), (), None, item)

    async def _put(self, path: str, content: bytes, content_type: str) -> None:
        for pause in (*AWAY_PAUSES_SECONDS, None):
            try:
                await asyncio.to_thread(self._put_now, path, content, content_type)
            except SinkUnavailableError:
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                return

    def _put_now(self, path: str, content: bytes, content_type: str) -> None:
        if self._store is None:
            self._store = self._open_store()
        self._store.put(path, content, content_type)
