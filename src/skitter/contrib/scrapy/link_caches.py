"""Caches for pure functions of Scrapy that are called for every link of every page.

On a documentation site, three quarters of a spider's CPU time went into joining and escaping URLs that were on earlier
pages too. The set of functions depends on the installed version; those that are not found are left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib import import_module
from typing import Any
from urllib.parse import ParseResult, urljoin

RESULTS = 65_536
"""Number of cached results per function."""
_XHTML = "http://www.w3.org/1999/xhtml"
_LINKS = "scrapy.linkextractors.lxmlhtml"
CACHED: dict[str, tuple[str, ...]] = {
    _LINKS: ("urljoin", "urlparse", "safe_url_string", "canonicalize_url", "strip_html5_whitespace"),
    "scrapy.http.request": ("safe_url_string",),
    "scrapy.http.response.text": ("urljoin",),
    "scrapy.http.response": ("urljoin",),
}
"""Functions to cache, by the module that imports them."""


def install() -> None:
    """Install the caches in this process."""
    made: dict[Any, Any] = {urljoin: _FolderJoins()}
    for module_name, names in CACHED.items():
        module = import_module(module_name)
        for name in names:
            function = getattr(module, name, None)
            if callable(function) and not isinstance(function, _KINDS):
                # Modules that import the same function share one cache.
                vars(module)[name] = made.setdefault(function, _Cached(function))
    links = import_module(_LINKS)
    if not isinstance(found := getattr(links, "url_has_any_extension", None), (_Extensions, type(None))):
        vars(links)["url_has_any_extension"] = _Extensions(found)
    extractor: Any = getattr(links, "LxmlParserLinkExtractor", None)
    original = getattr(extractor, "_iter_links", None)
    if original is not None and hasattr(links, "_name_matches") and original.__module__ == _LINKS:
        extractor._iter_links = _iter_links_of(original, links._name_matches)  # noqa: SLF001


class _Cached:
    """Function with cached results."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._remembered = lru_cache(RESULTS)(function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        try:
            return self._remembered(*arguments, **keywords)
        except TypeError:
            # An argument is not hashable; or the function itself raised it, and raises it again here.
            return self._function(*arguments, **keywords)


class _FolderJoins:
    """``urljoin`` with results cached by the folder of the page, so that a site's menu is joined once per folder."""

    def __init__(self) -> None:
        self._joined = lru_cache(RESULTS)(urljoin)

    def __call__(self, base: Any, url: Any, allow_fragments: bool = True) -> Any:
        if type(base) is not str or not isinstance(url, str) or not allow_fragments:
            return urljoin(base, url, allow_fragments)
        first = url[:1]
        # Other references ("#part", "?page=2", empty) depend on the whole URL of the page, not only on its folder.
        if not (first.isalnum() or first in ("/", ".")) or not first:
            return urljoin(base, url)
        end = len(base)
        for mark in "?#":
            if (found := base.find(mark, 0, end)) >= 0:
                end = found
        slash = base.rfind("/", 8, end)
        return self._joined(base[: slash + 1], url) if slash > 0 else urljoin(base, url)


class _Extensions:
    """``url_has_any_extension`` with a single comparison for all extensions."""

    def __init__(self, function: Callable[..., bool]) -> None:
        self._function = function
        self._suffixes: dict[int, tuple[Any, tuple[str, ...]]] = {}
        """Extensions as a tuple, by the id of the set. The set is kept too, so that its id is not reused."""

    def __call__(self, url: Any, extensions: Any) -> bool:
        if not isinstance(extensions, (set, frozenset)) or not isinstance(url, ParseResult):
            return self._function(url, extensions)
        known = self._suffixes.get(id(extensions))
        if known is None:
            known = self._suffixes[id(extensions)] = (extensions, tuple(extensions))
        return url.path.lower().endswith(known[1])


_KINDS = (_Cached, _FolderJoins)


def _iter_links_of(original: Callable[..., Any], name_matches: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that lets lxml search for the tags, if the tag names are known."""

    def iter_links(self: Any, document: Any) -> Iterator[Any]:
        scan = self.scan_tag
        is_known = isinstance(scan, partial) and scan.func is name_matches and len(scan.args) == 2
        allowed, denied = scan.args if is_known else (("*",), ())
        if "*" in allowed:
            found: Iterator[Any] = original(self, document)
            return found
        names = [name for name in allowed if name not in denied]
        return _links_of(document, [*names, *(f"{{{_XHTML}}}{name}" for name in names)], self.scan_attr)

    return iter_links


def _links_of(document: Any, tags: list[str], scan_attr: Callable[[str], bool]) -> Iterator[Any]:
    if not tags:
        return
    for element in document.iter(*tags):
        attributes = element.attrib
        for name in attributes:
            if scan_attr(name):
                yield element, name, attributes[name]
