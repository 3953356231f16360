"""Filters of links: by regular expressions, domains and extensions of the URL, and by regions of the page.

``Response.links`` and the rules of spiders use them. The author of the spider writes the expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from re import Pattern
from typing import Any, TypeAlias, TypeVar

from selectolax.lexbor import LexborNode

from skitter.errors import UsageError
from skitter.policy.scope import Scope

Patterns: TypeAlias = "str | Pattern[str] | Iterable[str | Pattern[str]]"
"""One or several regular expressions, compiled or not."""
Texts: TypeAlias = "str | Iterable[str]"
"""One or several texts."""
_XPATH_BEGINS = ("/", "./", "../", "(", "id(", "descendant::")
_Node = TypeVar("_Node")


class LinkFilter:
    """Filter of URLs. A URL passes if it matches one of ``allow``, or ``allow`` is empty, and none of ``deny``."""

    __slots__ = ("_allow", "_deny", "_extensions", "_scope")

    def __init__(
        self, *, allow: Patterns = (), deny: Patterns = (), domains: Texts = (), extensions: Texts = ()
    ) -> None:
        """``domains`` include their subdomains. ``extensions`` are those of the path; "" matches a path without one."""
        self._allow = tuple(map(_expression, _several(allow, "allow")))
        self._deny = tuple(map(_expression, _several(deny, "deny")))
        self._extensions = frozenset(text.lower().removeprefix(".") for text in _texts(extensions, "extensions"))
        names = _texts(domains, "domains")
        self._scope = Scope(domains=names) if names else None

    def __call__(self, url: str) -> bool:
        if self._allow and not any(pattern.search(url) for pattern in self._allow):
            return False
        if self._deny and any(pattern.search(url) for pattern in self._deny):
            return False
        if self._extensions and extension_of(url) not in self._extensions:
            return False
        return self._scope is None or self._scope.rule_against(url, 0) is None


def extension_of(url: str) -> str:
    """Return the extension of an absolute URL's path in lower case, or an empty string."""
    name = url.partition("?")[0].rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def link_filter(allow: Patterns, deny: Patterns, domains: Texts, extensions: Texts) -> LinkFilter:
    """Return the filter for these arguments. It is cached, since a spider passes the same ones for every page."""
    return _made(
        tuple(_several(allow, "allow")),
        tuple(_several(deny, "deny")),
        tuple(_texts(domains, "domains")),
        tuple(_texts(extensions, "extensions")),
    )


@lru_cache(maxsize=256)
def _made(
    allow: tuple[str | Pattern[str], ...],
    deny: tuple[str | Pattern[str], ...],
    domains: tuple[str, ...],
    extensions: tuple[str, ...],
) -> LinkFilter:
    return LinkFilter(allow=allow, deny=deny, domains=domains, extensions=extensions)


def regions(restrict: Texts) -> tuple[str, ...]:
    """Return the selectors of ``restrict`` as a tuple."""
    return tuple(_texts(restrict, "restrict"))


def is_xpath(selector: str) -> bool:
    """Return whether a selector is XPath: it begins as no CSS selector can."""
    return selector.lstrip().startswith(_XPATH_BEGINS)


def outermost(nodes: Iterable[LexborNode]) -> list[LexborNode]:
    """Return the elements that are not inside another of them."""
    return list(_outermost(nodes, lambda node: node.mem_id, lambda node: node.parent))


def outermost_of_lxml(elements: Iterable[Any]) -> list[Any]:
    """Return the elements of an lxml tree that are not inside another of them."""
    return list(_outermost(elements, id, lambda element: element.getparent()))


def _outermost(
    nodes: Iterable[_Node], key: Callable[[_Node], int], parent_of: Callable[[_Node], _Node | None]
) -> Iterator[_Node]:
    # The nodes are kept: the id of one that is gone may be that of another. Each ancestor is visited once, since a page
    # may have its regions as deep in each other as it likes.
    chosen = {key(node): node for node in nodes}
    inside: dict[int, bool] = {}
    seen: list[_Node] = []
    for node in chosen.values():
        path = []
        place = parent_of(node)
        while place is not None and key(place) not in chosen and key(place) not in inside:
            path.append(key(place))
            seen.append(place)
            place = parent_of(place)
        is_inside = place is not None and (key(place) in chosen or inside[key(place)])
        inside.update(dict.fromkeys(path, is_inside))
        if not is_inside:
            yield node


def _several(given: Patterns, name: str) -> Iterable[str | Pattern[str]]:
    found = (given,) if isinstance(given, (str, Pattern)) else tuple(given)
    for each in found:
        if not isinstance(each, (str, Pattern)):
            raise UsageError(
                f"{name} of links must be one or several regular expressions, not {type(each).__name__}",
                hint=f'as in {name}=r"/item/\\d+"',
            )
    return found


def _texts(given: Texts, name: str) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    for each in found:
        if not isinstance(each, str):
            raise UsageError(f"{name} of links must be one or several texts, not {type(each).__name__}")
    return found


def _expression(pattern: str | Pattern[str]) -> Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"not a regular expression: {pattern!r:.200}", hint=str(error)) from error
