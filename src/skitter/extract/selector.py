"""Selectors: elements, texts and attribute values found on a page by CSS.

Methods and results are those of parsel; the engine is lexbor, through selectolax.
``extract.css_selectors`` parses the selectors; ``extract.xpath`` evaluates XPath.
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
    """One match of a CSS selector: an element, or the text that ``::text`` or ``::attr()`` selects.

    The methods are those of parsel.
    """

    __slots__ = ("_node", "_value")

    def __init__(self, node: LexborNode | None, value: str | None = None) -> None:
        self._node = node
        self._value = value

    @property
    def node(self) -> LexborNode | None:
        """Element in the tree of selectolax, or None for a text or an attribute. Do not modify it."""
        return self._node

    def css(self, query: str) -> SelectorList:
        """Return all matches of a CSS selector in this element, including the element itself."""
        return select(self._node, query, marked=True) if self._node is not None else SelectorList()

    def xpath(self, query: str, namespaces: dict[str, str] | None = None, **variables: Any) -> Any:
        """Return all matches of an XPath expression in this element, as parsel's SelectorList.

        Needs the extra ``xpath``.
        """
        if self._node is None:
            return xpath.nothing()
        return xpath.evaluate(xpath.of_element(self.get()), query, namespaces, variables)

    def get(self) -> str:
        """Return the HTML of an element, or the text or attribute value."""
        if self._node is None:
            return self._value or ""
        return self._node.html or ""

    def getall(self) -> list[str]:
        """Return the value of ``get()`` in a list, like ``SelectorList.getall``."""
        return [self.get()]

    def extract(self) -> str:
        """Alias of ``get()``, under its older name."""
        return self.get()

    def jmespath(self, query: str) -> Any:
        """Parse the text as JSON and return all matches of a JMESPath expression. Needs the extra ``xpath``."""
        return xpath.json_query(self.get(), query)

    def re(self, pattern: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        """Return the matches of a regular expression in ``get()``.

        If the expression has a group named ``extract``, only the first match of that group is returned. Otherwise all
        groups of every match are returned or, without groups, every whole match.
        """
        return _matches(pattern, self.get(), replace_entities)

    def re_first(
        self, pattern: str | Pattern[str], default: str | None = None, replace_entities: bool = True
    ) -> str | None:
        """Return the first match of a regular expression in ``get()``, or ``default``."""
        return next(iter(self.re(pattern, replace_entities)), default)

    @property
    def text(self) -> str:
        """All text inside the element, at any depth, with surrounding white space removed."""
        return (self._node.text() if self._node is not None else self._value or "").strip()

    @property
    def tag(self) -> str | None:
        """Tag name of the element; None for a text or an attribute."""
        return self._node.tag if self._node is not None else None

    @property
    def attrib(self) -> dict[str, str]:
        """Attributes of the element; an attribute without a value is an empty string."""
        if self._node is None:
            return {}
        return {name: value or "" for name, value in self._node.attributes.items()}

    def __repr__(self) -> str:
        kind = f"<{self.tag}>" if self._node is not None else "text"
        return f"<Selector {kind} {self.get()[:40]!r}>"


class SelectorList(list[Selector]):
    """List of all matches of a selector, in document order. Its methods apply to every member."""

    __slots__ = ()

    def css(self, query: str) -> SelectorList:
        """Return all matches of a CSS selector in the members."""
        return SelectorList(found for selector in self for found in selector.css(query))

    def xpath(self, query: str, namespaces: dict[str, str] | None = None, **variables: Any) -> Any:
        """Return all matches of an XPath expression in the members. Needs the extra ``xpath``."""
        found = xpath.nothing()
        for selector in self:
            found.extend(selector.xpath(query, namespaces, **variables))
        return found

    @overload
    def get(self, default: None = None) -> str | None: ...
    @overload
    def get(self, default: str) -> str: ...
    def get(self, default: str | None = None) -> str | None:
        """Return ``get()`` of the first member, or ``default`` if the list is empty."""
        return self[0].get() if self else default

    def getall(self) -> list[str]:
        """Return ``get()`` of every member."""
        return [selector.get() for selector in self]

    def extract(self) -> list[str]:
        """Alias of ``getall()``, under its older name."""
        return self.getall()

    def extract_first(self, default: str | None = None) -> str | None:
        """Alias of ``get()``, under its older name."""
        return self[0].get() if self else default

    def jmespath(self, query: str) -> Any:
        """Parse each member as JSON and return all matches of a JMESPath expression. Needs the extra ``xpath``."""
        found = xpath.nothing()
        for selector in self:
            found.extend(selector.jmespath(query))
        return found

    def re(self, pattern: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        """Return the matches of a regular expression in all members, as ``Selector.re`` does."""
        return [match for selector in self for match in selector.re(pattern, replace_entities)]

    def re_first(
        self, pattern: str | Pattern[str], default: str | None = None, replace_entities: bool = True
    ) -> str | None:
        """Return the first match of a regular expression in any member, or ``default``."""
        for selector in self:
            for match in selector.re(pattern, replace_entities):
                return match
        return default

    @property
    def text(self) -> str:
        """Text of the first member, or an empty string if the list is empty."""
        return self[0].text if self else ""

    @property
    def attrib(self) -> dict[str, str]:
        """Attributes of the first member, or an empty dict if the list is empty."""
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
    """Return the elements that match at or below ``node``, in document order."""
    try:
        return _ENGINE.find(query, node)
    except (SelectolaxError, UnicodeError) as error:
        hint = 'quote values that are not plain words: a[href="/x"]'
        raise SelectorError(f"invalid selector: {query}", hint=hint) from error


def select(node: LexborNode, selector: str, *, marked: bool) -> SelectorList:
    """Return the matches of a spider's selector. ``marked``: ``node`` is an element that limits the search."""
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
    """Return the elements at and below ``root`` whose whole text contains ``text``.

    The text of each element is a range of the text of ``root``, so nested elements do not read the same text again.
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
    """Return the texts directly inside the elements, in document order."""
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
    """Return whether one of the elements is inside another. Each ancestor is visited once."""
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
