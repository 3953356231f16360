"""What a page says, as one number: two pages with the same one say the same in other figures, or in another order.

The words of the page's text without those that digits stand in, each once. So a calendar's days, a page under another
session and a page that quotes its own endless path are all the same page, and two articles under one menu are not.
"""

from __future__ import annotations

import re

from skitter.extract.response import Response

MAX_CHARS = 200_000
"""Of the page's source; what lies beyond is not looked at."""

# Each alternative also ends at the end of the text: what is never closed is looked through once, not once for each tag.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|template)\b.*?(?:</\1\s*>|\Z)|<[^>]*(?:>|\Z)", re.IGNORECASE | re.DOTALL
)
_WORD = re.compile(r"\b[^\W\d_]{3,}\b")


def content_fingerprint(response: Response) -> int | None:
    """None: it is not HTML, or has no words. Good inside one process only, as hashes of text are."""
    if not response.is_html:
        return None
    words = frozenset(_WORD.findall(_MARKUP.sub(" ", response.text[:MAX_CHARS])))
    return hash(words) if words else None
