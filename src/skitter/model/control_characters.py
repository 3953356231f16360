"""Control and invisible characters, which are removed from all text that is shown to people.

C0, DEL and C1 (escape sequences begin there), line separators, marks that reverse, join or hide text, characters
without a glyph, and halves of surrogate pairs, which cannot be printed. Text of the web, a server or a spider must not
control the terminal or make a line look different.
"""

from __future__ import annotations

import re

_C0 = "\x00-\x1f"
# Unicode's categories Cc, Cf, Cs, Zl and Zp, and what it calls default ignorable: fillers, variation selectors, tags.
# Not the signs of category Cf that are drawn, such as the Arabic number sign: tests/unit/test_control_characters.py.
_HIDDEN = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSAFE = re.compile(f"[{_C0}{_HIDDEN}]")
# JSON escapes C0 in strings by itself, and line feeds stand between its lines.
_UNSAFE_IN_JSON = re.compile(f"[{_HIDDEN}]")


def visible(text: str) -> str:
    """Return the text without control characters."""
    return _UNSAFE.sub("", text)


def visible_json(text: str) -> str:
    """Return equivalent JSON with control characters escaped; they can only occur inside strings."""
    return _UNSAFE_IN_JSON.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    # JSON writes what is beyond 16 bits as the two halves of UTF-16.
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
