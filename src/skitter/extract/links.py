"""Where a page's links lead, before they are joined: the hrefs, the base, and their encoding.

Joining them and judging the result is for ``model.url``; scope and dedup come after the callback.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from selectolax.lexbor import LexborNode

from skitter.errors import UrlError, UsageError
from skitter.extract.selector import Selector, find
from skitter.model.url import absolute

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LINKS = frozenset(("a", "area"))
_NOFOLLOW = frozenset(("nofollow", "ugc", "sponsored"))
_NOFOLLOW_BYTES = tuple(word.encode() for word in sorted(_NOFOLLOW))


def hrefs_and_base(root: LexborNode) -> tuple[list[str], str | None]:
    """The different hrefs of ``a`` and ``area``, without fragments, in order; and that of ``base``."""
    hrefs: dict[str, None] = {}
    base: str | None = None
    # One query for all three: each search of the tree costs as much as reading all its links.
    for node in find(root, "[href]"):
        tag = node.tag
        if tag in _LINKS:
            try:
                href = node.attrs["href"]
            except KeyError:  # an svg link: xlink:href
                continue
            if href is not None:
                # The fragment goes first, so that ten anchors of one page are joined once.
                hrefs[href if "#" not in href else href[: href.index("#")]] = None
        elif tag == "base" and base is None:
            base = node.attrs.get("href")
    return list(hrefs), base


def nofollow_hrefs(root: LexborNode) -> tuple[list[str], list[str]]:
    """The hrefs of links with ``rel=nofollow``, ``ugc`` or ``sponsored``; and, where there are any, of the others."""
    if not any(node.tag in _LINKS and _is_nofollow(node) for node in find(root, "[rel]")):
        return [], []
    hrefs: tuple[list[str], list[str]] = ([], [])
    for node in find(root, "[href]"):
        if node.tag in _LINKS and (href := node.attributes.get("href")) is not None:
            hrefs[not _is_nofollow(node)].append(href.partition("#")[0])
    return hrefs


def may_say_nofollow(body: bytes) -> bool:
    """Whether the page can have such a link at all: most have none, and looking for the words is half the cost of
    searching the tree. (A word that is written with character references is not found. Nobody writes it so.)"""
    text = body.lower()
    return any(word in text for word in _NOFOLLOW_BYTES)


def _is_nofollow(node: LexborNode) -> bool:
    return not _NOFOLLOW.isdisjoint((node.attributes.get("rel") or "").lower().split())


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
