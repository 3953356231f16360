"""Conversion of HTTP headers to and from libcurl's lists of lines.

Sending: what could be read as two headers is refused. Receiving: informational responses, the final one
and trailers all come through one callback, and only the final response's headers are a page's.
"""

from __future__ import annotations

import re

from skitter.errors import FetchError
from skitter.fetch.body import OFFERED
from skitter.settings import Fetch

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


class SentHeaders:
    """The headers of requests: defaults, those of the settings in their place, those of a request in the place of both.

    libcurl sends Host, its own User-Agent and Accept-Encoding, Cookie, and then these lines. Of what stands among the
    lines it sends nothing of its own; so with an order all but Host and Cookie stand there. A request's own header
    Cookie joins its other cookies (``fetch/cookies.py``): one line has them all.
    """

    def __init__(self, settings: Fetch) -> None:
        own = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in settings.headers)}
        self._order = {name.lower(): place for place, name in enumerate(settings.header_order)}
        ordered = {"User-Agent": settings.agent, "Accept-Encoding": ", ".join(OFFERED)} if self._order else {}
        self._defaults = _joined(ordered | DEFAULT_HEADERS, own)
        self.plain = self.lines({})
        """Of a request that has none itself."""

    def every(self) -> dict[str, str]:
        """Return the headers that requests have if they say nothing else."""
        return self._defaults

    def lines(self, given: dict[str, str]) -> list[bytes]:
        """The lines for libcurl; what is given counts in any case of the name."""
        for name, value in given.items():
            if not is_token(name) or has_control(value):
                raise FetchError("protocol", f"a header cannot be sent: {name[:60]!r}")
        headers = [header for header in _joined(self._defaults, given).items() if header[0].lower() != "cookie"]
        if self._order:
            headers.sort(key=lambda header: self._order.get(header[0].lower(), len(self._order)))
        # libcurl's own notation: "Name;" is sent with an empty value, while "Name:" would remove the header.
        return [f"{name}: {value}".encode() if value.strip() else f"{name};".encode() for name, value in headers]


def _joined(defaults: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """Return headers without those defaults that are given, in any case of the name, and then what is given."""
    names = {name.lower() for name in given}
    return {name: value for name, value in defaults.items() if name.lower() not in names} | given


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
