"""Rendering of synthetic pages as bytes: HTML with links in many spellings, files, unusual encodings.

Decoys are added to the real links: hrefs that are not web addresses, and links inside comments, scripts
and files. Decoys that could be fetched are under ``/trap/``, so the log of the server shows whether a
crawler follows one.
"""

from __future__ import annotations

import functools
import gzip
import random
import zlib
from collections.abc import Mapping

from skitter.testing.web_pages import Link, PageSpec
from skitter.testing.web_spec import FILES, WebSpec

SAMPLE = {
    "utf8_unlabelled": "Žluťoučký kůň, наивный café, 東京",
    "windows_1251": "Съешь же ещё этих мягких французских булок",
    "shift_jis": "いろはにほへと ちりぬるを 東京",
    "utf_16": "Ünïcödé, Ελληνικά, 東京",
    "wrong_label": "Съешь же ещё этих мягких французских булок",
}
"""Text in the ``<h1>`` of pages in unusual encodings, as correctly decoded (impossible for wrong_label)."""

_CODECS = {"windows_1251": "cp1251", "wrong_label": "cp1251", "shift_jis": "shift_jis"}
_CONTENT_TYPES = {
    "utf8_unlabelled": "text/html",
    "windows_1251": "text/html; charset=windows-1251",
    "shift_jis": "text/html",
    "utf_16": "text/html",
    "wrong_label": "text/html; charset=utf-8",
}
_BASE = "/some/other/folder/"
_DECOYS = (
    '<a href="javascript:void(0)">script</a><a href="mailto:nobody@example.invalid">mail</a>'
    '<a href="data:text/html,%3Ca%20href=/trap/data%3E">data</a><a href="tel:+123">call</a>'
    '<a href="http://[broken">bracket</a><a href="http://">nothing</a><a name="top">no href</a>'
    '<!-- <a href="/trap/comment">comment</a> -->'
    "<script>document.write('<a href=\"/trap/script\">script</a>')</script>"
    '<template><p>not on the page</p></template><img src="/trap/image.png" alt=""><link rel="next" href="/trap/link">'
)
_WORDS = ("amber", "bridge", "candle", "drift", "ember", "garden", "harbour", "lantern", "meadow", "orchard", "river")


class Body:
    """Bytes of a page with the headers that depend on them."""

    __slots__ = ("bytes", "headers")

    def __init__(self, content: bytes, headers: list[tuple[str, str]]) -> None:
        self.bytes = content
        self.headers = headers


def render(spec: WebSpec, page: PageSpec, bases: Mapping[int, str], *, compressed: bool = True) -> Body:
    """Return a page as it is sent. ``bases`` (see ``bases_of``) has the root of each host, for the links.

    ``compressed``: whether the client accepts gzip and deflate.
    """
    if page.location is not None:
        href = _href(page.location, page.host, page.path, bases)
        return Body(b"", [("Location", href)])
    if page.kind == "empty":
        return Body(b"", [("Content-Type", page.content_type)])
    if page.kind in FILES:
        return Body(_file(spec, page), [("Content-Type", page.content_type)])
    if page.status != 200:
        return Body(f"<title>{page.status}</title>\n".encode(), [("Content-Type", page.content_type)])
    text = _html(spec, page, bases)
    # utf-16 writes a byte order mark, which is the only label such a page has.
    content = text.encode(_CODECS.get(page.kind, "utf-16" if page.kind == "utf_16" else "utf-8"))
    headers = [("Content-Type", _CONTENT_TYPES.get(page.kind, page.content_type))]
    if page.kind == "gzip" and compressed:
        content = gzip.compress(content, 6, mtime=0)
        headers.append(("Content-Encoding", "gzip"))
    elif page.kind == "deflate" and compressed:
        content = zlib.compress(content)
        headers.append(("Content-Encoding", "deflate"))
    elif page.kind == "chunked":
        content = _chunked(content)
        headers.append(("Transfer-Encoding", "chunked"))
    return Body(content, headers)


