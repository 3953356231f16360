"""Fetched page: the unparsed answer of a server."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.model.secrets import shown_url
from skitter.model.session import Cookie


class Rendering(msgspec.Struct):
    """What a browser has brought besides the content of a page."""

    screenshots: list[bytes] = []
    """Those of the actions, as PNG."""
    script_results: list[Any] = []
    """What the scripts of the actions returned."""


class Page(msgspec.Struct, kw_only=True):
    """Unparsed answer of a server, with its timing."""

    url: str
    status: int
    headers: list[tuple[str, str]]
    """As received, in order, names in lower case; the last response only (no 1xx, no proxy's)."""
    body: bytes
    """Decoded: gzip and deflate are undone, and Brotli that nobody has asked for."""
    address: str = ""
    """The IP address that answered; empty behind a proxy, which alone knows it."""
    http_version: str = ""
    started_at: float = 0.0
    """Wall time, seconds."""
    seconds: float = 0.0
    """From start to last byte."""
    wire_bytes: int = 0
    """Of the body as it came over the network."""
    cached: bool = False
    """It comes from a cache: no network was touched."""
    cookies: tuple[Cookie, ...] = ()
    """Those that it has set or taken back, where the request had a jar."""
    rendering: Rendering | None = None
    """Of a page that a browser has rendered: its ``body`` is the document as it was at the end, in UTF-8."""

    def __repr__(self) -> str:
        # Written to tracebacks: its headers may have secrets, and its body is large.
        return f"<Page {self.status} {shown_url(self.url)}>"

    def header(self, name: str) -> str | None:
        """The first value of a header, by its lower-case name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None
