"""Downloaded files: which of them are stored, under which names, and the records about them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError
from skitter.model.request import Request
from skitter.model.secrets import shown_url

if TYPE_CHECKING:
    from skitter.extract.response import Response

STORED, REFUSED, FAILED = "stored", "refused", "failed"
RECORD_FIELDS = ("url", "path", "checksum", "size", "content_type", "status", "reason")
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/(?:\*|[a-z0-9!#$&^_.+-]{1,100})")
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_SUFFIXES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "image/avif": "avif",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "application/json": "json",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/xml": "xml",
    "application/xml": "xml",
    "audio/mpeg": "mp3",
    "video/mp4": "mp4",
}
"""The table of the system is not used: it differs between machines, and the same content must have one name."""
_URL_SUFFIXES = frozenset(
    """7z avi bmp bz2 csv doc docx epub flac gif gz ico jpeg jpg json jsonl md mkv mov mp3 mp4 odp ods odt ogg otf
    parquet pdf png ppt pptx rar rtf svg tar tif tiff tsv ttf txt wav webm webp woff woff2 xls xlsx xml xz
    zip zst""".split()
)
"""Suffixes of URLs that are kept for unknown types. Others are dropped, so that a site cannot choose a file name that
a web server would execute."""
_SAYS_NOTHING = ("", "application/octet-stream", "binary/octet-stream", "application/x-download")


def checked_options(types: Any, max_bytes: Any, item: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the keyword arguments for ``Spider.save_file``. Raises UsageError for invalid ones."""
    listed = [types] if isinstance(types, str) else list(types)
    for each in listed:
        if not isinstance(each, str) or not _TYPE.fullmatch(each):
            raise UsageError(f"invalid content type: {each!r:.100}", hint='as in types=["image/*", "application/pdf"]')
    if max_bytes is not None and (isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1):
        raise UsageError(
            f"max_bytes must be a whole number from 1: {max_bytes!r:.50}", hint="as in max_bytes=5_000_000"
        )
    fields = dict(item or {})
    if taken := sorted(set(RECORD_FIELDS).intersection(fields)):
        raise UsageError(
            f"the record of a file already has this field: {taken[0]}", hint="give it another name in item"
        )
    given = {"types": listed, "max_bytes": max_bytes, "item": fields}
    return {name: value for name, value in given.items() if value}


class Download:
    """Downloaded file."""

    def __init__(self, response: Response) -> None:
        self.content = response.body
        self._request = response.request
        self.content_type = _content_type(response.headers.get("content-type") or "", response.body)

    def objection(self, types: Sequence[str], max_bytes: int | None) -> str:
        """Return why the file must not be stored, or an empty string if it may be."""
        if max_bytes is not None and len(self.content) > max_bytes:
            return f"larger than {max_bytes} bytes"
        if not self.content:
            return "empty"
        family = self.content_type.partition("/")[0] + "/*"
        if types and self.content_type not in types and family not in types:
            return f"another content type: {self.content_type or 'unknown'}"
        return ""

    @property
    def checksum(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()

    def name(self, checksum: str) -> str:
        """Return the path under which it is stored."""
        suffix = _SUFFIXES.get(self.content_type, "")
        if not suffix:
            path = self._request.url.partition("#")[0].partition("?")[0]
            _, dot, named = path.rpartition("/")[2].rpartition(".")
            suffix = named.lower() if dot and named.lower() in _URL_SUFFIXES else ""
        return f"{checksum[:2]}/{checksum}{'.' if suffix else ''}{suffix}"

    def record(
        self, status: str, item: Mapping[str, Any], *, path: str = "", checksum: str = "", reason: str = ""
    ) -> dict[str, Any]:
        """Return the record for the sinks."""
        told = (
            url_of(self._request),
            path or None,
            checksum or None,
            len(self.content),
            self.content_type,
            status,
            reason,
        )
        return {**item, **dict(zip(RECORD_FIELDS, told, strict=True))}


def failed_record(request: Request, reason: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a file that could not be downloaded."""
    return {**item, **dict(zip(RECORD_FIELDS, (url_of(request), None, None, 0, "", FAILED, reason), strict=True))}


def url_of(request: Request) -> str:
    """Return the URL that the page links to, before redirects."""
    return shown_url(request.chain[0] if request.chain else request.url)


def _content_type(header: str, body: bytes) -> str:
    """Return the type detected from the content, if it is known, or else the type that the server sent.

    Many servers answer a request for a missing image with status 200 and an HTML page.
    """
    for start, found in _SIGNATURES:
        if body.startswith(start):
            return found
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    said = header.partition(";")[0].strip().lower()
    start = body[:512].lstrip().lower()
    if said.startswith(("image/", "audio/", "video/", "application/pdf")) and start.startswith(
        (b"<!doctype html", b"<html")
    ):
        return "text/html"
    return "" if said in _SAYS_NOTHING else said
