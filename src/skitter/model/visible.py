"""Characters that a terminal obeys instead of showing, or that make a line look like what it is not.

C0, DEL and C1 (escape sequences begin there), line separators, marks that reverse, join or hide text, and halves of
surrogate pairs, which cannot be printed at all. Colours and links of a display are its own: nothing that came from the
web, a server or a spider may bring any.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# JSON escapes C0 by itself.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def visible(text: str) -> str:
    """The text without them."""
    return _UNSAFE.sub("", text)


def visible_json(text: str) -> str:
    """JSON that means the same: they can only stand inside strings, where an escape is always right."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
