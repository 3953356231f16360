"""Recorded pages: a folder with two readable files for each page, a description and the body.

``NAME.page.json`` has the method and URL of the request, and the status and headers of the response. The body is stored
beside it with the suffix of its type, so that an editor or a browser can open it. Each combination of method, URL and
body of a request has one answer.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from skitter.errors import UsageError
from skitter.extract.content_type import kind_of
from skitter.extract.response import Response
from skitter.fetch.contract import Fetcher, FetchRequest
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.model.secrets import shown_url
from skitter.testing.given_pages import is_robots

T = TypeVar("T")
FORMAT: Final = 1
DESCRIPTION: Final = ".page.json"
_LEFT_OUT = ("set-cookie", "set-cookie2", "content-encoding", "content-length", "transfer-encoding")
"""Headers that are secret, or that no longer apply to the body because it is stored decoded."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.]+")
_SUFFIXES = {"html": ".html", "xml": ".xml", "other": ".bin"}


class RecordedPage(msgspec.Struct, kw_only=True):
    """Content of ``NAME.page.json`` in a folder of recorded pages."""

    format: int
    """Version of this format."""
    method: str = "GET"
    url: str
    """URL of the request, without a password."""
    request_body: str = ""
    """Digest of the body of the request; empty if it had none."""
    status: int = 200
    headers: list[str] = []
    """Header lines such as ``content-type: text/html``."""
    body: str = ""
    """Name of the file with the body, in the same folder; empty if there was no body."""


class RecordingFetcher:
    """Fetcher that delegates to another fetcher and writes its answers to a folder."""

    def __init__(self, fetcher: Fetcher, folder: Path) -> None:
        self._fetcher = fetcher
        self._folder = folder
        self.requests: list[FetchRequest] = []
        self.missing: list[str] = []
        """Always empty: responses such as 404 are recorded like all others."""
        self.error: Exception | None = None
        """Set if the folder cannot be written."""
        _try(lambda: folder.mkdir(parents=True, exist_ok=True), folder)

    async def fetch(self, request: FetchRequest) -> Page:
        if not is_robots(request):
            self.requests.append(request)
        page = await self._fetcher.fetch(request)
        try:
            _try(lambda: _write(self._folder, request, page), self._folder)
        except UsageError as error:
            self.error = error
            raise
        return page

    async def close(self) -> None:
        """Close the other fetcher."""
        await self._fetcher.close()


def recorded_answers(folder: Path) -> Callable[[FetchRequest], Response | None]:
    """Return a function that looks up the answers in a folder of recorded pages.

    Raises UsageError if the folder does not exist or one of its files cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(
            f"no recorded pages: {folder}", hint="record them once: skitter.testing.record, or pytest --skitter-record"
        )
    found = {}
    for file in sorted(folder.glob(f"*{DESCRIPTION}")):
        recorded = _read(file)
        found[recorded.method, recorded.url, recorded.request_body] = (recorded, file.parent / recorded.body)

    def answer(request: FetchRequest) -> Response | None:
        if (known := found.get(_key(request))) is None:
            return None
        recorded, body = known
        content = _try(body.read_bytes, body) if recorded.body else b""
        headers = [(name.strip().lower(), value.strip()) for name, _, value in map(_parted, recorded.headers)]
        page = Page(url=request.url, status=recorded.status, headers=headers, body=content)
        return Response(page, Request(request.url))

    return answer


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _key(request: FetchRequest) -> tuple[str, str, str]:
    return request.method, shown_url(request.url), _digest(request.body) if request.body else ""


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _read(file: Path) -> RecordedPage:
    try:
        recorded = msgspec.json.decode(_try(file.read_bytes, file), type=RecordedPage)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"not a recorded page: {file}: {error}", hint="remove it, and record the page again"
        ) from error
    if recorded.format != FORMAT:
        raise UsageError(
            f"recorded in another format: {file}: {recorded.format}, and this is {FORMAT}",
            hint="record the pages again",
        )
    if recorded.body and Path(recorded.body).name != recorded.body:
        raise UsageError(
            f"the body of a recorded page lies elsewhere: {file}: {recorded.body}", hint="it lies beside it"
        )
    return recorded


def _write(folder: Path, request: FetchRequest, page: Page) -> None:
    method, url, request_body = _key(request)
    parts = urlsplit(url)
    slug = _NOT_IN_NAMES.sub("-", f"{parts.hostname}{parts.path}").strip("-.")[:80]
    name = f"{slug}-{_digest(f'{method} {url} {request_body}'.encode())[:8]}"
    headers = [f"{key}: {value}" for key, value in page.headers if key not in _LEFT_OUT]
    body = name + _suffix(page) if page.body else ""
    if body:
        _replace(folder / body, page.body)
    recorded = RecordedPage(
        format=FORMAT, method=method, url=url, request_body=request_body, status=page.status, headers=headers, body=body
    )
    # Written last, so that a page with a description is complete.
    _replace(folder / f"{name}{DESCRIPTION}", msgspec.json.format(msgspec.json.encode(recorded), indent=2) + b"\n")


def _suffix(page: Page) -> str:
    content_type = page.header("content-type") or ""
    if "json" in content_type:
        return ".json"
    if content_type.startswith("text/plain"):
        return ".txt"
    return _SUFFIXES[kind_of(content_type, page.body)]


def _replace(path: Path, content: bytes) -> None:
    """Replace a file in one step, because several tests may record the same page at a time."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_bytes(content)
    new.replace(path)


def _try(call: Callable[[], T], path: Path) -> T:
    try:
        return call()
    except OSError as error:
        raise UsageError(
            f"recorded pages: {path}: {error.strerror}", hint="it is a folder that you may write"
        ) from error
