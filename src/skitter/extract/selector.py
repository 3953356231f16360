"""Selectors: elements, texts and attribute values found on a page by CSS.

Methods and results are parsel's; the engine is lexbor, by selectolax.
``extract.css_selectors`` takes the selectors apart; ``extract.xpath`` does XPath.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterable
from re import Pattern
from typing import Any, SupportsIndex, overload

from selectolax.lexbor import LexborCSSSelector, LexborNode, SelectolaxError

from skitter.extract import xpath
from skitter.extract.css_selectors import CONTAINS_MARK, SCOPE_MARK, SelectorError, Step, compiled

# No number of a character has so many digits, and int() refuses thousands of them.
_ENTITY = re.compile(r"&(?!lt;|amp;)(?:#\d{1,32}|#[xX][0-9a-fA-F]{1,32}|\w{1,40});")


class _Engine(threading.local):
    # A parser makes an engine of its own at its first query, which costs as much as the parse of a small page
    # (14 us), so one is kept. It is not safe to share between threads.
    def __init__(self) -> None:
        self.find = LexborCSSSelector().find  # type: ignore[no-untyped-call]


_ENGINE = _Engine()


class Selector:
    """One match of a CSS selector: an element, or a text by ``::text`` or ``::attr()``. The methods are parsel's."""

    __slots__ = ("_node", "_value")

    def __init__(self, node: LexborNode | None, value: str | None = None) -> None:
        self._node = node
        self._value = value

    @property
    def node(self) -> LexborNode | None:
        """The element of selectolax's tree; None for a text or an attribute. It is not safe to change."""
        return self._node

    def css(self, query: str) -> SelectorList:
        """All that a CSS selector matches in this element, itself included."""
        return select(self._node, query, marked=True) if self._node is not None else SelectorList()

    def xpath(self, query: str, namespaces: dict[str, str] | None = None, **variables: Any) -> Any:
        """All that an XPath expression matches in this element, as parsel's SelectorList. Needs the extra ``xpath``."""
        if self._node is None:
            return xpath.nothing()
        return xpath.evaluate(xpath.of_element(self.get()), query, namespaces, variables)

    def get(self) -> str:
        """The text or the attribute's value; of an element, its HTML."""
        if self._node is None:
            return self._value or ""
        return self._node.html or ""

    def getall(self) -> list[str]:
        """``get()`` in a list, as a SelectorList has it."""
        return [self.get()]

    def extract(self) -> str:
        """``get()`` by its older name."""
        return self.get()

    def jmespath(self, query: str) -> Any:
        """All that a JMESPath expression matches in the text read as JSON. Needs the extra ``xpath``."""
        return xpath.json_query(self.get(), query)

    def re(self, pattern: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        """All matches of a regular expression in ``get()``: the group ``extract``, all groups, or the whole match."""
        return _matches(pattern, self.get(), replace_entities)

    def re_first(
        self, pattern: str | Pattern[str], default: str | None = None, replace_entities: bool = True
    ) -> str | None:
        """The first match of a regular expression in ``get()``, or ``default``."""
        return next(iter(self.re(pattern, replace_entities)), default)

    @property
    def text(self) -> str:
        """All text inside, however deep, without the white space around it."""
        return (self._node.text() if self._node is not None else self._value or "").strip()

    @property
    def tag(self) -> str | None:
        """The element's name; None for a text or an attribute."""
        return self._node.tag if self._node is not None else None

    @property
    def attrib(self) -> dict[str, str]:
        """The element's attributes; one without a value is empty."""
        if self._node is None:
            return {}
        return {name: value or "" for name, value in self._node.attributes.items()}

    def __repr__(self) -> str:
        kind = f"<{self.tag}>" if self._node is not None else "text"
        return f"<Selector {kind} {self.get()[:40]!r}>"


class SelectorList(list[Selector]):
    """All matches of a selector, in the order of the page. It is a list; its methods work on every member."""

    __slots__ = ()

    def css(self, query: str) -> SelectorList:
        """All that a CSS selector matches in any of them."""
        return SelectorList(found for selector in self for found in selector.css(query))

    def xpath(self, query: str, namespaces: dict[str, str] | None = None, **variables: Any) -> Any:
        """All that an XPath expression matches in any of them. Needs the extra ``xpath``."""
        found = xpath.nothing()
        for selector in self:
            found.extend(selector.xpath(query, namespaces, **variables))
        return found

    @overload
    def get(self, default: None = None) -> str | None: ...
    @overload
    def get(self, default: str) -> str: ...
    def get(self, default: str | None = None) -> str | None:
        """``get()`` of the first one, or ``default`` where nothing was found."""
        return self[0].get() if self else default

    def getall(self) -> list[str]:
        """``get()`` of each."""
        return [selector.get() for selector in self]

    def extract(self) -> list[str]:
        """``getall()`` by its older name."""
        return self.getall()

    def extract_first(self, default: str | None = None) -> str | None:
        """``get()`` by its older name."""
        return self[0].get() if self else default

    def jmespath(self, query: str) -> Any:
        """All that a JMESPath expression matches in any of them, each read as JSON. Needs the extra ``xpath``."""
        found = xpath.nothing()
        for selector in self:
            found.extend(selector.jmespath(query))
        return found

    def re(self, pattern: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        """All matches of a regular expression in any of them."""
        return [match for selector in self for match in selector.re(pattern, replace_entities)]

    def re_first(
        self, pattern: str | Pattern[str], default: str | None = None, replace_entities: bool = True
    ) -> str | None:
        """The first match of a regular expression in any of them, or ``default``."""
        for selector in self:
            for match in selector.re(pattern, replace_entities):
                return match
        return default

    @property
    def text(self) -> str:
        """The text of the first one, or an empty text."""
        return self[0].text if self else ""

    @property
    def attrib(self) -> dict[str, str]:
        """The attributes of the first one, or an empty dict."""
        return self[0].attrib if self else {}

    @overload
    def __getitem__(self, place: SupportsIndex) -> Selector: ...
    @overload
    def __getitem__(self, place: slice) -> SelectorList: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Selector | SelectorList:
        if isinstance(place, slice):
            return SelectorList(super().__getitem__(place))
        return super().__getitem__(place)


def find(node: LexborNode, query: str) -> list[LexborNode]:
    """The elements that the engine finds below and at ``node``, in the order of the page."""
    try:
        return _ENGINE.find(query, node)
    except (SelectolaxError, UnicodeError) as error:
        hint = 'values that are not plain words want quotes: a[href="/x"]'
        raise SelectorError(f"a selector cannot be understood: {query}", hint=hint) from error


def select(node: LexborNode, selector: str, *, marked: bool) -> SelectorList:
    """Return the matches of a spider's selector; ``marked``: ``node`` is an element that bounds the search."""
    results = SelectorList()
    for step in compiled(selector):
        elements = _elements(node, step, marked)
        if step.take == "element":
            results.extend(map(Selector, elements))
        elif step.take == "text":
            results.extend(Selector(None, text) for text in _own_texts(elements, node))
        else:
            name = step.take[1:]
            for element in elements:
                attributes = element.attributes
                if name in attributes:
                    results.append(Selector(None, attributes[name] or ""))
    return results


def _elements(node: LexborNode, step: Step, marked: bool) -> list[LexborNode]:
    if not step.contains:
        return _found(node, step, marked)
    marks = [(f"{CONTAINS_MARK}{place}", containing(node, text)) for place, text in enumerate(step.contains)]
    try:
        for mark, elements in marks:
            for element in elements:
                element.attrs[mark] = ""
        return _found(node, step, marked)
    finally:
        for mark, elements in marks:
            for element in elements:
                del element.attrs[mark]


def _found(node: LexborNode, step: Step, marked: bool) -> list[LexborNode]:
    if not marked or step.marked is None:
        elements = find(node, step.query)
    else:
        attributes = node.attrs
        attributes[SCOPE_MARK] = ""
        try:
            elements = find(node, step.marked)
        finally:
            del attributes[SCOPE_MARK]
    return list(dict.fromkeys(elements)) if step.several else elements


def containing(root: LexborNode, text: str) -> list[LexborNode]:
    """Return the elements at and below ``root`` whose whole text contains this one.

    Their texts are ranges of the text of ``root``, so that no text is read once for each element around it.
    """
    pieces: list[str] = []
    length = 0
    ranges: list[tuple[LexborNode, int, int]] = []
    around: list[tuple[LexborNode, int, int]] = []
    for node in root.traverse(include_text=True):
        parent = node.parent
        above = parent.mem_id if parent is not None else 0
        while around and around[-1][1] != above:
            element, _, begin = around.pop()
            ranges.append((element, begin, length))
        if (piece := node.text_content) is not None:
            pieces.append(piece)
            length += len(piece)
        elif node.is_element_node:
            around.append((node, node.mem_id, length))
    ranges += [(element, begin, length) for element, _, begin in around]
    whole = "".join(pieces)
    places: list[int] = []
    place = whole.find(text)
    while place != -1:
        places.append(place)
        place = whole.find(text, place + 1)
    found = []
    for element, begin, end in ranges:
        first = bisect_left(places, begin)
        if first < len(places) and places[first] + len(text) <= end:
            found.append(element)
    return found


def _own_texts(elements: list[LexborNode], scope: LexborNode) -> Iterable[str]:
    """The texts directly inside the elements, in the order of the page."""
    ids = {element.mem_id for element in elements}
    if not _nested(elements, ids):
        return [
            text
            for element in elements
            for child in element.iter(include_text=True)
            if (text := child.text_content) is not None
        ]
    # <p>a<b>b</b>c</p> with both selected is a, b, c: the order is that of the whole tree.
    return [
        text
        for node in scope.traverse(include_text=True)
        if (text := node.text_content) is not None and (parent := node.parent) is not None and parent.mem_id in ids
    ]


def _nested(elements: list[LexborNode], ids: set[int]) -> bool:
    """Return whether one of the elements is inside another. Every ancestor is visited once."""
    clear: set[int] = set()
    for element in elements:
        parent = element.parent
        while parent is not None and (identity := parent.mem_id) not in clear:
            if identity in ids:
                return True
            clear.add(identity)
            parent = parent.parent
    return False


def _matches(pattern: str | Pattern[str], text: str, replace_entities: bool) -> list[str]:
    expression = re.compile(pattern) if isinstance(pattern, str) else pattern
    if "extract" in expression.groupindex:
        # The first match only, as parsel has it.
        first = expression.search(text)
        found = [first["extract"]] if first and first["extract"] is not None else []
    else:
        found = []
        for match in expression.findall(text):
            found.extend(match if isinstance(match, tuple) else (match,))
    if not replace_entities:
        return found
    # A table of all entities, which few spiders want.
    import html

    return [_ENTITY.sub(lambda entity: html.unescape(entity[0]), value) if "&" in value else value for value in found]
