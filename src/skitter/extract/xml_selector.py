"""Selectors of XML: matches of CSS selectors on a page of XML, in the tree that parsel parses for XPath.

Names of elements and attributes count without their namespaces, as CSS has it; XPath tells namespaces apart.
"""

from __future__ import annotations

from typing import Any

from skitter.errors import ExtraMissingError
from skitter.extract import xpath
from skitter.extract.css_selectors import SelectorError
from skitter.extract.selector import Selector, SelectorList


class XmlSelector(Selector):
    """Match of a CSS selector in XML."""

    __slots__ = ("_found",)

    def __init__(self, found: Any) -> None:
        """``found`` is the selector of parsel."""
        super().__init__(None)
        self._found = found

    def css(self, query: str) -> SelectorList:
        return select_xml(self._found, query)

    def xpath(self, query: str, namespaces: dict[str, str] | None = None, **variables: Any) -> Any:
        return xpath.evaluate(self._found, query, namespaces, variables)

    def get(self) -> str:
        return str(self._found.get())

    @property
    def text(self) -> str:
        return (self.get() if self.tag is None else str(self._found.root.xpath("string()"))).strip()

    @property
    def tag(self) -> str | None:
        tag = getattr(self._found.root, "tag", None)
        return tag if isinstance(tag, str) else None

    @property
    def attrib(self) -> dict[str, str]:
        return {} if self.tag is None else dict(self._found.attrib)

    def __repr__(self) -> str:
        return f"<XmlSelector {self.tag or 'text'} {self.get()[:40]!r}>"


def without_namespaces(text: str) -> Any:
    """Return the selector of parsel for a page of XML, or None if the extra ``xpath`` is not installed."""
    try:
        page = xpath.of_page(text, xml=True)
    except ExtraMissingError:
        return None
    page.remove_namespaces()
    return page


def select_xml(page: Any, query: str) -> SelectorList:
    """Return the matches of a spider's selector."""
    # It comes with parsel.
    import cssselect

    try:
        return SelectorList(map(XmlSelector, page.css(query)))
    except (cssselect.SelectorError, ValueError) as error:
        raise SelectorError(f"invalid selector: {query}", hint=str(error)) from error
