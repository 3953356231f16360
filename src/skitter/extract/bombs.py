"""Pages that a tree builder chokes on, cut before they reach it.

The HTML standard makes three shapes of markup cost the square of their length, in any parser that
follows it. Measured with lexbor:

- deep nesting: 20,000 unclosed ``<div>`` take 0.6 s, 100,000 take 22 s;
- unclosed formatting, each tag different: ``<p><font size=1><p><font size=2>...`` copies every open
  ``<font>`` into every new ``<p>``: 37 KB become 730 MB, 75 KB become 2.9 GB;
- one tag with very many attributes, as when a text file with a stray ``<b`` is served as a page:
  20,000 words take 0.8 s.

``defused`` looks at one kilobyte in sixteen, which costs 1 to 2 % of the parse, and reads the whole
page only where the windows look wrong; then it cuts the page where the harm begins. That stops
accidents and plain bombs. Markup made to hide from it is left to the worker's limits.
"""

from __future__ import annotations

import re
from collections import Counter

SAFE_BYTES = 8192
"""A smaller page cannot do much harm: at most some 25 ms and 50 MB."""
MAX_DEPTH = 4000
"""Browsers stop at 512."""
MAX_COPIES = 500_000
"""Elements that formatting left open may add."""
MAX_ATTRIBUTES = 4000

_STRIDE = 16_384
_WINDOW = 1024
_MANY_OPEN = 20
_LONG_TAG = 16_384
_ENOUGH_OF_A_TAG = 65_536
_TAG = re.compile(rb"<(/?)([a-zA-Z][^\s/>]*)([^>]*)")
_QUOTED = re.compile(rb"""=\s*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))""")
_FORMATTING = frozenset(b"a b big code em font i nobr s small strike strong tt u".split())
# Void, or closed by their next sibling: these do not nest by themselves.
_FLAT = frozenset(
    b"area base br col embed hr img input link meta param source track wbr html head body p li dt dd option optgroup "
    b"tr td th tbody thead tfoot colgroup rp rt".split()
)


def defused(body: bytes) -> bytes:
    """The body, or as much of it as can be parsed in reasonable time and memory."""
    size = len(body)
    if size < SAFE_BYTES:
        return body
    suspicious = False
    for start in range(0, size, _STRIDE):
        end = start + _WINDOW
        tags = body.count(b"<", start, end)
        unclosed = tags - 2 * body.count(b"</", start, end)
        if unclosed > _MANY_OPEN and unclosed * 2 > tags:
            suspicious = True
        elif tags == 0 and body.find(b">", start, end) == -1:
            cut = _endless_tag(body, start)
            if cut is not None:
                body = body[:cut]
                break
    return _cut(body) if suspicious else body


def _endless_tag(body: bytes, position: int) -> int | None:
    """Where the tag that ``position`` lies in begins, if it has too many attributes."""
    # What began before the last window was judged there.
    begin = body.rfind(b"<", max(0, position - _STRIDE), position)
    if begin == -1 or not body[begin + 1 : begin + 2].isalpha():
        return None
    end = body.find(b">", begin, begin + _ENOUGH_OF_A_TAG)
    tag = body[begin : end if end != -1 else begin + _ENOUGH_OF_A_TAG]
    if len(tag) < _LONG_TAG or len(_QUOTED.sub(b"", tag).split()) < MAX_ATTRIBUTES:
        return None
    return begin


def _cut(body: bytes) -> bytes:
    depth = copies = active = 0
    opened: Counter[bytes] = Counter()
    formatting: dict[bytes, list[bytes]] = {}
    alike: Counter[bytes] = Counter()
    for match in _TAG.finditer(body):
        end_tag, name, attributes = match.groups()
        name = name.lower()
        if name in _FORMATTING:
            # The standard keeps at most three equal ones.
            if not end_tag and alike[match[0]] < 3:
                alike[match[0]] += 1
                formatting.setdefault(name, []).append(match[0])
                active += 1
            elif end_tag and formatting.get(name):
                alike[formatting[name].pop()] -= 1
                active -= 1
        else:
            copies += active
            if name in _FLAT or attributes.endswith(b"/"):
                pass
            elif not end_tag:
                opened[name] += 1
                depth += 1
            elif opened[name]:
                opened[name] -= 1
                depth -= 1
        if depth > MAX_DEPTH or copies > MAX_COPIES:
            return body[: match.start()]
    return body
