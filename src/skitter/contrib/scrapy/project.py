"""Scrapy project of a folder: its settings, its spiders, and their adapted classes. An entry point of skitter."""

from __future__ import annotations

import configparser
import contextlib
import os
import sys
import warnings
from importlib import import_module
from inspect import getsourcefile, getsourcelines
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import scrapy
from scrapy.exceptions import ScrapyDeprecationWarning
from scrapy.settings import Settings
from scrapy.utils.spider import iter_spider_classes

from skitter.contrib.scrapy import link_caches, old_names, twisted_reactor
from skitter.errors import SettingsError, SkitterError
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.spider_files import SpiderListing, SpiderSeen, UnreadableFile

CONFIG = "scrapy.cfg"
_MODULE_VARIABLE = "SCRAPY_SETTINGS_MODULE"
"""Environment variable with which functions of Scrapy, such as ``get_project_settings``, find the settings."""


def project_root(folder: Path) -> Path | None:
    """Return the folder with ``scrapy.cfg``: this one or a parent; None if there is none."""
    return next((place for place in (folder.resolve(), *folder.resolve().parents) if (place / CONFIG).is_file()), None)


def prepare(folder: Path) -> None:
    """Make a project importable in this process: old names, the reactor, import path, and settings module."""
    # Deprecation warnings are for developers of a project, not for its users.
    warnings.simplefilter("ignore", ScrapyDeprecationWarning)
    twisted_reactor.install()
    old_names.install()
    link_caches.install()
    root = project_root(folder)
    if root is None:
        return
    if str(root) not in sys.path:
        # First, as in Scrapy: a module of a project may have any name.
        sys.path.insert(0, str(root))
    config = configparser.ConfigParser()
    try:
        config.read(root / CONFIG)
    except configparser.Error as error:
        raise SettingsError(
            f"cannot be read: {CONFIG}: {error}", hint="it needs [settings] with default = MODULE"
        ) from error
    name = os.environ.get("SCRAPY_PROJECT", "default")
    if module := config.get("settings", name, fallback=""):
        os.environ.setdefault(_MODULE_VARIABLE, module)


def project_settings(folder: Path) -> Settings:
    """Return the settings of a project, or Scrapy's defaults. Raises SettingsError if they cannot be imported."""
    prepare(folder)
    settings = Settings()
    module = os.environ.get(_MODULE_VARIABLE, "") if project_root(folder) is not None else ""
    if module:
        try:
            settings.setmodule(module, priority="project")
        except Exception as error:
            raise SettingsError(
                f"the settings of a Scrapy project cannot be imported: {module}: {type(error).__name__}: {error}",
                hint=f"it is named in {CONFIG}; correct it and run the same command again",
            ) from error
    return settings


def list_spiders(folder: Path) -> SpiderListing:
    """Return the spiders of ``SPIDER_MODULES``, found by importing them, as Scrapy does."""
    listing = SpiderListing(spiders=[], broken=[])
    # If two spiders have the same name, the last one is used, as in Scrapy.
    found: dict[str, SpiderSeen] = {}
    # Standard output is for data, so output of the imported files goes to standard error.
    with contextlib.redirect_stdout(sys.stderr):
        for package in project_settings(folder).getlist("SPIDER_MODULES"):
            for module in _modules(package, listing):
                found |= {kind.name: _seen(kind, folder) for kind in iter_spider_classes(module) if kind.name}
    listing.spiders.extend(found.values())
    return listing


def _modules(package: str, listing: SpiderListing) -> list[ModuleType]:
    """Return the modules of a package that can be imported; add the others to ``listing.broken``."""
    try:
        module = import_module(package)
    except SkitterError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  a script that exits is not a spider
        listing.broken.append(UnreadableFile(file=package, problem=f"{type(error).__name__}: {error}"))
        return []
    found = [module]
    for _, name, is_package in iter_modules(getattr(module, "__path__", [])):
        inner = f"{package}.{name}"
        if is_package:
            found += _modules(inner, listing)
            continue
        try:
            found.append(import_module(inner))
        except (Exception, SystemExit) as error:  # noqa: BLE001  as above
            listing.broken.append(UnreadableFile(file=inner, problem=f"{type(error).__name__}: {error}"))
    return found


def _seen(kind: type[scrapy.Spider], folder: Path) -> SpiderSeen:
    file = Path(getsourcefile(kind) or "")
    home = folder.resolve()
    shown = file.resolve().relative_to(home) if file.resolve().is_relative_to(home) else file
    try:
        line = getsourcelines(kind)[1]
    except (OSError, TypeError):
        line = 1
    about = (kind.__doc__ or "").strip().partition("\n")[0] if kind.__dict__.get("__doc__") else ""
    return SpiderSeen(name=str(kind.name), reference=f"{shown}:{kind.__name__}", line=line, about=about)


def import_file(path: Path, folder: Path) -> ModuleType | None:
    """Import a file as a module of its package; return None if it is in no package, and must be loaded as a file."""
    prepare(folder)
    root, path = project_root(folder), path.resolve()
    if root is None or not path.is_relative_to(root):
        return None
    parts = path.relative_to(root).with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        return None
    return import_module(".".join(parts))


def adapt(kind: type[Any], folder: Path) -> type[AdaptedSpider]:
    """Return the skitter spider class for a Scrapy spider class."""
    # Not at the top: listing spiders does not need the modules that run them.
    from skitter.contrib.scrapy.spider import adapted_class

    return adapted_class(kind, project_settings(folder))
