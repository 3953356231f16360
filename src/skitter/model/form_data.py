"""Bodies of forms: application/x-www-form-urlencoded, multipart/form-data and text/plain, as browsers write them.

The same fields make the same bytes in every process: a body is a part of a request's identity.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote_plus

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
PLAIN = "text/plain"

Pairs = Iterable[tuple[str, str]]
"""Names and values, in order."""
File = tuple[str, bytes, str]
"""Name of the file, its content and its content type."""
Part = tuple[bytes, bytes | None, bytes, bytes]
"""Name of the field and of the file (None: a field), both as they stand between quotes; content type and content."""
NO_FILE: File = ("", b"", "application/octet-stream")
"""What a browser sends for a file field that nobody has filled in."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_IN_HEADER = str.maketrans({"\r": "%0D", "\n": "%0A", '"': "%22"})


def urlencoded(pairs: Pairs, encoding: str = "utf-8") -> bytes:
    """Return the body, or the query, of a form."""
    fields = [f"{_escaped(name, encoding)}={_escaped(value, encoding)}" for name, value in pairs]
    return "&".join(fields).encode("ascii")


def multipart(pairs: Pairs, files: Mapping[str, File], encoding: str = "utf-8") -> tuple[str, bytes]:
    """Return the content type and the body of a form with files, which come last."""
    parts: list[Part] = []
    for name, value in pairs:
        parts.append((_encoded(_quoted(name), encoding), None, b"", _encoded(_with_crlf(value), encoding)))
    for name, (filename, content, content_type) in files.items():
        kind = (content_type or NO_FILE[2]).translate(_IN_HEADER)
        head = _encoded(_quoted(name), encoding), _encoded(filename.translate(_IN_HEADER), encoding)
        parts.append((*head, _encoded(kind, encoding), content))
    return multipart_body(parts)


def multipart_body(parts: Iterable[Part]) -> tuple[str, bytes]:
    """Return the content type, with a boundary that follows from the content, and the body."""
    pieces: list[bytes] = []
    for name, filename, content_type, content in parts:
        head = b'Content-Disposition: form-data; name="%b"' % name
        if filename is not None:
            head += b'; filename="%b"\r\nContent-Type: %b' % (filename, content_type)
        pieces.append(head + b"\r\n\r\n" + content)
    boundary = _boundary(pieces)
    mark = boundary.encode()
    body = b"".join(b"--" + mark + b"\r\n" + piece + b"\r\n" for piece in pieces) + b"--" + mark + b"--\r\n"
    return f"{MULTIPART}; boundary={boundary}", body


def plain(pairs: Pairs, encoding: str = "utf-8") -> bytes:
    """Return the body of a form whose enctype is text/plain."""
    text = "".join(f"{_with_crlf(name)}={_with_crlf(value)}\r\n" for name, value in pairs)
    return _encoded(text, encoding)


def _boundary(parts: list[bytes]) -> str:
    content = hashlib.blake2b(digest_size=16)
    for part in parts:
        content.update(b"%d:" % len(part) + part)
    boundary = f"skitter-{content.hexdigest()}"
    # Nobody finds content that has its own hash in it; this is for the day that somebody does.
    while any(boundary.encode() in part for part in parts):
        content.update(b"again")
        boundary = f"skitter-{content.hexdigest()}"
    return boundary


def _escaped(text: str, encoding: str) -> str:
    # Python leaves a tilde as it is; the standard does not.
    return quote_plus(_encoded(_with_crlf(text), encoding), safe="*").replace("~", "%7E")


def _quoted(name: str) -> str:
    return _with_crlf(name).translate(_IN_HEADER)


def _with_crlf(text: str) -> str:
    return _LINE_END.sub("\r\n", text) if "\n" in text or "\r" in text else text


def _encoded(text: str, encoding: str) -> bytes:
    """Return bytes; what the encoding lacks is written as the number of the character: ``&#1234;``."""
    try:
        return text.encode(encoding, "xmlcharrefreplace")
    except UnicodeEncodeError:
        # Half of a surrogate pair, which JSON may bring.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode(encoding, "replace")
