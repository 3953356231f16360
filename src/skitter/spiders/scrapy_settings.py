"""Settings in the style of Scrapy and Crawlo: upper-case names, in ``custom_settings`` or a module of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skitter.errors import SettingsError

Layer = tuple[str, dict[str, Any]]
"""Where settings come from, and what they are."""


def _same(value: Any) -> Any:
    return value


def _plus_one(value: Any) -> Any:
    """They count the attempts after the first; skitter counts them all."""
    return int(value) + 1


def _zero_is_none(value: Any) -> Any:
    return None if int(value) == 0 else value


def _zero_is_boundless(value: Any) -> Any:
    return 1 << 62 if int(value) == 0 else value


def _pipelines(value: Any) -> Any:
    """``{"shop.pipelines.Clean": 300}``: by their numbers, and as ``module:Class``."""
    if not isinstance(value, Mapping):
        raise TypeError("a mapping of classes to numbers is expected")
    named = sorted((number, name) for name, number in value.items() if number is not None)
    return ",".join(":".join(str(name).rsplit(".", 1)) for _, name in named)


FOREIGN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "CLOSESPIDER_PAGECOUNT": ("max_pages", _zero_is_none),
    "CONCURRENCY": ("concurrency", _same),
    "CONCURRENT_REQUESTS": ("concurrency", _same),
    "CONCURRENT_REQUESTS_PER_DOMAIN": ("per_host", _same),
    "COOKIES_ENABLED": ("cookies", _same),
    "DEPTH_LIMIT": ("max_depth", _zero_is_none),
    "DOWNLOAD_DELAY": ("delay_seconds", _same),
    "DOWNLOAD_MAXSIZE": ("max_body_bytes", _zero_is_boundless),
    "DOWNLOAD_TIMEOUT": ("timeout_seconds", _same),
    "ITEM_PIPELINES": ("item_functions", _pipelines),
    "MAX_RETRY_TIMES": ("max_attempts", _plus_one),
    "REDIRECT_MAX_TIMES": ("max_redirects", _same),
    "RETRY_TIMES": ("max_attempts", _plus_one),
    "ROBOTSTXT_OBEY": ("obey_robots", _same),
    "USER_AGENT": ("user_agent", _same),
    "VERIFY_SSL": ("verify_tls", _same),
}
"""The one table: upper-case names of Scrapy and Crawlo, the setting each means, and how its value is read."""


def translated(origin: str, values: Mapping[str, Any], warnings: list[str]) -> Layer:
    """Upper-case names by the table; names of skitter's own stay as they are."""
    known: dict[str, Any] = {}
    ignored = []
    for name, value in values.items():
        if not name.isupper():
            known[name] = value
        elif name in FOREIGN:
            setting, convert = FOREIGN[name]
            try:
                known[setting] = convert(value)
            except (TypeError, ValueError) as error:
                raise SettingsError(f"bad value in {origin}: {name}={value!r}", hint=str(error)) from error
        else:
            ignored.append(name)
    if ignored:
        warnings.append(f"{origin}: ignored, skitter has nothing of the kind: {', '.join(sorted(ignored))}")
    return origin, known
