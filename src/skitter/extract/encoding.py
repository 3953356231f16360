"""Detection of a body's encoding, and decoding of its text.

The order is the browsers': byte-order mark, Content-Type, the page's own declaration (``extract.meta_prescan``), and
only then a guess (``extract.charset_guess``). A wrong label never raises: what cannot be read becomes U+FFFD.
The names of encodings are in ``extract.charset_labels``; whether a body is a page at all is for
``extract.response`` to say.
"""

from __future__ import annotations

import re
from functools import lru_cache

from skitter.extract.charset_guess import guess
from skitter.extract.charset_labels import codec_of
from skitter.extract.meta_prescan import PRESCAN_BYTES, late_declaration, prescan, xml_declaration

MAX_CONTENT_TYPE_CHARS = 1024
"""What follows in the header is not read: real ones have a tenth, and servers may send 100 KB."""

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
# Strangers wrote what these are matched with: no repeat may be tried again with less (``*+``), and no search may look
# at the same text from two places. tests/unit/test_linear_expressions.py attacks all expressions of the package.
_CHARSET = re.compile(r"""charset\s*+=\s*+["']?+\s*+([^\s"';,]++)""", re.IGNORECASE)


def find_encoding(body: bytes, content_type: str = "", kind: str = "html") -> str:
    """Return the Python codec of a body; ``kind`` (``html``, ``xml`` or ``other``): how it may declare it itself."""
    return _mark(body)[0] or _labelled(body, content_type) or _declared(body, kind) or guess(body)


def decode(body: bytes, codec: str) -> str:
    """Return the text of a body without its byte-order mark; never raises for a codec of ``find_encoding``."""
    return unmarked(body).decode(codec, "replace")


def unmarked(body: bytes) -> bytes:
    """Return the body without its byte-order mark, which a parser would take for text that ends the head."""
    length = _mark(body)[1]
    return body[length:] if length else body


def _mark(body: bytes) -> tuple[str | None, int]:
    # Nearly every body starts with "<": one comparison then, not three.
    if body[:1] in b"\xef\xfe\xff":
        for mark, codec in _BOMS:
            if body.startswith(mark):
                return codec, len(mark)
    return None, 0


def _labelled(body: bytes, content_type: str) -> str | None:
    codec = _codec_in(content_type[:MAX_CONTENT_TYPE_CHARS])
    if codec is not None and codec.startswith("utf-16") and b"\0" not in body[:PRESCAN_BYTES]:
        # Any page, any JSON has ASCII in it, and ASCII in UTF-16 has zeros.
        return None
    return codec


@lru_cache(256)
def _codec_in(content_type: str) -> str | None:
    match = _CHARSET.search(content_type)
    return codec_of(match[1]) if match else None


def _declared(body: bytes, kind: str) -> str | None:
    if kind == "html":
        return prescan(body) or late_declaration(body)
    return xml_declaration(body) if kind == "xml" else None
