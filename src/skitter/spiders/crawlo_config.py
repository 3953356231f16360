"""Crawlo's ``CrawloConfig`` in a settings module: its factories and their keyword names, without the package.

A settings module of Crawlo begins with ``from crawlo.config import CrawloConfig``. Where the package is installed, its
own class answers; elsewhere this one stands in for it while the module is read. Keyword names become upper-case names,
as they do in Crawlo, and are read by the table (``foreign_settings``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Self

_MODULES = ("crawlo", "crawlo.config", "crawlo.core", "crawlo.core.config")
_KEYWORDS = {
    "REDIS_USERNAME": "REDIS_USER",
    "CLUSTER_NODES": "REDIS_CLUSTER_NODES",
    "SENTINEL_URLS": "REDIS_SENTINEL_URLS",
    "SENTINEL_SERVICE": "REDIS_SENTINEL_SERVICE",
}
"""Keywords whose upper-case form is not the name of the setting."""


class CrawloConfig:
    """The configuration of a Crawlo project, as far as a settings module uses it."""

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.settings: dict[str, Any] = {}
        self.update(settings or {})

    @classmethod
    def standalone(cls, project_name: str = "crawlo", **keywords: Any) -> Self:
        """A crawl in one process."""
        return cls({"RUN_MODE": "standalone", "PROJECT_NAME": project_name, **keywords})

    @classmethod
    def distributed(cls, redis_host: str = "127.0.0.1", redis_port: int = 6379, **keywords: Any) -> Self:
        """A crawl whose queue is in Redis."""
        address = {"REDIS_HOST": redis_host, "REDIS_PORT": redis_port}
        return cls({"RUN_MODE": "distributed", **address, **keywords})

    @classmethod
    def auto(cls, project_name: str = "crawlo", **keywords: Any) -> Self:
        """A crawl in Redis if there is one; here ``--frontier`` says it."""
        return cls({"RUN_MODE": "auto", "PROJECT_NAME": project_name, **keywords})

    @classmethod
    def custom(cls, settings: Mapping[str, Any] | None = None, **keywords: Any) -> Self:
        """Settings as they are given."""
        return cls({**(settings or {}), **keywords})

    def set(self, key: str, value: Any) -> Self:
        name = key.upper()
        self.settings[_KEYWORDS.get(name, name)] = value
        return self

    def update(self, settings: Mapping[str, Any] | None = None, **keywords: Any) -> Self:
        for name, value in {**(settings or {}), **keywords}.items():
            self.set(name, value)
        return self

    def get(self, key: str, default: Any = None) -> Any:
        return self.settings.get(key.upper(), default)

    def set_concurrency(self, concurrency: int) -> Self:
        return self.set("CONCURRENCY", concurrency)

    def set_delay(self, delay: float) -> Self:
        return self.set("DOWNLOAD_DELAY", delay)

    def set_redis_host(self, host: str) -> Self:
        return self.set("REDIS_HOST", host)

    def enable_debug(self) -> Self:
        return self.set("LOG_LEVEL", "DEBUG")

    def print_summary(self) -> Self:
        return self

    def validate(self) -> bool:
        return True

    def to_dict(self) -> dict[str, Any]:
        return dict(self.settings)


@contextlib.contextmanager
def crawlo_names() -> Iterator[None]:
    """Let ``from crawlo.config import CrawloConfig`` succeed inside, also where the package is not installed."""
    # In a project of Crawlo's, its names stand for skitter's already (``contrib.crawlo.project``).
    if "crawlo" in sys.modules or importlib.util.find_spec("crawlo") is not None:
        yield
        return
    for name in _MODULES:
        module = ModuleType(name)
        module.__path__ = []
        module.__dict__["CrawloConfig"] = CrawloConfig
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in _MODULES:
            sys.modules.pop(name, None)


def values_of_config(config: Any) -> dict[str, Any]:
    """Return the upper-case names of a ``config`` of the module, Crawlo's own class included; else nothing."""
    if type(config).__name__ != "CrawloConfig" or not callable(getattr(config, "to_dict", None)):
        return {}
    return {name: value for name, value in config.to_dict().items() if isinstance(name, str) and name.isupper()}
