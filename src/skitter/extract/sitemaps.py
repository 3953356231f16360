"""Sitemap reader for all formats of sitemaps.org.

XML (``urlset`` and ``sitemapindex``), RSS, Atom or plain text, gzipped or not. A file is read in pieces and no
tree is built, so a reader holds a few URLs at a time, whatever the size, and may do something else between two pieces.
What a file costs is bounded by its bytes, its elements and how far it was packed. Nothing here joins or judges URLs.

A DTD is refused before anything of it is read: it is where entities come from, and no sitemap needs one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple
from xml.parsers import expat

from skitter.errors import SitemapError
from skitter.extract.charset_labels import codec_of
from skitter.model.url import MAX_URL_CHARS

MAX_SITEMAP_BYTES = 52_428_800
"""Of one file, not compressed: the protocol's limit, and ours also for what comes over the network."""
MAX_SITEMAP_URLS = 50_000
"""Maximum URLs of one file, by the protocol."""
MAX_SITEMAP_ELEMENTS = 1_000_000
"""Or lines of a text: about a second. 50,000 URLs have a quarter of a million, and 50 MB of translations and images
half a million to a million. Attributes count as well, beyond a few of each element."""
MAX_SITEMAP_RATIO = 200
"""A gzip file may become so many times as large, as ``max_ratio`` has it for what servers pack."""
RATIO_FROM_BYTES = 1_048_576
"""Size from which on the ratio is checked."""

_PIECE_BYTES = 32_768
"""Reading one takes 10 ms at most: 8,000 elements."""
_MAX_TOKEN_BYTES = 262_144
"""expat begins a token anew with each piece: one of 50 MB would be read 800 times over."""
_MAX_NESTING = 32
_FEW_ATTRIBUTES = 8
_GZIP = b"\x1f\x8b"
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_ROOTS = frozenset(("urlset", "sitemapindex", "rss", "RDF", "feed"))
_GUID = ("item", "guid")
_SPARE = {("urlset", "url"): False, ("sitemapindex", "sitemap"): True, _GUID: False}
"""Text that counts if it is an absolute URL: of entries without a ``loc``, and the guid of items without a ``link``."""
_LISTED = {("url", "loc"): False, ("sitemap", "loc"): True, ("item", "link"): False, **_SPARE}
"""Where the text of an element is a URL, and whether that is of another sitemap."""


class Listed(NamedTuple):
    """One URL of a sitemap, as it is written there."""

    url: str
    is_sitemap: bool = False


def listed(body: bytes) -> Iterator[Listed]:
    """Yield the URLs of a sitemap in order; raise SitemapError at a mistake, after the URLs before it."""
    return chain.from_iterable(listed_in_pieces(body))


def listed_in_pieces(body: bytes) -> Iterator[list[Listed]]:
    """As ``listed``: what each piece of the file lists, which may be nothing. A piece takes some milliseconds."""
    left = MAX_SITEMAP_URLS
    for entries in _entries(_pieces(body)):
        yield entries[:left]
        left -= len(entries)
        if left < 0:
            raise SitemapError("too_many", f"more than {MAX_SITEMAP_URLS} URLs in one sitemap")
    if left == MAX_SITEMAP_URLS:
        raise SitemapError("empty", "the sitemap lists nothing")


def _entries(pieces: Iterator[bytes]) -> Iterator[list[Listed]]:
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
        for piece, read in _gunzipped(body):
            size += len(piece)
            if size > MAX_SITEMAP_BYTES:
                break
            if size > max(RATIO_FROM_BYTES, MAX_SITEMAP_RATIO * read):
                raise SitemapError("too_large", f"the sitemap expands to more than {MAX_SITEMAP_RATIO} times its size")
            yield piece
    if size > MAX_SITEMAP_BYTES:
        raise SitemapError("too_large", f"the sitemap has more than {MAX_SITEMAP_BYTES} bytes")


