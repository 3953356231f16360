"""Truncation of pages whose markup would take a tree builder too much time or memory.

The HTML standard makes some shapes of markup cost the square of their length, in any parser that follows it, and
lexbor's tables of names add one more. Measured:

- deep nesting: 20,000 unclosed ``<div>`` take 0.6 s, 100,000 take 22 s; a hundred thousand ``<template>`` in each
  other end the process (by recursion) when they are written out again;
- unclosed formatting, each tag different: ``<p><font size=1><p><font size=2>...`` copies every open
  ``<font>`` into every new ``<p>``: 37 KB become 730 MB, 75 KB become 2.9 GB;
- one element with very many attributes, as when a text file with a stray ``<b`` is served as a page: 20,000 words
  take 0.8 s; ``<body a><body b>...`` adds them all to one element too;
- very many different names: 100,000 take 1.4 s.

``cut_pathological`` looks at 384 bytes in 64 KB, which costs 1 to 3 % of the parse, and reads the whole page
(``extract.open_elements_scan``) only where the windows look wrong or where the page is large; then it cuts the page
where the harm begins. Where the windows lie is a matter of chance, and inside them an end tag counts only if it closes
what was opened last: harm must be large to be harm, and what is large does not slip between them. What still gets past
this is ended by the limits of its process: ``max_worker_bytes`` and ``callback_seconds``.
"""

from __future__ import annotations

import random
import re
from collections import Counter

from skitter.extract import open_elements_scan

SAFE_BYTES = 16_384
"""A smaller page cannot do much harm: at most some 60 ms and 140 MB."""
MANY_BYTES = 131_072
"""So many it takes for harm by attributes and by names."""
LARGE_BYTES = 4_194_304
"""A larger page is read whole: the number of its tags alone may be harm enough."""

_STRIDE = 65_536
_WINDOW = 384
_SUSPICIOUS = 15
"""Tags in windows without their counterparts, beyond one a window: what honest pages show of their nesting."""
_MANY_NAMES = 150
"""Different names of elements and attributes in all windows."""
_LONG_TAG = 16_384
_SPREAD = 10
_TAG = re.compile(rb"<(?:!--.*?(?:-->|\Z)|[!?][^>]*|(/?)([a-zA-Z][^\s/>]*)([^>]*))", re.DOTALL)
# What does not count: tags that do not nest, and what ends where it should, with no tag in it: <b class="x">text</b>.
# Not so a second <body>: no end tag ends it.
_SOUND = re.compile(
    rb"""<(?:/?(?:%s)(?=[\t\n\f\r />])[^<>]*+>"""
    rb"""|(?!html|body)([a-z][a-z0-9]*+)(?:[^<>"']++|"[^"<>]*+"|'[^'<>]*+')*+>[^<]*+</\1>)"""
    % b"|".join(open_elements_scan.FLAT)
)
# A value with markup in it: so a tag may pass itself off as a row of others.
_MARKUP_IN_VALUE = re.compile(rb"""=\s*(?:"[^"<>]*[<>]|'[^'<>]*[<>])""")
_random = random.Random()


def cut_pathological(body: bytes) -> bytes:
    """Return the part of the body that can be parsed in reasonable time and memory, usually all of it."""
    if b"\0" in body:
        # In text a browser drops them too, and in bulk they cost the parser more than anything else of their size.
        body = body.replace(b"\0", b"")
    size = len(body)
    if size < SAFE_BYTES:
        return body
    if size > LARGE_BYTES or _looks_wrong(body):
        return body[: open_elements_scan.harmless_length(body)]
    return body


def _looks_wrong(body: bytes) -> bool:
    opened: Counter[bytes] = Counter()
    names: set[bytes] = set()
    score = windows = deepest = 0
    size = len(body)
    for start in range(int(_random.random() * min(_STRIDE, size - _WINDOW)), size, _STRIDE):
        windows += 1
        window = body[start : start + _WINDOW]
        if b"<" not in window:
            if b">" not in window and _is_in_long_tag(body, start):
                return True
            continue
        if size < _STRIDE and _has_few_tags(window):
            # The only window: so few tags are not harmful, whatever they are.
            return False
        tags = _TAG.findall(window)
        score += _crossed(tags, opened)
        deepest = max(deepest, sum(map(abs, opened.values())))
        if size > MANY_BYTES:
            score += _SPREAD * len(_MARKUP_IN_VALUE.findall(window))
            for _, name, attributes in tags:
                names.add(name)
                if attributes:
                    names.update(open_elements_scan.ATTRIBUTE.findall(attributes))
    return score + deepest > _SUSPICIOUS + windows or len(names) > _MANY_NAMES


def _has_few_tags(window: bytes) -> bool:
    """Quicker than to look at each, which most windows need not have."""
    return window.count(b"<") <= _SUSPICIOUS or _SOUND.sub(b"", window).count(b"<") <= _SUSPICIOUS


def _crossed(tags: list[tuple[bytes, bytes, bytes]], opened: Counter[bytes]) -> int:
    """Adds what a window leaves open to ``opened``; how many of its tags are not where they belong."""
    stack: list[bytes] = []
    crossed = 0
    for end_tag, written, attributes in tags:
        name = written.lower()
        if not name or name in open_elements_scan.FLAT or name in open_elements_scan.SHAPES:
            continue
        last = stack[-1] if stack else b""
        if end_tag:
            implied = (last in open_elements_scan.TWINS and name in open_elements_scan.TWINS_IN and name != last) or (
                last in open_elements_scan.KIN and name in open_elements_scan.LISTS
            )
        else:
            implied = (last == b"option" and name in open_elements_scan.OPTIONS) or last in open_elements_scan.KIN.get(
                name, ()
            )
        if implied:
            stack.pop()
            last = stack[-1] if stack else b""
        if name in open_elements_scan.MERGED:
            crossed += not end_tag
        elif not end_tag and (attributes.count(b'"') % 2 or attributes.count(b"'") % 2):
            # It does not end where it seems to: what follows may be in a value.
            opened[name] += 1
        elif not end_tag:
            stack.append(name)
        elif last == name:
            stack.pop()
        elif last:
            crossed += 1
        else:
            opened[name] -= 1
    opened.update(stack)
    return crossed


def _is_in_long_tag(body: bytes, position: int) -> bool:
    # What began before the last window was judged there.
    begin = body.rfind(b"<", max(0, position - _STRIDE), position)
    if begin == -1 or not body[begin + 1 : begin + 3].removeprefix(b"/")[:1].isalpha():
        return False
    end = body.find(b">", begin, begin + _LONG_TAG)
    return end == -1
