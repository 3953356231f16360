"""XPath queries by parsel, which the ``xpath`` extra installs.

It reads the page a second time into a tree of its own (libxml2's), so what it returns are parsel's
selectors. They have the same methods as ``extract.selector`` and can be followed like those.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from skitter.errors import ExtraMissingError
from skitter.extract.css_selectors import SelectorError


def of_page(text: str, *, xml: bool) -> Any:
    """A parsel selector for a whole page."""
    return _read(text, "xml" if xml else "html")


def of_element(html: str) -> Any:
    """A parsel selector for one element, cut out of its page: its ancestors and siblings are not there."""
    found = _read(html, "html").xpath("/html/body/*[1] | /html/head/*[1]")
    # <html>, <head> and <body> themselves are merged into the tree around them.
    return found[0] if len(found) == 1 else _read(html, "html")


def _read(text: str, kind: str) -> Any:
    # Without the limits of libxml2 a page may take as much memory, and as deep a recursion, as it likes. With them a
    # page ends where it passes one, and parsel would warn of each.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return _parsel().Selector(text=text, type=kind, huge_tree=False)


def evaluate(selector: Any, query: str, variables: dict[str, Any]) -> Any:
    """The parsel SelectorList that ``query`` finds."""
    try:
        return selector.xpath(query, **variables)
    except ValueError as error:
        raise SelectorError(f"an XPath cannot be understood: {query}", hint=str(error)) from error


def nothing() -> Any:
    """Return an empty parsel SelectorList, for a page that is not markup."""
    return _parsel().SelectorList()


def _parsel() -> Any:
    try:
        return importlib.import_module("parsel")
    except ImportError as error:
        raise ExtraMissingError("response.xpath()", "xpath") from error
