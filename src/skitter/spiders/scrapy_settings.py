"""Conversion of settings of Scrapy and Crawlo: upper-case names, in ``custom_settings`` or a settings module.

What has a counterpart is mapped. The rest is named in a warning, with the counterpart where something else does the
same; nothing is ignored in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from skitter.errors import SettingsError
from skitter.spiders.base import Spider
from skitter.spiders.scrapy_feeds import feed_targets
from skitter.spiders.scrapy_names import attribute_settings

Layer = tuple[str, dict[str, Any]]
"""The origin of settings, and the settings."""


class Translated(NamedTuple):
    """A layer in skitter's own names."""

    layer: Layer
    sinks: list[Any]
    """Targets of results, as texts or tables."""


def _same(value: Any) -> Any:
    return value


def _plus_one(value: Any) -> Any:
    """Add one: Scrapy counts the attempts after the first, skitter counts all."""
    return int(value) + 1


def _zero_is_none(value: Any) -> Any:
    return None if int(value) == 0 else value


def _megabytes(value: Any) -> Any:
    return None if int(value) == 0 else int(value) * 1024 * 1024


def _zero_is_boundless(value: Any) -> Any:
    return 1 << 62 if int(value) == 0 else value


def _pipelines(value: Any) -> Any:
    """Convert ``{"shop.pipelines.Clean": 300}`` to a list of ``module:Class``, ordered by number."""
    if not isinstance(value, Mapping):
        raise TypeError("a mapping of classes to numbers is expected")
    named = sorted((number, name) for name, number in value.items() if number is not None)
    return ",".join(":".join(str(name).rsplit(".", 1)) for _, name in named)


def _log_level(value: Any) -> Any:
    """Convert a level by name or number; levels above error become error."""
    number = logging.getLevelName(str(value).upper()) if isinstance(value, str) else value
    if not isinstance(number, int):
        raise TypeError("one of DEBUG, INFO, WARNING, ERROR and CRITICAL is expected")
    steps = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (25, "notice"), (logging.INFO, "info"))
    return next((name for least, name in steps if number >= least), "debug")


def _log_file(value: Any) -> Any:
    return "-" if value is None else str(value)


def _header_lines(value: Any) -> list[str]:
    """Return headers as lines; a value of None takes a default of Scrapy away, which is none of skitter's."""
    if not isinstance(value, Mapping):
        raise TypeError('a dict is expected, as in {"Accept-Language": "en"}')
    return [f"{name}: {text}" for name, text in value.items() if text is not None]


FOREIGN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "AUTOTHROTTLE_MAX_DELAY": ("max_delay_seconds", _same),
    "CLOSESPIDER_ERRORCOUNT": ("close_after_errors", _zero_is_none),
    "CLOSESPIDER_ITEMCOUNT": ("close_after_items", _zero_is_none),
    "CLOSESPIDER_PAGECOUNT": ("max_pages", _zero_is_none),
    "CLOSESPIDER_TIMEOUT": ("close_after_seconds", _zero_is_none),
    "CONCURRENCY": ("concurrency", _same),
    "CONCURRENT_REQUESTS": ("concurrency", _same),
    "CONCURRENT_REQUESTS_PER_DOMAIN": ("per_host", _same),
    "CONCURRENT_REQUESTS_PER_IP": ("per_ip", _zero_is_none),
    "COOKIES_ENABLED": ("cookies", _same),
    "DEFAULT_REQUEST_HEADERS": ("headers", _header_lines),
    "DEPTH_LIMIT": ("max_depth", _zero_is_none),
    "DOWNLOAD_DELAY": ("delay_seconds", _same),
    "DOWNLOAD_MAXSIZE": ("max_body_bytes", _zero_is_boundless),
    "DOWNLOAD_TIMEOUT": ("timeout_seconds", _same),
    "ITEM_PIPELINES": ("item_functions", _pipelines),
    "LOG_BACKUP_COUNT": ("max_log_files", _same),
    "LOG_FILE": ("log_file", _log_file),
    "LOG_LEVEL": ("log_level", _log_level),
    "LOGSTATS_INTERVAL": ("stats_seconds", _zero_is_none),
    "LOG_MAX_BYTES": ("max_log_bytes", _zero_is_none),
    "MAX_RETRY_TIMES": ("max_attempts", _plus_one),
    "MEMUSAGE_LIMIT_MB": ("memory_limit_bytes", _megabytes),
    "MEMUSAGE_WARNING_MB": ("memory_warning_bytes", _megabytes),
    "REDIRECT_MAX_TIMES": ("max_redirects", _same),
    "RETRY_HTTP_CODES": ("retry_statuses", _same),
    "RETRY_PRIORITY_ADJUST": ("retry_priority", _same),
    "RETRY_TIMES": ("max_attempts", _plus_one),
    "ROBOTSTXT_OBEY": ("obey_robots", _same),
    "USER_AGENT": ("user_agent", _same),
    "VERIFY_SSL": ("verify_tls", _same),
}
"""The one table: upper-case names of Scrapy and Crawlo, the setting each means, and how its value is read."""
THROTTLE, THROTTLE_TARGET = "AUTOTHROTTLE_ENABLED", "AUTOTHROTTLE_TARGET_CONCURRENCY"
FEEDS = "FEEDS"
CACHE, CACHE_DIR, CACHE_AGE = "HTTPCACHE_ENABLED", "HTTPCACHE_DIR", "HTTPCACHE_EXPIRATION_SECS"
DEFAULT_CACHE_DIR = ".skitter/cache"
_OFF = (False, 0, "0", "False", "false")

