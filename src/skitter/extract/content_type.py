"""Kind of a body (html, xml or other) by its Content-Type or its first bytes."""

from __future__ import annotations

SNIFF_BYTES = 512

_HTML = frozenset(("text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"))
_XML = frozenset(("text/xml", "application/xml"))
# The MIME sniffing standard treats these as a missing type.
_NOTHING_SAID = frozenset(("", "*/*", "unknown/unknown", "application/unknown"))


def kind_of(content_type: str, body: bytes) -> str:
    """Return ``html``, ``xml`` or ``other``."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in _HTML:
        return "html"
    if media_type in _XML or media_type.endswith("+xml"):
        return "xml"
    if media_type in _NOTHING_SAID or "/" not in media_type:
        return _sniffed(body)
    return "other"


def _sniffed(body: bytes) -> str:
    start = body[: 2 * SNIFF_BYTES]
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        # UTF-16 with its mark: the zeros are halves of letters.
        start = start.replace(b"\0", b"")[2:]
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:SNIFF_BYTES]
    if not start.startswith(b"<") or b"\0" in start:
        return "other"
    return "xml" if start.startswith(b"<?xml") and b"<html" not in start.lower() else "html"
