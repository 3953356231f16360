"""Support for unchanged Crawlo projects: ``crawlo.cfg``, its settings module, and imports of ``crawlo``.

For such a project or spider file, substitute modules with Crawlo's names replace the package, whether it is installed
or not. They contain the names of ``skitter.contrib.crawlo``.
"""

from __future__ import annotations

import configparser
import logging
import runpy
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import skitter
from skitter.contrib import crawlo
from skitter.errors import SettingsError
from skitter.spiders.crawlo_config import CrawloConfig, values_of_config
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.spider_files import SpiderListing
from skitter.spiders.spider_files import list_spiders as list_files

CONFIG_FILE = "crawlo.cfg"
_REQUESTS = {"Request": crawlo.Request, "RequestPriority": crawlo.RequestPriority, "Response": crawlo.Response}
_ITEMS = {"Item": crawlo.Item, "Field": crawlo.Field}


class BasePipeline:
    """Base class of Crawlo's pipelines; adds nothing here."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> BasePipeline:  # noqa: ARG003  as Crawlo calls it
        """Create the pipeline; the crawler is ignored."""
        return cls()


_MODULES: dict[str, dict[str, Any]] = {
    "crawlo": {"Spider": crawlo.Spider, **_REQUESTS, **_ITEMS},
    "crawlo.config": {"CrawloConfig": CrawloConfig},
    "crawlo.core": {},
    "crawlo.core.config": {"CrawloConfig": CrawloConfig},
    "crawlo.exceptions": {"ItemDiscard": skitter.DropItem, "DropItem": skitter.DropItem},
    "crawlo.http": _REQUESTS,
    "crawlo.http.request": _REQUESTS,
    "crawlo.http.response": _REQUESTS,
    "crawlo.items": _ITEMS,
    "crawlo.logging": {"get_logger": logging.getLogger},
    "crawlo.network": _REQUESTS,
    "crawlo.network.request": _REQUESTS,
    "crawlo.network.response": _REQUESTS,
    "crawlo.pipelines": {"BasePipeline": BasePipeline},
    "crawlo.spider": {"Spider": crawlo.Spider},
    "crawlo.utils": {},
    "crawlo.utils.log": {"get_logger": logging.getLogger},
}
"""Modules that spiders, items, pipelines and settings of a project import, with their names."""


def install_names() -> None:
    """Make imports of ``crawlo`` return skitter's counterparts, for the rest of this process."""
    for name, values in _MODULES.items():
        if not isinstance(sys.modules.get(name), _StandIn):
            module = _StandIn(name)
            module.__path__ = []
            module.__dict__.update(values)
            sys.modules[name] = module


class _StandIn(ModuleType):
    """Substitute for a module of Crawlo."""


def project_root(folder: Path) -> Path | None:
    """Return the folder with ``crawlo.cfg``: this one or a parent; None if there is none."""
    return next(
        (place for place in (folder.resolve(), *folder.resolve().parents) if (place / CONFIG_FILE).is_file()), None
    )


def project_settings(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the name of the settings module of a project, and the upper-case names in it."""
    root = project_root(folder)
    if root is None:
        return "", {}
    parser = configparser.ConfigParser()
    try:
        parser.read(root / CONFIG_FILE, encoding="utf-8")
        module = parser["settings"]["default"].strip()
    except (configparser.Error, KeyError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"not a Crawlo project: {CONFIG_FILE}: {error}", hint="it needs [settings] with default = MODULE"
        ) from error
    file = root.joinpath(*module.split(".")).with_suffix(".py")
    install_names()
    _add_to_path(root)
    try:
        values = runpy.run_path(str(file))
    except Exception as error:
        raise SettingsError(f"the settings module fails: {file.name}: {type(error).__name__}: {error}") from error
    own = {name: value for name, value in values.items() if name.isupper() and not name.startswith("_")}
    return module, values_of_config(values.get("config")) | own


def list_spiders(folder: Path) -> SpiderListing:
    """Return the spiders of ``SPIDER_MODULES``, found by reading their files."""
    module, settings = project_settings(folder)
    root = project_root(folder)
    assert root is not None
    packages = settings.get("SPIDER_MODULES") or [f"{module.rpartition('.')[0]}.spiders"]
    places = [str(root.joinpath(*package.split("."))) for package in packages]
    return list_files([_relative(place, folder) for place in places], folder)


def import_file(path: Path, folder: Path) -> ModuleType | None:
    """Import a file as a module of its package; return None if it is in no project, and must be loaded as a file."""
    install_names()
    root = project_root(folder)
    if root is None or not path.resolve().is_relative_to(root):
        return None
    parts = path.resolve().relative_to(root).with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        return None
    _add_to_path(root)
    return import_module(".".join(parts))


def adapt(kind: type[Any], folder: Path) -> type[AdaptedSpider]:  # noqa: ARG001  required by the protocol
    """Return the class itself, because ``crawlo.Spider`` in a project is already skitter's class."""
    return kind


def _relative(place: str, folder: Path) -> str:
    home = folder.resolve()
    return str(Path(place).relative_to(home)) if Path(place).is_relative_to(home) else place


def _add_to_path(root: Path) -> None:
    if str(root) not in sys.path:
        sys.path.append(str(root))
