"""Links of a page before they are resolved: the hrefs, the base and the encoding of queries.

``model.url`` resolves and validates them; scope and dedup are applied after the callback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

from selectolax.lexbor import LexborNode

from skitter.errors import UrlError, UsageError
from skitter.extract.link_filter import outermost, outermost_of_lxml
from skitter.extract.selector import Selector, find
from skitter.model.url import absolute

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LINKS = frozenset(("a", "area"))
_NOFOLLOW = frozenset(("nofollow", "ugc", "sponsored"))
_REFRESH = re.compile(
    r"[\t\n\f\r ]*+(?=[0-9.])([0-9]*+)[0-9.]*+(?:\Z|(?=[;,\t\n\f\r ])[\t\n\f\r ]*+[;,]?+[\t\n\f\r ]*+"
    r"(?:url[\t\n\f\r ]*+=[\t\n\f\r ]*+)?+(?:\"([^\"]*+)|'([^']*+)|(.*+)))",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)


class Hrefs(NamedTuple):
    """Result of ``read_hrefs``."""

    links: dict[str, bool]
    """Hrefs of ``a`` and ``area``, without fragments, each once, in order. The value is False if all links to the
    href are nofollow."""
    base: str | None
    """Href of the first ``base``."""
    refreshes: list[tuple[str, str | None]]
    """Content of each ``meta http-equiv=refresh`` outside ``noscript``, and the base before it."""


def read_hrefs(root: LexborNode, codec: str) -> Hrefs:
    """Read all links, refreshes and the base in one search, because a search costs as much as reading all its links.

    ``codec`` is the encoding of the page, in which queries are escaped.
    """
    links: dict[str, bool] = {}
    base: str | None = None
    refreshes: list[tuple[str, str | None]] = []
    for node in find(root, "[href], meta[http-equiv=refresh i]:not(noscript *)"):
        tag = node.tag
        if tag in _LINKS:
            # All of them at once: to ask a second time, for ``rel``, costs more than to read what nobody wants.
            attributes = node.attributes
            # An svg link has none: it has xlink:href.
            if (href := attributes.get("href")) is not None:
                # The fragment is removed first, so that ten anchors of one page are joined once.
                href = href if "#" not in href else href[: href.index("#")]
                if "rel" in attributes and _is_nofollow(attributes["rel"]):
                    links.setdefault(href, False)
                else:
                    links[href] = True
        elif tag == "base" and base is None:
            base = node.attributes.get("href")
        elif tag == "meta":
            refreshes.append((node.attributes.get("content") or "", base))
    return Hrefs(links if codec == "utf-8" else _all_in_encoding(links, codec), base, refreshes)


def read_refresh(content: str) -> tuple[float, str] | None:
    """Return the seconds and the href of a refresh, by the shared declarative refresh steps of the HTML standard."""
    if (match := _REFRESH.match(content)) is None:
        return None
    return float(match[1] or 0), match[2] or match[3] or match[4] or ""


def hrefs_below(node: LexborNode) -> list[str]:
    """Return the hrefs of all links at and below an element, without fragments, in order."""
    attributes = [each.attributes for each in find(node, "[href]") if each.tag in _LINKS]
    return [href.partition("#")[0] for each in attributes if (href := each.get("href")) is not None]


def hrefs_in(found: Iterable[Selector]) -> list[str]:
    """Return the hrefs of all links in the matches of a selector, and the values that its ``::attr(href)`` selected."""
    chosen = list(found)
    values = [selector.get().partition("#")[0] for selector in chosen if selector.node is None]
    nodes = outermost(selector.node for selector in chosen if selector.node is not None)
    return values + [href for node in nodes for href in hrefs_below(node)]


def hrefs_in_lxml(found: Iterable[Any]) -> list[str]:
    """Return the result of ``hrefs_in`` for selectors of parsel."""
    roots = [selector.root for selector in found]
    values = [str(root).partition("#")[0] for root in roots if not hasattr(root, "iter")]
    below = (
        each for root in outermost_of_lxml(root for root in roots if hasattr(root, "iter")) for each in root.iter()
    )
    return values + [
        str(element.get("href")).partition("#")[0]
        for element in below
        # The tag of a comment is a function.
        if isinstance(element.tag, str) and element.tag.rpartition("}")[2] in _LINKS and element.get("href") is not None
    ]


def _is_nofollow(rel: str | None) -> bool:
    """Return whether ``rel`` contains ``nofollow``, or ``ugc`` or ``sponsored``, which imply it."""
    return rel is not None and not _NOFOLLOW.isdisjoint(rel.lower().split())


def base_of(root: LexborNode) -> str | None:
    """Return the href of the first ``<base href>``."""
    found = find(root, "base[href]")
    return found[0].attrs.get("href") if found else None


def base_url(page_url: str, base: str | None) -> str:
    """Return the base URL of relative links; an invalid base is ignored, as in browsers."""
    try:
        return absolute(base, page_url) if base else page_url
    except UrlError:
        return page_url


def href_of(link: Any) -> str:
    """Return the href of a link: a text, the value of a ``::attr()``, or the href (or src) of an element."""
    if isinstance(link, str):
        return link
    if isinstance(link, list):
        raise UsageError("follow takes one link, not a list", hint="follow_all() takes many; or follow(links[0])")
    # parsel's selectors keep a text or an attribute as their root.
    if (isinstance(link, Selector) and link.tag is None) or isinstance(getattr(link, "root", None), str):
        return str(link.get())
    attributes = getattr(link, "attrib", {})
    href = attributes.get("href", attributes.get("src"))
    if href is None:
        raise UrlError(
            "unparsable", f"not a link: {str(link)[:200]}", hint="give a text, or an element with href or src"
        )
    return str(href)


def in_encoding(href: str, codec: str) -> str:
    """Return the href with its query escaped in the encoding of the page, as browsers do and old sites expect."""
    if href.isascii():
        return href
    href = _whole(href)
    if "?" not in href or codec.startswith("utf"):
        return href
    target, mark, fragment = href.partition("#")
    path, question, query = target.partition("?")
    # A character that the encoding lacks is sent as its number, escaped: %26%231234%3B.
    query = _NOT_ASCII.sub(lambda match: quote(match[0], safe="", encoding=codec, errors="xmlcharrefreplace"), query)
    return path + question + query + mark + fragment


def _all_in_encoding(links: dict[str, bool], codec: str) -> dict[str, bool]:
    escaped: dict[str, bool] = {}
    for href, is_followed in links.items():
        escaped_href = in_encoding(href, codec)
        # What was written in two ways may be one.
        escaped[escaped_href] = is_followed or escaped.get(escaped_href, False)
    return escaped


def _whole(text: str) -> str:
    """Return the text without lone surrogates, which JSON may contain and a URL cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
