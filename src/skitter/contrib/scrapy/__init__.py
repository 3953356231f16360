"""Support for Scrapy projects. Needs the extra ``scrapy``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skitter.errors import ExtraMissingError

try:
    import scrapy  # noqa: F401
except ImportError as _error:
    raise ExtraMissingError("a Scrapy project", "scrapy") from _error

if TYPE_CHECKING:
    from skitter.contrib.scrapy.redis_spiders import RedisCrawlSpider, RedisSpider
    from skitter.contrib.scrapy.scheduler import Scheduler

__all__ = ["RedisCrawlSpider", "RedisSpider", "Scheduler"]
_MODULES = {"RedisCrawlSpider": "redis_spiders", "RedisSpider": "redis_spiders", "Scheduler": "scheduler"}


def __getattr__(name: str) -> Any:
    """Import names for Scrapy's own engine on first use: a project that skitter crawls does not need them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
