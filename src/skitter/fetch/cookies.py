"""Cookies of one transfer: the value of its header Cookie, and what the headers Set-Cookie of its answer change.

libcurl's own cookie engine is off. It keeps no order of creation, reads other dates than browsers do, and drops the
slash at the end of a path (docs/adr/0095-cookies.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.header_lines import has_control
from skitter.model.session import Cookie
from skitter.policy.cookies import sent_pairs, set_by


def cookie_header(request: FetchRequest) -> bytes:
    """Return the cookies of the jar, those of the request, and its own header Cookie as one value; empty if none."""
    jar = sent_pairs(request.jar or (), request.url, time.time())
    own = [f"{name}={value}" for name, value in request.cookies.items()]
    if any(has_control(pair) or ";" in pair for pair in own):
        raise FetchError("protocol", "a cookie contains a control character or a semicolon")
    own += [value for name, value in request.headers.items() if name.lower() == "cookie" and value.strip()]
    # The bytes of a jar's cookies were read as Latin-1.
    return b"; ".join([pair.encode("latin-1", "replace") for pair in jar] + [pair.encode() for pair in own])


def cookies_set(lines: Iterable[bytes], jar: Sequence[Cookie], url: str) -> tuple[Cookie, ...]:
    """Return what an answer with these header lines has set or taken back."""
    values = [line[11:].strip(b" \t\r\n").decode("latin-1") for line in lines if line[:11].lower() == b"set-cookie:"]
    return set_by(values, jar, url, time.time())
