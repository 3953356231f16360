"""Scan of a whole page's markup for ``extract.pathological_markup``: elements that stay open, and their names.

It is slower than the parser, so it runs only on pages that look pathological. It overestimates open elements: an end
tag counts only where a browser would let it close something.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from re import Pattern

MAX_DEPTH = 1000
"""Browsers stop at 512."""
MAX_ACTIVE = 1000
"""Formatting that is open at once, equal ones counted three times at most."""
MAX_COPIES = 500_000
"""Elements that formatting left open may add."""
MAX_ATTRIBUTES = 4000
"""Of one element."""
MAX_NAMES = 20_000
"""Different names of elements, and of attributes."""
MAX_TAGS = 500_000

MERGED = frozenset((b"html", b"body"))
"""A second one adds its attributes to the first."""
SHAPES = frozenset(b"path rect circle line polygon polyline ellipse use stop".split())
"""In a drawing they close themselves."""
_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())
_SIBLINGS = frozenset(b"head p tr td th tbody thead tfoot colgroup".split())
"""Closed by the next of their kind, with all formatting inside."""
FLAT = _VOID | _SIBLINGS
"""These do not nest by themselves."""
KIN = {b"li": (b"li",), b"dt": (b"dt", b"dd"), b"dd": (b"dt", b"dd")}
"""Members of a list close the one before them, unless something special was opened in it, as another list's member."""
LISTS = frozenset((b"ul", b"ol", b"dl", b"menu", b"dir"))
_SPECIAL = frozenset(
    b"article aside blockquote button center details dir dl dt dd fieldset figcaption figure footer form "
    b"h1 h2 h3 h4 h5 h6 header hgroup li listing main menu nav noscript ol pre search section select summary ul "
    b"desc foreignobject frameset mi mo mn ms mtext annotation-xml".split()
)
_NEAR = 50
OPTIONS = frozenset((b"option", b"optgroup"))
TWINS = OPTIONS | {b"rp", b"rt"}
"""Closed by the next of their kind only if nothing was opened in them."""
TWINS_IN = frozenset((b"select", b"datalist", b"optgroup", b"ruby"))
_FORMATTING = frozenset(b"a b big code em font i nobr s small strike strong tt u".split())
_RAW = frozenset(b"script style xmp iframe noembed noframes textarea title".split())
_WALLS = frozenset(b"object marquee applet template table".split())
_CELLS = frozenset((b"td", b"th", b"caption"))

_CLONES = 24
"""So many elements the standard copies, at most, where formatting ends before what was opened in it."""
_NAME = rb"[^\t\n\f\r />][^\t\n\f\r />=]*+"
_VALUE = rb"""(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"[^"]*+"?|'[^']*+'?|[^\t\n\f\r >"'][^\t\n\f\r >]*+)?)?"""
ATTRIBUTE = re.compile(rb"(" + _NAME + rb")" + _VALUE)
_TOKEN = (
    rb"<(?:!--(?:-?>|.*?(?:--!?>|\Z))|[!?][^>]*+|/[^a-zA-Z>][^>]*+"
    rb"|(/?)([a-zA-Z][^\t\n\f\r />]*+)"
    # More than this is harmful in any case; the remaining markup would be misread.
    rb"((?:[\t\n\f\r /]++|" + _NAME + _VALUE + (rb"){0,%d}+))" % (3 * MAX_ATTRIBUTES))
)


# Made when they are wanted: most crawls meet no page that looks wrong, and each worker would make them at its start.
@cache
def _token() -> Pattern[bytes]:
    return re.compile(_TOKEN, re.DOTALL)


@cache
def _raw_end(name: bytes) -> Pattern[bytes]:
    return re.compile(rb"</%s(?=[\t\n\f\r />])" % name, re.IGNORECASE)


def harmless_length(body: bytes) -> int:
    """Return the length of the part of a page that can be parsed in reasonable time and memory."""
    outline = _Outline()
    tags = position = 0
    search = _token().search
    while match := search(body, position):
        position = match.end()
        end_tag, name, attributes = match.groups()
        if name is None:
            continue
        tags += 1
        raw = outline.take(bool(end_tag), name.lower(), attributes)
        if outline.is_harmful or tags > MAX_TAGS:
            return match.start()
        if raw:
            end = _raw_end(raw).search(body, position)
            if end is None:
                break
            position = end.start()
    return len(body)


class _OpenElements:
    """Open elements since the last scope boundary; no end tag inside closes an element outside of it."""

    __slots__ = ("active", "alike", "boundary", "cell", "deep", "names", "stack")

    def __init__(self, boundary: bytes, deep: int) -> None:
        self.boundary = boundary
        self.deep = deep
        self.stack: list[tuple[bytes, int]] = []
        """Names, and the depth of each below the one before it: formatting may be between them."""
        self.names: Counter[bytes] = Counter()
        self.active: dict[bytes, list[tuple[bytes, int]]] = {}
        """Formatting that is open, by name: as it was written, and at what depth."""
        self.alike: Counter[bytes] = Counter()
        self.cell = False


