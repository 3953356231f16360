"""Sitemaps: the URLs that a site lists of itself, in any of the forms that sitemaps.org names.

XML (``urlset`` and ``sitemapindex``), RSS, Atom or plain text, gzipped or not. A file is read in pieces and no
tree is built, so a reader holds a few URLs at a time, whatever the size. Nothing here joins or judges URLs.

A DTD is refused before anything of it is read: it is where entities come from, and no sitemap needs one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple
from xml.parsers import expat

from skitter.errors import SitemapError
from skitter.model.url import MAX_URL_CHARS

MAX_SITEMAP_BYTES = 52_428_800
"""Of one file, not compressed: the protocol's limit, and ours also for what comes over the network."""
MAX_SITEMAP_URLS = 50_000
"""Of one file: the protocol's limit."""

_PIECE_BYTES = 65_536
_MAX_TOKEN_BYTES = 1_048_576
"""expat begins a token anew with each piece: one of 50 MB would be read 400 times over."""
_MAX_NESTING = 32
_GZIP = b"\x1f\x8b"
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_ROOTS = frozenset(("urlset", "sitemapindex", "rss", "RDF", "feed"))
_LISTED = {("url", "loc"): False, ("sitemap", "loc"): True, ("item", "link"): False}
"""Where the text of an element is a URL, and whether that is of another sitemap."""


class Listed(NamedTuple):
    """One URL of a sitemap, as it is written there."""

    url: str
    is_sitemap: bool = False


def listed(body: bytes) -> Iterator[Listed]:
    """What a sitemap lists, in order. Raises SitemapError where it cannot be read on: what came before is good."""
    for place, entry in enumerate(_entries(_pieces(body))):
        if place >= MAX_SITEMAP_URLS:
            raise SitemapError("too_many", f"more than {MAX_SITEMAP_URLS} URLs in one sitemap")
        yield entry


def _entries(pieces: Iterator[bytes]) -> Iterator[Listed]:
    first = b""
    for piece in pieces:
        # Blank lines before an XML declaration are a mistake that many servers make.
        first = piece.removeprefix(_MARKS[0]).lstrip()
        if first:
            break
    if _is_markup(first):
        return _from_markup(first, pieces)
    return _from_text(first, pieces)


def _is_markup(start: bytes) -> bool:
    for mark in _MARKS[1:]:
        # UTF-16: the zeros are halves of letters.
        start = start.removeprefix(mark)
    return start[:1_000].replace(b"\0", b"").lstrip().startswith(b"<")


def _pieces(body: bytes) -> Iterator[bytes]:
    """The body, gunzipped if it is a gzip file; SitemapError at the limit or where the gzip is broken."""
    if not body.startswith(_GZIP):
        for start in range(0, min(len(body), MAX_SITEMAP_BYTES), _PIECE_BYTES):
            yield body[start : min(start + _PIECE_BYTES, MAX_SITEMAP_BYTES)]
        size = len(body)
    else:
        size = 0
        for piece in _gunzipped(body):
            size += len(piece)
            if size > MAX_SITEMAP_BYTES:
                break
            yield piece
    if size > MAX_SITEMAP_BYTES:
        raise SitemapError("too_large", f"a sitemap of more than {MAX_SITEMAP_BYTES} bytes")


def _gunzipped(body: bytes) -> Iterator[bytes]:
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        for start in range(0, len(body), _PIECE_BYTES):
            yield unzip.decompress(body[start : start + _PIECE_BYTES], _PIECE_BYTES)
            while unzip.unconsumed_tail:
                yield unzip.decompress(unzip.unconsumed_tail, _PIECE_BYTES)
            if unzip.eof:
                return
        # The input is used up, but a window full of output may be left.
        while piece := unzip.decompress(b"", _PIECE_BYTES):
            yield piece
        if unzip.eof:
            return
    except zlib.error as error:
        raise SitemapError("broken", f"a sitemap that is no sound gzip file: {error}") from error
    raise SitemapError("broken", "a sitemap whose gzip file ends too early")


# ---- plain text


def _from_text(first: bytes, pieces: Iterator[bytes]) -> Iterator[Listed]:
    """One URL a line. What is none is the reader's to find out, but a file without any is no sitemap."""
    found, rest = False, first
    for piece in chain(pieces, (b"\n",)):
        *lines, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            url = line.decode("utf-8", "replace").strip()
            if url.startswith(("http://", "https://")):
                found = True
                yield Listed(url)
        if len(rest) > _MAX_TOKEN_BYTES:
            raise SitemapError("broken", f"a sitemap with a line of more than {_MAX_TOKEN_BYTES} bytes")
    if not found:
        raise SitemapError("not_a_sitemap", "not a sitemap: neither XML nor a list of URLs")


# ---- XML


def _from_markup(first: bytes, pieces: Iterator[bytes]) -> Iterator[Listed]:
    reader = _Reader()
    yield from reader.feed(first)
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.feed(b"", last=True)


class _Reader:
    """One document, as its pieces come."""

    def __init__(self) -> None:
        self._found: list[Listed] = []
        self._stack: list[tuple[str, str]] = []
        self._text: list[str] | None = None
        self._length = 0
        self._fed = 0
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._take
        parser.StartDoctypeDeclHandler = self._refuse

    def feed(self, piece: bytes, *, last: bool = False) -> Iterator[Listed]:
        """What these bytes complete. What stood before a mistake counts, so it is given before the error."""
        problem: SitemapError | None = None
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            problem = SitemapError("broken", f"a sitemap that is no sound XML: {error}")
        except SitemapError as error:
            problem = error
        found, self._found = self._found, []
        yield from found
        self._fed += len(piece)
        if problem is None and not last and self._fed - self._parser.CurrentByteIndex > _MAX_TOKEN_BYTES:
            problem = SitemapError("broken", f"a sitemap with {_MAX_TOKEN_BYTES} bytes in one piece")
        if problem is not None:
            raise problem

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        prefix, _, local = name.rpartition(":")
        if not self._stack and local not in _ROOTS:
            raise SitemapError("not_a_sitemap", f"not a sitemap: its root is <{name[:40]}>")
        if len(self._stack) >= _MAX_NESTING:
            raise SitemapError("broken", f"a sitemap with more than {_MAX_NESTING} elements in each other")
        parent = self._stack[-1] if self._stack else ("", "")
        self._stack.append((prefix, local))
        # An image's <image:loc> stands in <image:image>, and is no page.
        if (parent[1], local) in _LISTED and parent[0] == prefix:
            self._text, self._length = [], 0
        elif (parent[1], local) == ("entry", "link"):
            href = attributes.get("href", "").strip()
            if href and attributes.get("rel", "alternate") == "alternate":
                self._found.append(Listed(href))

    def _take(self, text: str) -> None:
        if self._text is not None:
            self._length += len(text)
            # Longer than any URL that is crawled: there is no need to hold the rest of it.
            if self._length <= 2 * MAX_URL_CHARS:
                self._text.append(text)

    def _end(self, _name: str) -> None:
        _, local = self._stack.pop()
        if self._text is not None and self._stack and (self._stack[-1][1], local) in _LISTED:
            url = "".join(self._text).strip()
            self._text = None
            if url:
                self._found.append(Listed(url, _LISTED[self._stack[-1][1], local]))

    def _refuse(self, name: str, *_: object) -> None:
        if name.lower() == "html":
            raise SitemapError("not_a_sitemap", "not a sitemap: a web page")
        raise SitemapError("dtd", "a sitemap with a DTD, which is not read")
