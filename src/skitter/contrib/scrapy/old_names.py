"""Names that newer versions of Scrapy have removed or moved, for projects that still import them.

The import hook provides a module under an old name only if the installed version has none, so it replaces nothing. It
is installed only in processes that load a Scrapy project.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

MOVED: dict[str, str] = {
    "scrapy.command": "scrapy.commands",
    "scrapy.contrib.closespider": "scrapy.extensions.closespider",
    "scrapy.contrib.downloadermiddleware": "scrapy.downloadermiddlewares",
    "scrapy.contrib.exporter": "scrapy.exporters",
    "scrapy.contrib.feedexport": "scrapy.extensions.feedexport",
    "scrapy.contrib.linkextractors": "scrapy.linkextractors",
    "scrapy.contrib.linkextractors.lxmlhtml": "scrapy.linkextractors.lxmlhtml",
    "scrapy.contrib.linkextractors.sgml": "scrapy.linkextractors",
    "scrapy.contrib.loader": "scrapy.loader",
    "scrapy.contrib.loader.processor": "itemloaders.processors",
    "scrapy.contrib.pipeline": "scrapy.pipelines",
    "scrapy.contrib.spidermiddleware": "scrapy.spidermiddlewares",
    "scrapy.contrib.spiders": "scrapy.spiders",
    "scrapy.contrib.throttle": "scrapy.extensions.throttle",
    "scrapy.dupefilter": "scrapy.dupefilters",
    "scrapy.linkextractor": "scrapy.linkextractors",
    "scrapy.linkextractors.htmlparser": "scrapy.linkextractors",
    "scrapy.linkextractors.sgml": "scrapy.linkextractors",
    "scrapy.loader.common": "itemloaders.common",
    "scrapy.loader.processors": "itemloaders.processors",
    "scrapy.spider": "scrapy.spiders",
    "scrapy.statscol": "scrapy.statscollectors",
    "scrapy.utils.decorator": "scrapy.utils.decorators",
    "scrapy.utils.markup": "w3lib.html",
    "scrapy.utils.multipart": "w3lib.form",
    "scrapy.xlib.pydispatch": "pydispatch",
}
"""New names of modules by their old names; modules in a package move with the package."""
_EMPTY = ("scrapy.contrib", "scrapy.xlib", "scrapy.conf", "scrapy.log")

ALIASES: dict[str, dict[str, str]] = {
    "scrapy": {"FormRequest": "scrapy.http:FormRequest"},
    "scrapy.http": {"JSONRequest": "scrapy.http:JsonRequest"},
    "scrapy.item": {"BaseItem": "scrapy.item:Item", "DictItem": "scrapy.item:Item"},
    "scrapy.linkextractors": {
        "SgmlLinkExtractor": "scrapy.linkextractors:LinkExtractor",
        "LxmlLinkExtractor": "scrapy.linkextractors:LinkExtractor",
        "HtmlParserLinkExtractor": "scrapy.linkextractors:LinkExtractor",
    },
    "scrapy.loader": {"XPathItemLoader": "scrapy.loader:ItemLoader"},
    "scrapy.spiders": {"BaseSpider": "scrapy.spiders:Spider"},
    "scrapy.utils.python": {"to_native_str": "scrapy.utils.python:to_unicode"},
    "scrapy.utils.response": {"get_base_url": "w3lib.html:get_base_url"},
    "scrapy.utils.url": {
        "add_or_replace_parameter": "w3lib.url:add_or_replace_parameter",
        "add_or_replace_parameters": "w3lib.url:add_or_replace_parameters",
        "any_to_uri": "w3lib.url:any_to_uri",
        "canonicalize_url": "w3lib.url:canonicalize_url",
        "file_uri_to_path": "w3lib.url:file_uri_to_path",
        "is_url": "w3lib.url:is_url",
        "parse_data_uri": "w3lib.url:parse_data_uri",
        "parse_url": "urllib.parse:urlparse",
        "path_to_file_uri": "w3lib.url:path_to_file_uri",
        "safe_download_url": "w3lib.url:safe_download_url",
        "safe_url_string": "w3lib.url:safe_url_string",
        "url_query_cleaner": "w3lib.url:url_query_cleaner",
        "url_query_parameter": "w3lib.url:url_query_parameter",
    },
}
"""Replacements for names that were removed from a module; added if the module does not have the name."""


class _MovedFinder(MetaPathFinder, Loader):
    """Finds modules by their old names."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002  required by the protocol
    ) -> ModuleSpec | None:
        if not name.startswith("scrapy.") or not (name in _EMPTY or _new_name(name)):
            return None
        # An old package name refers to the new package, in whose path Python would import the module a second time.
        if not name.startswith(_EMPTY) and PathFinder.find_spec(name, path) is not None:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002  required by the protocol
        return None

    def exec_module(self, module: ModuleType) -> None:
        if new_name := _new_name(module.__name__):
            # The same module object, so that assignments and identity comparisons in a spider work.
            sys.modules[module.__name__] = import_module(new_name)
        elif module.__name__ == "scrapy.conf":
            from scrapy.utils.project import get_project_settings

            vars(module)["settings"] = get_project_settings()
        elif module.__name__ == "scrapy.log":
            levels = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
            vars(module).update({name: getattr(logging, name) for name in levels})
            vars(module)["msg"] = _message


def _message(message: str, level: int = logging.INFO, **_: Any) -> None:
    """Log a message; replaces ``scrapy.log.msg``."""
    logging.getLogger("scrapy").log(level, "%s", message)


def _new_name(name: str) -> str:
    if name in MOVED:
        return MOVED[name]
    package, _, rest = name.rpartition(".")
    while package:
        if package in MOVED:
            return f"{MOVED[package]}.{rest}"
        package, _, more = package.rpartition(".")
        rest = f"{more}.{rest}"
    return ""


def install() -> None:
    """Make old names importable in this process."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedFinder())
        _add_aliases()
        _add_methods()


def _add_aliases() -> None:
    for module_name, names in ALIASES.items():
        module = import_module(module_name)
        for name, reference in names.items():
            place, _, found = reference.partition(":")
            if not hasattr(module, name) and hasattr(source := import_module(place), found):
                setattr(module, name, getattr(source, found))


def _add_methods() -> None:
    """Add methods that spiders override or call, if the installed version no longer has them."""
    import scrapy
    from scrapy.http import TextResponse
    from scrapy.spiders import SitemapSpider

    def start_requests(self: scrapy.Spider) -> Iterable[scrapy.Request]:
        for url in self.start_urls:
            yield scrapy.Request(url, dont_filter=True)

    def sitemap_requests(self: SitemapSpider) -> Iterable[scrapy.Request]:
        for url in self.sitemap_urls:
            yield scrapy.Request(url, self._parse_sitemap)

    def make_requests_from_url(_self: scrapy.Spider, url: str) -> scrapy.Request:
        return scrapy.Request(url, dont_filter=True)

    def body_as_unicode(self: TextResponse) -> str:
        return self.text

    added: list[tuple[Any, str, Any]] = [
        (SitemapSpider, "start_requests", sitemap_requests),
        (scrapy.Spider, "start_requests", start_requests),
        (scrapy.Spider, "make_requests_from_url", make_requests_from_url),
        (TextResponse, "body_as_unicode", body_as_unicode),
    ]
    for kind, name, method in added:
        if not hasattr(kind, name):
            setattr(kind, name, method)
