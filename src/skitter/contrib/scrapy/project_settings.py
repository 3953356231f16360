"""Translation of a Scrapy project's settings to skitter's, with warnings for those without a counterpart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings

from skitter.contrib.scrapy.components import is_off
from skitter.spiders.foreign_settings import READ_BY_ADAPTER
from skitter.spiders.scrapy_settings import Translated, translated

_USED = READ_BY_ADAPTER | frozenset(
    """BOT_NAME COOKIES_DEBUG DEFAULT_DROPITEM_LOG_LEVEL DEFAULT_ITEM_CLASS DEPTH_STATS_VERBOSE DUPEFILTER_DEBUG
    FEED_EXPORT_ENCODING FEED_STORE_EMPTY LOG_SHORT_NAMES LOG_STDOUT LOG_VERSIONS NEWSPIDER_MODULE
    RANDOMIZE_DOWNLOAD_DELAY REFERRER_POLICY REQUEST_FINGERPRINTER_IMPLEMENTATION SPIDER_LOADER_WARN_ONLY
    TELNETCONSOLE_ENABLED TEMPLATES_DIR TWISTED_REACTOR WARN_ON_GENERATOR_RETURN_VALUE""".split()
)
"""Settings that the adapter reads itself, or that do not affect a crawl."""
_IDENTITY = "a page is identified by method, canonical URL and body; dont_filter=True fetches it again"
_NO_COUNTERPART: dict[str, str] = {
    "DOWNLOADER": "skitter fetches pages itself; use a downloader middleware to change requests and responses",
    "DOWNLOAD_HANDLERS": "skitter fetches http and https itself; the setting fetcher selects another fetcher",
    "DOWNLOAD_SLOTS": "per_host and delay_seconds apply to every host",
    "DUPEFILTER_CLASS": _IDENTITY,
    "FEED_EXPORTERS": "the suffix of an output selects its format; for your own format, write a sink",
    "FEED_STORAGES": "outputs (-o) are files, databases, buckets and streams; for your own storage, write a sink",
    "ITEM_PROCESSOR": "items are processed by ITEM_PIPELINES",
    "REQUEST_FINGERPRINTER_CLASS": _IDENTITY,
    "SCHEDULER": "the queue is the job's frontier (--frontier)",
}
_NO_FILTER = "scrapy.dupefilters.BaseDupeFilter"
_MIDDLEWARE = "scrapy.downloadermiddlewares"


def overridden(settings: BaseSettings) -> dict[str, Any]:
    """Return the settings that a project or a spider has set, with plain values."""
    default = SETTINGS_PRIORITIES["default"]
    found = {}
    for name in settings:
        priority = settings.getpriority(name)
        if priority is not None and priority > default:
            value = settings[name]
            found[name] = dict(value) if isinstance(value, BaseSettings) else value
    return found


def setting_layer(origin: str, name: str, settings: BaseSettings, warnings: list[str]) -> Translated:
    """Return skitter's settings and outputs for those of a project; add settings without effect to ``warnings``."""
    given = overridden(settings)
    known: dict[str, Any] = {}
    for setting, value in given.items():
        if setting in _NO_COUNTERPART:
            if not (setting == "DUPEFILTER_CLASS" and value == _NO_FILTER) and value != getattr(
                default_settings, setting, None
            ):
                warnings.append(f"{origin}: {setting} has no effect: {_NO_COUNTERPART[setting]}")
        elif setting in _USED or setting.endswith("_BASE"):
            continue
        elif hasattr(default_settings, setting) or setting == "CONCURRENT_REQUESTS_PER_IP":
            # Other settings belong to the project: its pipelines and middlewares read them.
            known[setting] = value
    if "RETRY_HTTP_CODES" in known:
        codes = [int(code) for code in settings.getlist("RETRY_HTTP_CODES")]
        known["RETRY_HTTP_CODES"] = [code for code in codes if code >= 400]
        if left_out := sorted(code for code in codes if code < 400):
            warnings.append(f"{origin}: RETRY_HTTP_CODES: only errors are retried, not {left_out}")
    if feeds := _feeds(name, settings):
        known["FEEDS"] = feeds
    (_, values), sinks, _ = translated(origin, known, warnings)
    return Translated((origin, _defaults(settings) | values | _switched_off(settings)), sinks)


def _defaults(settings: BaseSettings) -> dict[str, Any]:
    """Return Scrapy's defaults for settings where skitter's own defaults would yield different pages."""
    return {
        "obey_robots": settings.getbool("ROBOTSTXT_OBEY"),
        "timeout_seconds": settings.getfloat("DOWNLOAD_TIMEOUT") or 180.0,
        "max_body_bytes": settings.getint("DOWNLOAD_MAXSIZE") or 1 << 40,
        "max_redirects": settings.getint("REDIRECT_MAX_TIMES"),
        "callback_seconds": 3600.0,
        "traps": "off",
        **_environment_proxy(settings),
    }


def _environment_proxy(settings: BaseSettings) -> dict[str, Any]:
    """Return the proxy that Scrapy would take from the environment."""
    if not settings.getbool("HTTPPROXY_ENABLED", True):
        return {}
    found = {value for name in ("http_proxy", "https_proxy") if (value := os.environ.get(name))}
    return {"proxy": found.pop()} if len(found) == 1 else {}


def _switched_off(settings: BaseSettings) -> dict[str, Any]:
    """Return the settings that correspond to Scrapy components that a project has disabled."""
    found: dict[str, Any] = {}
    middlewares = "DOWNLOADER_MIDDLEWARES"
    if is_off(settings, middlewares, f"{_MIDDLEWARE}.robotstxt.RobotsTxtMiddleware"):
        found["obey_robots"] = False
    if is_off(settings, middlewares, f"{_MIDDLEWARE}.cookies.CookiesMiddleware"):
        found["cookies"] = False
    is_retry_off = is_off(settings, middlewares, f"{_MIDDLEWARE}.retry.RetryMiddleware")
    if is_retry_off or not settings.getbool("RETRY_ENABLED", True):
        # A middleware of the project may replace it, and queue requests again itself.
        found["max_attempts"] = 1
    return found


def _feeds(name: str, settings: BaseSettings) -> dict[str, Any]:
    """Return the feeds with the spider's name inserted."""
    feeds: dict[str, Any] = {}
    if settings.get("FEED_URI"):
        feeds[str(settings["FEED_URI"])] = {"format": settings.get("FEED_FORMAT") or "jsonlines"}
    feeds |= {str(uri): options for uri, options in (settings.getdict("FEEDS") or {}).items()}
    known = {uri: dict(options) for uri, options in feeds.items() if isinstance(options, Mapping)}
    if feed_fields(settings):
        known = {uri: {key: options[key] for key in options if key != "fields"} for uri, options in known.items()}
    return {uri.replace("%(name)s", name): options for uri, options in known.items()}


def feed_fields(settings: BaseSettings) -> dict[str, str]:
    """Return the names of exported fields by field; empty means all fields under their own names.

    Records are the same for every output, so the fields of a feed are used only if it is the only feed.
    """
    feeds = list((settings.getdict("FEEDS") or {}).values())
    fields: Any = settings.get("FEED_EXPORT_FIELDS")
    if not fields and len(feeds) == 1:
        fields = feeds[0].get("fields")
    if not fields:
        return {}
    return dict(fields) if isinstance(fields, Mapping) else {str(name): str(name) for name in fields}
