"""XPath and JMESPath queries with parsel, which the ``xpath`` extra installs.

It reads the page a second time into a tree of its own (libxml2's), so what it returns are parsel's
selectors. They have the same methods as ``extract.selector`` and can be followed like those.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Mapping
from typing import Any

from skitter.errors import ExtraMissingError
from skitter.extract.css_selectors import SelectorError


def of_page(text: str, *, xml: bool) -> Any:
    """Return a selector of parsel for a whole page."""
    return _read_xml(text) if xml else _read(text, "html")


def of_element(html: str) -> Any:
    """Return a selector of parsel for one element without its page: its ancestors and siblings are missing."""
    found = _read(html, "html").xpath("/html/body/*[1] | /html/head/*[1]")
    # <html>, <head> and <body> themselves are merged into the tree around them.
    return found[0] if len(found) == 1 else _read(html, "html")


def _read(text: str, kind: str) -> Any:
    # Without the limits of libxml2 a page may take as much memory, and as deep a recursion, as it likes. With them a
    # page ends where it passes one, and parsel would warn of each.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return _parsel().Selector(text=text, type=kind, huge_tree=False)


def _read_xml(text: str) -> Any:
    """Parse like ``_read``, with a parser that expands no entities, loads no DTD and uses no network.

    Malformed parts are skipped, as in HTML.
    """
    parsel, etree = _parsel(), importlib.import_module("lxml.etree")
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, encoding="utf-8"
    )
    source = text.replace("\0", "").strip().encode("utf-8", "replace")
    try:
        root = etree.fromstring(source, parser)
    except etree.XMLSyntaxError:
        root = None
    return parsel.Selector(root=etree.Element("empty") if root is None else root, type="xml")


def evaluate(selector: Any, query: str, namespaces: Mapping[str, str] | None, variables: dict[str, Any]) -> Any:
    """Return the matches of ``query`` as a SelectorList of parsel."""
    try:
        return selector.xpath(query, namespaces=namespaces, **variables)
    except ValueError as error:
        raise SelectorError(f"invalid XPath: {query}", hint=str(error)) from error


def json_query(text: str, query: str) -> Any:
    """Return the matches of a JMESPath ``query`` in JSON as a SelectorList of parsel.

    Raises ValueError if the text is not JSON.
    """
    parsel = _parsel()
    try:
        return parsel.Selector(root=json.loads(text), type="json").jmespath(query)
    except RecursionError as error:
        raise SelectorError("the JSON is nested too deeply for a query", hint="response.text has it") from error
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError):
            raise
        raise SelectorError(f"invalid JMESPath: {query}", hint=" ".join(str(error).split())) from error


def nothing() -> Any:
    """Return an empty parsel SelectorList, for a page that is not markup."""
    return _parsel().SelectorList()


def _parsel() -> Any:
    try:
        return importlib.import_module("parsel")
    except ImportError as error:
        raise ExtraMissingError("response.xpath() and jmespath()", "xpath") from error
