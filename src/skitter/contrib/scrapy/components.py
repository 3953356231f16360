"""Components of a Scrapy project that run unchanged: the middlewares, pipelines and extensions in its settings.

skitter itself replaces Scrapy's default components: fetching, retries, redirects, cookies, robots.txt, depth and so on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, signature
from typing import Any, NamedTuple

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler, load_object

from skitter.errors import SpiderError

log = logging.getLogger("skitter.spider.scrapy")


class Component(NamedTuple):
    """Object of a class that a setting names, and its order number."""

    order: float
    made: Any


def own_components(settings: BaseSettings, name: str) -> list[tuple[float, Any]]:
    """Return the components of a setting that are not Scrapy's defaults, sorted by their order numbers."""
    base = {_path(key) for key in settings.get(f"{name}_BASE") or {}}
    named: Any = settings.get(name) or {}
    if not hasattr(named, "items"):
        named = dict.fromkeys(named, 0)
    found = [(float(order), key) for key, order in named.items() if order is not None and _path(key) not in base]
    return sorted(found, key=lambda pair: pair[0])


def is_off(settings: BaseSettings, name: str, path: str) -> bool:
    """Return whether a project has disabled one of Scrapy's components."""
    named: Any = settings.get(name) or {}
    return hasattr(named, "items") and any(_path(key) == path and order is None for key, order in named.items())


def _path(key: Any) -> str:
    return key if isinstance(key, str) else f"{key.__module__}.{key.__qualname__}"


def build(crawler: Crawler, name: str) -> list[Component]:
    """Create the components of a setting as Scrapy does. Raises SpiderError if one cannot be created."""
    found: list[Component] = []
    for order, key in own_components(crawler.settings, name):
        try:
            found.append(Component(order, build_from_crawler(load_object(key), crawler)))
        except NotConfigured as reason:
            if reason.args:
                log.warning("disabled %s: %s", _path(key), reason.args[0])
        except Exception as error:
            raise SpiderError(
                f"{name} names a class that cannot be created: {_path(key)}: {type(error).__name__}: {error}",
                hint="correct it, or set it to None in that setting",
            ) from error
    return found


def method_of(made: Any, name: str, crawler: Crawler) -> Callable[..., Any] | None:
    """Return a method of a component with ``spider`` bound, a parameter that newer versions of Scrapy have removed."""
    method: Callable[..., Any] | None = getattr(made, name, None)
    if not callable(method):
        return None
    given = signature(method).parameters.get("spider")
    if given is None or given.kind is Parameter.VAR_KEYWORD:
        return method
    return partial(method, spider=crawler.spider)


def methods_of(components: Iterable[Component], name: str, crawler: Crawler) -> list[Callable[..., Any]]:
    """Return the methods with this name, in the order of the components."""
    found = (method_of(component.made, name, crawler) for component in components)
    return [method for method in found if method is not None]