_PACE = "hosts that answer 429 or 503 are slowed down by themselves; delay_seconds and max_delay_seconds bound a delay"
_OUTPUT = "an output is -o TARGET, a [[sink]] table or sinks of the spider"
_HOOKS = "hooks = ['module:Class'] names classes that see requests, answers and events"
_ITEM_FUNCTIONS = "what changes or drops items is an item function"
_LOG = "log_format is text or json, log_file a file"
COUNTERPARTS: dict[str, str] = {
    "AUTOTHROTTLE_DEBUG": "skitter why URL tells what its host waits for",
    "AUTOTHROTTLE_START_DELAY": _PACE,
    "CLOSESPIDER_PAGECOUNT_NO_ITEM": "close_after_seconds stops a job; a hook counts pages and items",
    "CLOSESPIDER_TIMEOUT_NO_ITEM": "close_after_seconds stops a job; a hook counts pages and items",
    "FEED_FORMAT": _OUTPUT,
    "FEED_URI": _OUTPUT,
    "HTTPPROXY_ENABLED": "proxy is one for all fetches of a node",
    "JOBDIR": "every crawl can be resumed, and keeps its state in --frontier",
    "DOWNLOADER_MIDDLEWARES": _HOOKS,
    "EXTENSIONS": _HOOKS,
    "LOG_DATEFORMAT": _LOG,
    "LOG_ENABLED": "-q says nothing but errors",
    "LOG_FORMAT": _LOG,
    "REDIRECT_ENABLED": "max_redirects bounds the hops of a chain",
    "RETRY_ENABLED": "max_attempts = 1 tries nothing again",
    "SPIDER_MIDDLEWARES": _ITEM_FUNCTIONS,
    "SPIDER_MODULES": 'spiders = ["FOLDER"] in skitter.toml says where spiders are found by name',
}
"""Names without a setting of the kind, and what to use instead."""


def translated(origin: str, values: Mapping[str, Any], warnings: list[str]) -> Translated:
    """Convert upper-case names by the tables; skitter's own names stay, and ``sinks`` are returned separately."""
    known: dict[str, Any] = {}
    sinks: list[Any] = []
    ignored = []
    for name, value in values.items():
        if not isinstance(name, str):
            raise SettingsError(f"not the name of a setting in {origin}: {name!r}", hint="names are text")
        if name == "sinks":
            continue
        if not name.isupper():
            known[name] = value
        elif name in FOREIGN:
            setting, convert = FOREIGN[name]
            known[setting] = _converted(origin, name, value, convert)
        elif name in COUNTERPARTS:
            warnings.append(f"{origin}: {name} has no effect: {COUNTERPARTS[name]}")
        elif name == FEEDS:
            sinks = feed_targets(origin, value, warnings)
        elif name not in (THROTTLE, THROTTLE_TARGET, CACHE, CACHE_DIR, CACHE_AGE):
            ignored.append(name)
    if THROTTLE in values:
        known["target_concurrency"] = _throttled(origin, values)
    elif THROTTLE_TARGET in values:
        warnings.append(f"{origin}: {THROTTLE_TARGET} has no effect without {THROTTLE}; target_concurrency alone has")
    known |= _cache(origin, values, warnings)
    if ignored:
        warnings.append(f"{origin}: ignored, skitter has nothing of the kind: {', '.join(sorted(ignored))}")
    return Translated((origin, known), _as_list(values["sinks"]) if "sinks" in values else sinks)


def of_spider(origin: str, spider: Spider, warnings: list[str]) -> Translated:
    """Return a spider's own settings and targets: its attributes, and above them its ``custom_settings``."""
    kind = type(spider)
    custom = kind.custom_settings or {}
    if not isinstance(custom, Mapping):
        raise SettingsError(f"custom_settings is not a mapping: {kind.__name__}", hint='as in {"delay_seconds": 1}')
    attributes = attribute_settings(spider, warnings)
    (_, values), sinks = translated(origin, custom, warnings)
    own = sinks if sinks or "sinks" in custom else _as_list(spider.sinks)
    return Translated((origin, {**attributes, **values}), own)


def _as_list(sinks: Any) -> list[Any]:
    """Return a list, also for a single target."""
    return [sinks] if isinstance(sinks, (str, Mapping)) else list(sinks)


def _converted(origin: str, name: str, value: Any, convert: Callable[[Any], Any]) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"bad value in {origin}: {name}={value!r}", hint=str(error)) from error


def _cache(origin: str, values: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Return the settings of Scrapy's cache of pages; an age of 0 is any age."""
    known: dict[str, Any] = {}
    if CACHE in values:
        is_on = values[CACHE] not in _OFF
        known["cache_dir"] = str(values.get(CACHE_DIR) or DEFAULT_CACHE_DIR) if is_on else ""
    elif CACHE_DIR in values:
        warnings.append(f"{origin}: {CACHE_DIR} has no effect without {CACHE}; cache_dir alone has")
    if CACHE_AGE in values:
        known["cache_seconds"] = _converted(origin, CACHE_AGE, values[CACHE_AGE], lambda age: float(age) or None)
    return known


def _throttled(origin: str, values: Mapping[str, Any]) -> float | None:
    """Return AutoThrottle's target concurrency, 1 by default; None if it is off."""
    enabled = values[THROTTLE]
    if enabled in _OFF:
        return None
    target: float = _converted(origin, THROTTLE_TARGET, values.get(THROTTLE_TARGET, 1.0), float)
    return target
