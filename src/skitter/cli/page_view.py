"""``view(response)`` of the shell: a page in the browser of the desktop."""

from __future__ import annotations

import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.extract.response import Response

_HEAD_BYTES = 65_536
_SUFFIXES = {"html": ".html", "xml": ".xml"}


def view(response: Response) -> str:
    """Open the page in a browser, with links and images from where it was; return the file that it was written to."""
    body = with_base(response.body, response.url) if response.kind == "html" else response.body
    suffix = _SUFFIXES.get(response.kind, ".txt")
    with tempfile.NamedTemporaryFile(prefix="skitter-", suffix=suffix, delete=False) as file:
        file.write(body)
    webbrowser.open(Path(file.name).as_uri())
    return file.name


def with_base(body: bytes, url: str) -> bytes:
    """Return HTML whose links lead to where they led on the page's site."""
    begin = body[:_HEAD_BYTES].lower()
    if _end_of_tag(begin, b"<base"):
        return body
    tag = f'<base href="{escape(url)}">'.encode()
    place = _end_of_tag(begin, b"<head")
    return body[:place] + tag + body[place:]


def _end_of_tag(html: bytes, tag: bytes) -> int:
    """Return where the first such tag ends; 0: there is none."""
    place = html.find(tag)
    # <header> is another one.
    if place < 0 or html[place + len(tag) : place + len(tag) + 1] not in (b">", b"/", b" ", b"\t", b"\r", b"\n"):
        return 0
    return html.find(b">", place) + 1
