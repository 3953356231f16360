"""Declaration of a page's encoding in the page itself: the prescan of the HTML standard, and what follows it.

``prescan`` is the standard's algorithm, on the first bytes of a page. A declaration further down is one too: browsers
begin anew when they meet it, and ``late_declaration`` looks for it in the parsed page. An XML declaration counts where
no ``meta`` declares anything, and in XML it is the only one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from skitter.extract.charset_labels import codec_of
from skitter.extract.pathological_markup import cut_pathological
from skitter.extract.selector import find

PRESCAN_BYTES = 1024
"""Bytes of a page that are searched for its own declaration, as in browsers."""
LATE_BYTES = 65_536
"""Bytes that are searched for a late one. Browsers know no limit; large scripts before it take some ten thousand."""

# Strangers wrote what these are matched with: no repeat may be tried again with less (``*+``), and no search may look
# at the same text from two places. tests/unit/test_linear_expressions.py attacks all expressions of the package.
_SPACE = rb"\t\n\f\r "
# Where the text ends inside a value nothing matches.
_ATTRIBUTE = (
    rb"[%(s)b/]*+[^%(s)b/>][^%(s)b/>=]*+"
    rb"(?:[%(s)b]*+=[%(s)b]*+(?:\"[^\"]*+\"|'[^']*+'|[^%(s)b>\"'][^%(s)b>]*+|(?=>))|(?![%(s)b]*+=))" % {b"s": _SPACE}
)
_META = rb"[mM][eE][tT][aA][%b/]" % _SPACE
# Everything before the next "meta": text, comments (whose first dashes may be their last), tags, other markup.
_BEFORE_META = re.compile(
    rb"(?:[^<]++|<(?!%(meta)b)(?:/?+[a-zA-Z][^%(s)b>]*+(?:%(attribute)b)*+[%(s)b/]*+>|!(?=--)(?:[^-]++|-(?!->))*+-->"
    rb"|(?:!(?!--)|\?|/(?![a-zA-Z]))[^>]*+>|(?![a-zA-Z!?/])))*+"
    % {b"meta": _META, b"s": _SPACE, b"attribute": _ATTRIBUTE}
)
# Groups: the name; the value in double quotes, in single quotes, without quotes.
_META_ATTRIBUTE = re.compile(
    rb"[%(s)b/]*+([^%(s)b/>][^%(s)b/>=]*+)"
    rb"(?:[%(s)b]*+=[%(s)b]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^%(s)b>\"'][^%(s)b>]*+)|(?=>))|(?![%(s)b]*+=))"
    % {b"s": _SPACE}
)
_META_END = re.compile(rb"[%b/]*+>" % _SPACE)
_XML = re.compile(
    rb"<\?xml(?=[^>]*+>)(?:(?!encoding)[^>])*+encoding[\x00-\x20]*+=[\x00-\x20]*+"
    rb"(?:\"([^\"\x00-\x20]*+)\"|'([^'\x00-\x20]*+)')"
)
_CHARSET = re.compile(
    rb"charset[%(s)b]*+=[%(s)b]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^%(s)b;\"'][^%(s)b;]*+))?+" % {b"s": _SPACE},
    re.IGNORECASE,
)


def prescan(body: bytes) -> str | None:
    """Return the codec that the first bytes of an HTML page declare, or None."""
    if body.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16-le" if body[0] else "utf-16-be"
    head = body[:PRESCAN_BYTES]
    # Most pages without a header's charset have one here; the others need no look at their tags.
    if b"charset" not in head.lower():
        return xml_declaration(head)
    return _in_meta(head) or xml_declaration(head)


def xml_declaration(body: bytes) -> str | None:
    """Return the codec of an XML declaration at the very beginning, or None."""
    if not body.startswith(b"<?xml"):
        return None
    match = _XML.match(body, 0, PRESCAN_BYTES)
    return _ascii_compatible(match[1] or match[2] or b"") if match else None


def late_declaration(body: bytes) -> str | None:
    """Return the codec that a ``meta`` after the first bytes declares, or None. It costs a parse of the page."""
    if len(body) <= PRESCAN_BYTES:
        return None
    if body.find(b"harset", 0, LATE_BYTES) == -1 and body.find(b"HARSET", 0, LATE_BYTES) == -1:
        return None
    try:
        root = LexborHTMLParser(cut_pathological(body[:LATE_BYTES])).root
    except (SelectolaxError, MemoryError):
        # Whoever wants the page parsed will be told.
        return None
    for node in find(root, "meta") if root is not None else ():
        attributes = {name.encode(): (value or "").encode() for name, value in node.attributes.items()}
        if (codec := _of_attributes(attributes)) is not None:
            return codec
    return None


def _in_meta(head: bytes) -> str | None:
    position = 0
    while position != -1:
        before = _BEFORE_META.match(head, position)
        assert before is not None, "it may match nothing"
        position = before.end()
        # "<meta", or a comment or a tag that does not end.
        if head[position + 1 : position + 5].lower() != b"meta":
            return None
        codec, position = _read_meta(head, position + 5)
        if codec is not None:
            return codec
    return None


def _read_meta(head: bytes, position: int) -> tuple[str | None, int]:
    """Return the codec that a ``meta`` declares, and its end; -1: the text ends before."""
    attributes: dict[bytes, bytes] = {}
    while (end := _META_END.match(head, position)) is None:
        match = _META_ATTRIBUTE.match(head, position)
        if match is None or match.end() == len(head):
            return None, -1
        attributes.setdefault(match[1].lower(), match[2] or match[3] or match[4] or b"")
        position = match.end()
    return _of_attributes(attributes), end.end()


def _of_attributes(attributes: Mapping[bytes, bytes]) -> str | None:
    if b"charset" in attributes:
        # One that is unknown still bars what "content" says.
        return _ascii_compatible(attributes[b"charset"])
    if attributes.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    match = _CHARSET.search(attributes.get(b"content", b""))
    return _ascii_compatible(match[1] or match[2] or match[3] or b"") if match else None


def _ascii_compatible(label: bytes) -> str | None:
    codec = codec_of(label.decode("latin-1"))
    # The declaration was read byte by byte, so it cannot be in UTF-16, whatever it says.
    return "utf-8" if codec is not None and codec.startswith("utf-16") else codec
