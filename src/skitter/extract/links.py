"""Where a page's links lead, before they are joined: the hrefs, the base, and their encoding.

Joining them and judging the result is for ``model.url``; scope and dedup come after the callback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

from selectolax.lexbor import LexborNode

from skitter.errors import UrlError, UsageError
from skitter.extract.selector import Selector, find
from skitter.model.url import absolute

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LINKS = frozenset(("a", "area"))
_NOFOLLOW = frozenset(("nofollow", "ugc", "sponsored"))


class Hrefs(NamedTuple):
    """The hrefs of ``a`` and ``area``, without fragments, and that of ``base``."""

    all: list[str]
    """Each once, in order."""
    base: str | None
    nofollow: list[str]
    """Of links with ``rel=nofollow``, ``ugc`` or ``sponsored``."""
    others: list[str]
    """Of the other links, where there are any of those."""


def read_hrefs(root: LexborNode) -> Hrefs:
    """One search for everything: each search of the tree costs as much as reading all its links."""
    hrefs: dict[str, None] = {}
    base: str | None = None
    nofollow = []
    nodes = find(root, "[href]")
    for node in nodes:
        tag = node.tag
        if tag in _LINKS:
            # All of them at once: to ask a second time, for ``rel``, costs more than to read what nobody wants.
            attributes = node.attributes
            # An svg link has none: it has xlink:href.
            if (href := attributes.get("href")) is not None:
                # The fragment goes first, so that ten anchors of one page are joined once.
                href = href if "#" not in href else href[: href.index("#")]
                hrefs[href] = None
                if "rel" in attributes and _is_nofollow(attributes["rel"]):
                    nofollow.append(href)
        elif tag == "base" and base is None:
            base = node.attributes.get("href")
    return Hrefs(list(hrefs), base, nofollow, _others(nodes) if nofollow else [])


def _others(nodes: Iterable[LexborNode]) -> list[str]:
    attributes = [node.attributes for node in nodes if node.tag in _LINKS]
    links = [(each.get("href"), each.get("rel")) for each in attributes]
    return [href.partition("#")[0] for href, rel in links if href is not None and not _is_nofollow(rel)]


def _is_nofollow(rel: str | None) -> bool:
    return rel is not None and not _NOFOLLOW.isdisjoint(rel.lower().split())


def base_of(root: LexborNode) -> str | None:
    """The href of the first ``<base href>``."""
    found = find(root, "base[href]")
    return found[0].attrs.get("href") if found else None


def base_url(page_url: str, base: str | None) -> str:
    """What relative links are relative to. A base that cannot be crawled is ignored, as in browsers."""
    try:
        return absolute(base, page_url) if base else page_url
    except UrlError:
        return page_url


def href_of(link: Any) -> str:
    """Where one link leads: text itself, the value of a ``::attr()``, or the href (or src) of an element."""
    if isinstance(link, str):
        return link
    if isinstance(link, list):
        raise UsageError("follow wants one link, not a list", hint="follow_all() takes many; or follow(links[0])")
    # parsel's selectors keep a text or an attribute as their root.
    if (isinstance(link, Selector) and link.tag is None) or isinstance(getattr(link, "root", None), str):
        return str(link.get())
    attributes = getattr(link, "attrib", {})
    href = attributes.get("href", attributes.get("src"))
    if href is None:
        raise UrlError(
            "unparsable", f"not a link: {str(link)[:200]}", hint="follow text, or an element with href or src"
        )
    return str(href)


def in_encoding(href: str, codec: str) -> str:
    """The href with its query escaped in the page's encoding, as browsers send it: old sites expect that."""
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


def _whole(text: str) -> str:
    """Text without halves of surrogate pairs, which JSON may bring and no URL can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
