"""Conversion of HTTP headers to and from libcurl's lists of lines.

Sending: what could be read as two headers is refused. Receiving: informational responses, the final one
and trailers all come through one callback, and only the final response's headers are a page's.
"""

from __future__ import annotations

import re

from skitter.errors import FetchError

DEFAULT_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language": "en,*;q=0.5",
}

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ENDS = (b"\r\n", b"\n")
_MAX_KNOWN_LINES = 2_000


def is_token(text: str) -> bool:
    """Whether this may name a header or a method."""
    return _TOKEN.fullmatch(text) is not None


def has_control(text: str) -> bool:
    """Whether a header with this in it could be read as two."""
    return _CONTROL.search(text) is not None


def to_send(given: dict[str, str]) -> list[bytes]:
    """The lines for libcurl: the defaults, replaced by what is given in any case of the name."""
    names = {name.lower() for name in given}
    lines = [f"{name}: {value}".encode() for name, value in DEFAULT_HEADERS.items() if name.lower() not in names]
    for name, value in given.items():
        if not is_token(name) or has_control(value):
            raise FetchError("protocol", f"a header that cannot be sent: {name[:60]!r}")
        # libcurl's own notation: "Name;" is sent with an empty value, while "Name:" would remove the header.
        lines.append(f"{name}: {value}".encode() if value.strip() else f"{name};".encode())
    return lines


def final_block(lines: list[bytes]) -> list[bytes] | None:
    """Status line, headers and the empty line of the final response; None while that has not come in full.

    1xx responses may precede it, and trailers may follow.
    """
    start = 0
    for index, line in enumerate(lines):
        if line in _ENDS:
            if not lines[start].partition(b" ")[2].startswith(b"1"):
                return lines[start : index + 1]
            start = index + 1
    return None


class HeaderLines:
    """Header lines to (name, value). Most lines of a crawl repeat, so the answers are remembered, within bounds."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, str]] = {}

    def read(self, lines: list[bytes]) -> tuple[list[tuple[str, str]], bool]:
        """The headers, and whether one of them sets a cookie."""
        known, headers, set_cookies = self._known, [], False
        for line in lines:
            header = known.get(line)
            if header is None:
                name, _, value = line.decode("latin-1").partition(":")
                header = (name.strip().lower(), value.strip())
                if header[0] == "set-cookie":
                    set_cookies = True
                elif len(line) < 100:
                    if len(known) >= _MAX_KNOWN_LINES:
                        known.clear()
                    known[line] = header
            headers.append(header)
        return headers, set_cookies
