"""``view(response)`` of the shell: a page in the browser of the desktop."""

from __future__ import annotations

import re
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.extract.response import Response

_HEAD_BYTES = 65_536
_BASE = re.compile(rb"<base\s", re.IGNORECASE)
_HEAD = re.compile(rb"<head(?:\s[^>]{0,1000})?>", re.IGNORECASE)
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
    if _BASE.search(body, 0, _HEAD_BYTES):
        return body
    tag = f'<base href="{escape(url)}">'.encode()
    head = _HEAD.search(body, 0, _HEAD_BYTES)
    return body[: head.end()] + tag + body[head.end() :] if head else tag + body
