"""Fingerprint of a page's words: pages with the same one differ only in numbers or in the order of words.

It is a hash of the set of words without digits. So the days of a calendar, a page under another session id and a page
that quotes its own endless path have one fingerprint, and two articles under the same menu have two.
"""

from __future__ import annotations

import re

from skitter.extract.response import Response

MAX_CHARS = 200_000
"""Characters of the page's source that are read."""

# Each alternative also ends at the end of the text: what is never closed is looked through once, not once for each tag.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|template)\b.*?(?:</\1\s*>|\Z)|<[^>]*(?:>|\Z)", re.IGNORECASE | re.DOTALL
)
_WORD = re.compile(r"\b[^\W\d_]{3,}\b")


def content_fingerprint(response: Response) -> int | None:
    """Return the fingerprint, or None without HTML or words; valid in one process only, as hashes of text are."""
    if not response.is_html:
        return None
    words = frozenset(_WORD.findall(_MARKUP.sub(" ", response.text[:MAX_CHARS])))
    return hash(words) if words else None