def _gunzipped(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Pieces, and how much of the body was read for them and those before."""
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        for start in range(0, len(body), _PIECE_BYTES):
            end = min(start + _PIECE_BYTES, len(body))
            piece = unzip.decompress(body[start:end], _PIECE_BYTES)
            yield piece, end - len(unzip.unconsumed_tail)
            while unzip.unconsumed_tail:
                piece = unzip.decompress(unzip.unconsumed_tail, _PIECE_BYTES)
                yield piece, end - len(unzip.unconsumed_tail)
            if unzip.eof:
                return
        # The input is used up, but a window full of output may be left.
        while piece := unzip.decompress(b"", _PIECE_BYTES):
            yield piece, len(body)
        if unzip.eof:
            return
    except zlib.error as error:
        raise SitemapError("broken", f"the sitemap is not a valid gzip file: {error}") from error
    raise SitemapError("broken", "the gzip file of the sitemap is truncated")


# ---- plain text


def _from_text(first: bytes, pieces: Iterator[bytes]) -> Iterator[list[Listed]]:
    """One URL a line. What is none is the reader's to find out, but a file without any is no sitemap."""
    found, rest, count = False, first, 0
    for piece in chain(pieces, (b"\n",)):
        *lines, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
        urls = (line.decode("utf-8", "replace").strip() for line in lines)
        entries = [Listed(url) for url in urls if url.startswith(("http://", "https://"))]
        found = found or bool(entries)
        yield entries
        count += len(lines)
        if count > MAX_SITEMAP_ELEMENTS:
            raise SitemapError("too_many", f"more than {MAX_SITEMAP_ELEMENTS} lines in one sitemap")
        if len(rest) > _MAX_TOKEN_BYTES:
            raise SitemapError("broken", f"the sitemap has a line of more than {_MAX_TOKEN_BYTES} bytes")
    if not found:
        raise SitemapError("not_a_sitemap", "not a sitemap: neither XML nor a list of URLs")


# ---- XML


def _from_markup(first: bytes, pieces: Iterator[bytes]) -> Iterator[list[Listed]]:
    reader = _Reader()
    yield from reader.feed(first)
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.feed(b"", last=True)


class _Reader:
    """Incremental reader of one XML document."""

    def __init__(self) -> None:
        self._found: list[Listed] = []
        self._stack: list[tuple[str, str]] = []
        self._text: list[str] | None = None
        self._length = 0
        self._guid: str | None = None
        """The guid of the current item of a feed, which may yet have a link; None: it has one, or there is no item."""
        self._fed = 0
        self._elements = 0
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._take
        parser.StartDoctypeDeclHandler = self._refuse
        parser.XmlDeclHandler = self._declare

    def feed(self, piece: bytes, *, last: bool = False) -> Iterator[list[Listed]]:
        """Yield the URLs that these bytes complete; those before a mistake are yielded before the error."""
        problem: SitemapError | None = None
        try:
            self._parser.Parse(piece, last)
        except (expat.ExpatError, LookupError, ValueError) as error:
            # The latter two for an encoding that expat cannot use.
            problem = SitemapError("broken", f"the sitemap is not valid XML: {error}")
        except SitemapError as error:
            problem = error
        found, self._found = self._found, []
        yield found
        self._fed += len(piece)
        if problem is None and not last and self._fed - self._parser.CurrentByteIndex > _MAX_TOKEN_BYTES:
            problem = SitemapError("broken", f"a sitemap with {_MAX_TOKEN_BYTES} bytes in one element")
        if problem is not None:
            raise problem

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1 + max(0, len(attributes) - _FEW_ATTRIBUTES)
        if self._elements > MAX_SITEMAP_ELEMENTS:
            raise SitemapError("too_many", f"more than {MAX_SITEMAP_ELEMENTS} elements in one sitemap")
        prefix, _, local = name.rpartition(":")
        if not self._stack and local not in _ROOTS:
            raise SitemapError("not_a_sitemap", f"not a sitemap: its root is <{name[:40]}>")
        if len(self._stack) >= _MAX_NESTING:
            raise SitemapError("broken", f"a sitemap with more than {_MAX_NESTING} nested elements")
        parent = self._stack[-1] if self._stack else ("", "")
        self._stack.append((prefix, local))
        place = parent[1], local
        if local == "item":
            self._guid = ""
        # The own text of an entry ends here.
        self._take(" ")
        is_label = place == _GUID and attributes.get("isPermaLink", "").strip().lower() == "false"
        # An <image:loc> inside <image:image> is not a page.
        if place in _LISTED and parent[0] == prefix and not is_label:
            self._text, self._length = [], 0
        elif place == ("entry", "link"):
            href = attributes.get("href", "").strip()
            if href and attributes.get("rel", "alternate") == "alternate":
                self._found.append(Listed(href))

    def _take(self, text: str) -> None:
        if self._text is not None:
            self._length += len(text)
            # Longer than any URL that is crawled: the remaining text is not kept.
            if self._length <= 2 * MAX_URL_CHARS:
                self._text.append(text)

    def _end(self, _name: str) -> None:
        _, local = self._stack.pop()
        place = (self._stack[-1][1] if self._stack else ""), local
        if self._text is not None and place in _LISTED:
            url, self._text = "".join(self._text).strip(), None
            if place in _SPARE and not (url := url.partition(" ")[0].rstrip()).startswith(("http://", "https://")):
                url = ""
            if place == _GUID:
                self._guid = url if self._guid is not None else None
            elif url:
                self._found.append(Listed(url, _LISTED[place]))
                self._guid = None
        elif local == "item" and self._guid:
            self._found.append(Listed(self._guid))

    @staticmethod
    def _declare(_version: str, encoding: str | None, _standalone: int) -> None:
        # Otherwise expat asks Python, which also knows codecs that are none for the web.
        if encoding is not None and codec_of(encoding) is None:
            raise SitemapError("broken", f"the sitemap has an unknown encoding: {encoding[:40]}")

    def _refuse(self, name: str, *_: object) -> None:
        if name.lower() == "html":
            raise SitemapError("not_a_sitemap", "not a sitemap: a web page")
        raise SitemapError("dtd", "the sitemap has a DTD, which is not supported")