def _href(link: Link, host: int, base_path: str, bases: Mapping[int, str]) -> str:
    path, form, base = link.path, link.form, bases[link.host]
    if form == "upper":
        return "HTTP" + base[4:] + path
    if form == "schemeless":
        return base[5:] + path
    if form == "fragment":
        path += "#part"
    elif form == "escaped":
        # Only unreserved characters: an escaped spelling of those is the same URL.
        path = _escaped(path)
    elif form == "query":
        path = _shuffled(path)
    elif form == "dots":
        path = "/here/../." + path
    if link.host != host or form == "absolute":
        return base + path
    if form == "relative":
        depth = base_path.partition("?")[0].count("/") - 1
        return ("../" * depth or "./") + path[1:]
    return path


def _escaped(path: str) -> str:
    if "~" in path:
        return path.replace("~", "%7E" if len(path) % 2 else "%7e")
    return path if path == "/" else path[:-1] + f"%{ord(path[-1]):02x}"


def _shuffled(path: str) -> str:
    path, _, query = path.partition("?")
    return path + "?" + "&".join(reversed(query.split("&")))


def _html(spec: WebSpec, page: PageSpec, bases: Mapping[int, str]) -> str:
    based = page.kind == "based"
    base_path = _BASE if based else page.path
    hrefs = [_href(link, page.host, base_path, bases).replace("&", "&amp;") for link in page.links]
    head = f"<!doctype html>\n<html><head><title>{page.title}</title>"
    if page.kind == "shift_jis":
        head += '<meta http-equiv="Content-Type" content="text/html; charset=shift_jis">'
    if based:
        head += f'<base href="{_BASE}">'
    head += f"</head><body><h1>{SAMPLE.get(page.kind, page.title)}</h1>\n"
    if page.kind == "broken":
        links = _broken(hrefs)
    else:
        # A link to the page itself, the shortest loop there is. A <base> would make it lead elsewhere.
        links = "" if based else '<a href="#top">top</a>\n'
        links += "".join(
            f'<map name="m{place}"><area href="{href}" alt="area"></map>\n'
            if spec.variations and place % 7 == 6
            else f'<li><a href="{href}">link {place}</a></li>\n'
            for place, href in enumerate(hrefs)
        )
    end = "" if page.kind == "broken" else "</p></body></html>\n"
    room = spec.page_bytes - len(head) - len(links) - len(end) - len("<p>")
    return f"{head}{links}<p>{_filler(page.index * 61 + page.host, room)}{end}"


def _broken(hrefs: list[str]) -> str:
    """Return the same links in malformed HTML, together with text that only looks like links."""
    parts = [_DECOYS, "<table><tr><td>\x00<b><i>never closed</b><p></div></span>"]
    for place, href in enumerate(hrefs):
        style = place % 4
        if style == 0:
            parts.append(f"<A HREF='{href}' CLASS=x>{place}\x00")
        elif style == 1 and not href.endswith("/"):
            parts.append(f"<a class=y href={href}>{place}<div></a>")
        elif style == 2:
            parts.append(f'<a\n  title="a > b" href="  {href}\n">{place}</a')
            parts.append("><ul><li>")
        else:
            parts.append(f'<a href="{href}" href="/trap/second-href">{place} &amp &nosuch; &#0;</a>')
    return "".join(parts)


@functools.cache
def _text() -> str:
    rng = random.Random("words")
    return " ".join(rng.choice(_WORDS) for _ in range(6000))


def _filler(offset: int, length: int) -> str:
    if length <= 0:
        return ""
    text = _text()
    offset %= len(text)
    piece = text[offset : offset + length]
    while len(piece) < length:
        piece += text[: length - len(piece)]
    return piece


def _file(spec: WebSpec, page: PageSpec) -> bytes:
    decoy = f'<a href="/trap/{page.kind}/{page.index}">not a link</a>'
    if page.kind == "text":
        return f"{page.title}\n{decoy}\n".encode()
    if page.kind == "json":
        return f'{{"title": "{page.title}", "href": "/trap/json/{page.index}"}}\n'.encode()
    noise = random.Random(f"{spec.seed}/{page.host}/{page.index}/bytes").randbytes(512)
    magic = b"\x89PNG\r\n\x1a\n" if page.kind == "image" else b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    return magic + decoy.encode() + noise


def _chunked(content: bytes) -> bytes:
    chunks = [content[start : start + 1000] for start in range(0, len(content), 1000)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