class _Outline:
    def __init__(self) -> None:
        self._scopes = [_OpenElements(b"", 0)]
        self._depth = self._copies = self._active = self._merged = 0
        self._run = 0
        """Depth of formatting inside the innermost element."""
        self._element_names: set[bytes] = set()
        self._attribute_names: set[bytes] = set()
        self._drawings = 0
        self._selects = False
        """In a list of options, and after a broken one, a browser does not know titles and styles."""
        self._over = False

    @property
    def is_harmful(self) -> bool:
        return self._over or self._depth + self._run > MAX_DEPTH or self._copies > MAX_COPIES

    def take(self, end_tag: bool, name: bytes, attributes: bytes) -> bytes:
        """The next tag. A name: up to its end nothing is markup."""
        self._element_names.add(name)
        if attributes:
            # Also those of an end tag: they go to nobody, but are read.
            self._count(name, attributes)
        if end_tag:
            self._close(name)
            return b""
        if name in _RAW and not self._drawings and (name == b"script" or not self._selects):
            return name
        self._start(name, attributes)
        return b""

    def _start(self, name: bytes, attributes: bytes) -> None:
        if name in _FORMATTING:
            self._format(name, attributes)
            return
        self._copies += self._active
        if name in FLAT or name in MERGED:
            if name in _CELLS and self._scopes[-1].boundary == b"table":
                # A new cell: formatting of the last one has ended with it.
                self._enter_cell()
            if name in _SIBLINGS:
                self._run = 0
            return
        if name in TWINS:
            self._end_twin(name)
        elif name in KIN:
            self._end_member(KIN[name])
        if name in SHAPES and self._drawings and attributes.endswith(b"/"):
            return
        self._open(name)

    def _end_member(self, kin: tuple[bytes, ...]) -> None:
        # Not further: this, too, must not cost the square of a page.
        for last, _ in reversed(self._scopes[-1].stack[-_NEAR:]):
            if last in kin:
                self._close(last)
                return
            if last in _SPECIAL:
                return

    def _end_twin(self, name: bytes) -> None:
        """What the start of ``name`` closes: nothing, if anything was opened since."""
        scope = self._scopes[-1]
        while scope.stack and not self._run:
            last = scope.stack[-1][0]
            is_option = last == b"option" and name in OPTIONS
            is_group = last == name == b"optgroup" and scope.names[b"select"]
            is_ruby = last in (b"rp", b"rt") and name in (b"rp", b"rt") and scope.names[b"ruby"]
            if not (is_option or is_group or is_ruby):
                break
            self._close(last)

    def _count(self, name: bytes, attributes: bytes) -> None:
        found = ATTRIBUTE.findall(attributes)
        self._merged += len(found) if name in MERGED else 0
        self._attribute_names.update(found)
        names = max(len(self._attribute_names), len(self._element_names))
        if len(found) > MAX_ATTRIBUTES or self._merged > MAX_ATTRIBUTES or names > MAX_NAMES:
            self._over = True

    def _open(self, name: bytes) -> None:
        deep = 1 + self._run
        self._depth += deep
        self._run = 0
        self._over |= len(self._element_names) > MAX_NAMES
        self._drawings += name in (b"svg", b"math")
        self._selects |= name == b"select"
        if name in _WALLS:
            self._scopes.append(_OpenElements(name, deep))
        else:
            scope = self._scopes[-1]
            scope.stack.append((name, deep))
            scope.names[name] += 1

    def _close(self, name: bytes) -> None:
        scope = self._scopes[-1]
        if name in _FORMATTING:
            self._unformat(scope, name)
        elif name == scope.boundary:
            self._leave(scope)
        elif scope.names[name]:
            while scope.stack:
                popped, deep = scope.stack.pop()
                scope.names[popped] -= 1
                self._depth -= deep
                # The formatting around it is the innermost again.
                self._run = deep - 1
                self._drawings -= popped in (b"svg", b"math")
                if popped == name:
                    break

    def _leave(self, scope: _OpenElements) -> None:
        self._scopes.pop()
        self._depth -= scope.deep + sum(deep for _, deep in scope.stack)
        self._run = scope.deep - 1
        self._drawings -= sum(popped in (b"svg", b"math") for popped, _ in scope.stack)
        self._active -= sum(map(len, scope.active.values()))

    def _format(self, name: bytes, attributes: bytes) -> None:
        scope = self._scopes[-1]
        if name in (b"a", b"nobr") and scope.active.get(name):
            # A second one ends the first.
            self._unformat(scope, name)
        # The standard keeps at most three equal ones. They nest all the same.
        self._run += 1
        written = name + attributes
        if scope.alike[written] < 3:
            scope.alike[written] += 1
            scope.active.setdefault(name, []).append((written, self._depth))
            self._active += 1
            self._over |= self._active > MAX_ACTIVE

    def _unformat(self, scope: _OpenElements, name: bytes) -> None:
        if opened := scope.active.get(name):
            written, depth = opened.pop()
            scope.alike[written] -= 1
            self._active -= 1
            if self._depth > depth:
                self._copies += _CLONES
        self._run -= self._run > 0

    def _enter_cell(self) -> None:
        scope = self._scopes[-1]
        if scope.cell:
            self._active -= sum(map(len, scope.active.values()))
            scope.active.clear()
            scope.alike.clear()
        scope.cell = True
