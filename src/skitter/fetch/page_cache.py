"""A cache of answers on disk, before a fetcher: for development, where the same pages are parsed again and again.

The key is method, URL and body of a request. Several workers and crawls may share a folder: a file is written beside
its place and renamed, and one that cannot be read counts as absent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from skitter import private_files
from skitter.errors import SettingsError
from skitter.fetch.contract import Fetcher, FetchRequest, RendersPages, slow_transfers_of
from skitter.model.page import Page
from skitter.policy.redirects import REDIRECT_STATUSES

_VERSION = b"\x01"
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Page)
_SUFFIX = ".page"
log = logging.getLogger("skitter.fetch")


class PageCache:
    """Answers in a folder, a file for each. Its methods block: they are for threads."""

    def __init__(self, folder: Path, max_age_seconds: float | None = None) -> None:
        """Make the folder if it is not there; SettingsError if it cannot be written to. None: answers do not age."""
        self._folder = folder
        self._max_age_seconds = max_age_seconds
        try:
            private_files.make_folder(folder)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(13, "not writable")
        except OSError as error:
            raise SettingsError(
                f"the cache folder cannot be used: cache_dir={folder}: {error.strerror or error}",
                hint="choose another folder",
            ) from error
        self._warned = False

    def get(self, request: FetchRequest, now: float) -> Page | None:
        """Return the answer to an equal request, or None if there is none or it is too old."""
        try:
            stored = self._path(request).read_bytes()
            if stored[:1] != _VERSION:
                return None
            page = _DECODER.decode(stored[1:])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            # Not there, damaged, or of another version: it is fetched, and replaced.
            return None
        if self._max_age_seconds is not None and not 0 <= now - page.started_at <= self._max_age_seconds:
            return None
        page.cached, page.wire_bytes, page.seconds = True, 0, 0.0
        return page

    def put(self, request: FetchRequest, page: Page) -> None:
        """Keep an answer. A disk that is full is told once, and is no reason to lose the page."""
        path = self._path(request)
        temporary = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
        try:
            path.parent.mkdir(mode=private_files.FOLDER_MODE, exist_ok=True)
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, private_files.FILE_MODE
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(_VERSION + _ENCODER.encode(msgspec.structs.replace(page, cookies=())))
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            if not self._warned:
                self._warned = True
                log.warning("pages cannot be cached: %s: %s", self._folder, error.strerror or error)

    def _path(self, request: FetchRequest) -> Path:
        parts = [request.method.upper().encode(), request.url.encode(), request.body]
        if request.render:
            parts += [b"render", msgspec.msgpack.encode(request.actions)]
        key = hashlib.blake2b(b"".join(b"%d:%b" % (len(part), part) for part in parts), digest_size=16).hexdigest()
        return self._folder / key[:2] / f"{key[2:]}{_SUFFIX}"


def is_kept(request: FetchRequest, page: Page) -> bool:
    """Return whether an answer goes into the cache: a success or a redirect, whole."""
    if request.truncate_bytes is not None and len(page.body) >= request.truncate_bytes:
        return False
    if page.status in REDIRECT_STATUSES:
        return page.header("location") is not None
    return 200 <= page.status < 300 and page.status != 206


class _HeadersSeen:
    """Remembers what ``on_headers`` has said: a page whose body nobody wanted comes without it, and is not kept."""

    def __init__(self, on_headers: Callable[[Page], bool]) -> None:
        self._on_headers = on_headers
        self.body_wanted = True

    def __call__(self, page: Page) -> bool:
        self.body_wanted = self._on_headers(page)
        return self.body_wanted


class CachingFetcher:
    """A fetcher that asks a cache first."""

    def __init__(self, fetcher: Fetcher, cache: PageCache) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self.slow_transfers = slow_transfers_of(fetcher)
        if isinstance(fetcher, RendersPages):
            self.watch_room = fetcher.watch_room

    async def fetch(self, request: FetchRequest) -> Page:
        """Return the kept answer, whose ``cached`` is true, or fetch it."""
        page = await asyncio.to_thread(self._cache.get, request, time.time())
        if page is not None:
            return page
        headers = _HeadersSeen(request.on_headers) if request.on_headers is not None else None
        page = await self._fetcher.fetch(msgspec.structs.replace(request, on_headers=headers))
        if is_kept(request, page) and (headers is None or headers.body_wanted):
            await asyncio.to_thread(self._cache.put, request, page)
        return page

    async def close(self) -> None:
        await self._fetcher.close()
