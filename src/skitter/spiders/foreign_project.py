"""Spiders and projects of other frameworks, which an adapter makes spiders of skitter's of.

A framework is known here by a file of its projects and by the module of its base class. Its adapter is an entry point
(group ``skitter.projects``), and is loaded only where such a project or class is met.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from skitter.entry_points import PROJECTS, find_entry_point, load_entry_point
from skitter.errors import ExtraMissingError, UsageError
from skitter.spiders.base import Spider

if TYPE_CHECKING:
    from skitter.fetch.contract import Fetcher
    from skitter.settings import Settings
    from skitter.spiders.scrapy_settings import Translated
    from skitter.spiders.spider_files import SpiderListing

CRAWLO, SCRAPY = "crawlo", "scrapy"
PROJECT_FILES = {"crawlo.cfg": CRAWLO, "scrapy.cfg": SCRAPY}
"""Files in the folder of a project, or above it, and the framework that each belongs to."""
_IMPORTS = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(crawlo|scrapy)\b", re.MULTILINE)


class AdaptedSpider(Spider):
    """A spider of another framework. The methods below are called besides those of a spider."""

    adapted: ClassVar[type[Any]]
    """The class of the other framework, which has the callbacks."""

    def own_settings(self, origin: str, warnings: list[str]) -> Translated:
        """Return the settings and targets of its project and of itself; what has no effect goes to ``warnings``."""
        raise NotImplementedError

    def use_worker(self, source: Any, fetcher: Fetcher, settings: Settings) -> None:
        """Set the worker's store, its fetcher and the settings of the job."""

    async def close_worker(self, reason: str) -> None:
        """Clean up after the worker has ended, for this reason."""


class Adapter(Protocol):
    """What the entry point of a framework gives, as a module or an object."""

    def list_spiders(self, folder: Path) -> SpiderListing:
        """List the spiders of the project of a folder."""
        ...

    def import_file(self, path: Path, folder: Path) -> ModuleType | None:
        """Import a file as a module of its package, so that relative imports work; None: it is in no package."""
        ...

    def adapt(self, kind: type[Any], folder: Path) -> type[AdaptedSpider]:
        """Return the spider class for a class of the framework."""
        ...


def framework_of(folder: Path) -> str:
    """Return the framework that the project of a folder belongs to; empty: none."""
    for place in (folder, *folder.resolve().parents):
        for name, framework in PROJECT_FILES.items():
            if (place / name).is_file():
                return framework
        if (place / "skitter.toml").is_file():
            return ""
    return ""


def list_project_spiders(spider_paths: Iterable[str], folder: Path) -> SpiderListing:
    """List the spiders of a project: those of another framework, and else those of files and folders."""
    from skitter.spiders.spider_files import list_spiders

    if framework := framework_of(folder):
        return adapter_of(framework).list_spiders(folder)
    return list_spiders(spider_paths, folder)


def framework_of_file(path: Path) -> str:
    """Return the framework whose modules a file imports; empty: none."""
    try:
        found = _IMPORTS.search(path.read_bytes())
    except OSError:
        return ""
    return found[1].decode() if found else ""


def framework_of_class(kind: type[Any]) -> str:
    """Return the framework that a spider class belongs to; empty: none."""
    is_scrapy = any(base.__name__ == "Spider" and base.__module__ == "scrapy.spiders" for base in kind.__mro__)
    return SCRAPY if is_scrapy else ""


def adapter_of(framework: str) -> Adapter:
    """Return the adapter of a framework; ExtraMissingError if it is not installed."""
    found = find_entry_point(PROJECTS, framework)
    if found is None:
        raise ExtraMissingError(f"a project of {framework}", framework)
    try:
        adapter: Adapter = load_entry_point(found)
    except UsageError as error:
        if isinstance(error.__cause__, ExtraMissingError):
            raise error.__cause__ from error
        raise
    return adapter
