"""Detection of a body's encoding, and decoding of its text.

The order is the browsers': byte-order mark, Content-Type, the page's own declaration (``extract.meta_prescan``), and
only then a guess (``extract.charset_guess``). JSON is the exception: it is UTF-8 by RFC 8259, which has no parameter
``charset``, so a label counts only for a body that is not UTF-8. A wrong label never raises: what cannot be read
becomes U+FFFD. The names of encodings are in ``extract.charset_labels``; whether a body is a page at all is for
``extract.response`` to say.
"""

from __future__ import annotations

import json
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
# A charset inside the name or the quoted value of another parameter is none. Semicolons between them may be missing.
_PARAMETER = re.compile(r"""([^\s;,="]++)\s*+(?:=\s*+("(?:[^"\\]++|\\.)*+|[^\s;,]*+))?+""", re.DOTALL)


def find_encoding(body: bytes, content_type: str = "", kind: str = "html") -> str:
    """Return the Python codec of a body; ``kind`` (``html``, ``xml``, ``json`` or ``other``): how it may declare it."""
    is_json = kind == "json" or content_type.partition(";")[0].rstrip().lower().endswith(("/json", "+json"))
    if is_json and (codec := _json_codec(body)):
        return codec
    return _mark(body)[0] or _labelled(body, content_type) or _declared(body, kind) or guess(body)


def decode(body: bytes, codec: str) -> str:
    """Return the text of a body without its byte-order mark; never raises for a codec of ``find_encoding``."""
    # Python's own UTF-32 has a mark, and reads it.
    return (body if codec == "utf-32" else unmarked(body)).decode(codec, "replace")


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
    parameters = _PARAMETER.findall(content_type)
    labels = (value.replace("\\", "").strip("\"' ") for name, value in parameters if name.lower() == "charset")
    return codec_of(next(filter(None, labels), ""))


def _json_codec(body: bytes) -> str | None:
    """Return the codec of JSON in UTF-8, or in UTF-16 or UTF-32 by its first zeros; None for other JSON."""
    codec = json.detect_encoding(body[:4])
    has_mark = codec in ("utf-8-sig", "utf-16")
    return None if has_mark or (codec == "utf-8" and guess(body) != codec) else codec


def _declared(body: bytes, kind: str) -> str | None:
    if kind == "html":
        return prescan(body) or late_declaration(body)
    return xml_declaration(body) if kind == "xml" else None
