"""Conversion of settings of Scrapy and Crawlo: upper-case names, in ``custom_settings`` or a settings module.

What has a counterpart is mapped (``foreign_settings``). The rest is named in a warning, with the counterpart where
something else does the same; nothing is ignored in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from skitter.errors import SettingsError
from skitter.model.secrets import shown_frontier
from skitter.spiders.base import Spider
from skitter.spiders.foreign_settings import (
    CACHE,
    CACHE_AGE,
    CACHE_DIR,
    FEEDS,
    FOREIGN,
    SWITCHES,
    THROTTLE,
    THROTTLE_TARGET,
    TOGETHER,
    counterpart,
    is_off,
)
from skitter.spiders.redis_settings import frontier_of
from skitter.spiders.scrapy_feeds import feed_targets
from skitter.spiders.scrapy_names import attribute_settings

DEFAULT_CACHE_DIR = ".skitter/cache"
Layer = tuple[str, dict[str, Any]]
"""The origin of settings, and the settings."""


class Translated(NamedTuple):
    """A layer in skitter's own names."""

    layer: Layer
    sinks: list[Any]
    """Targets of results, as texts or tables."""
    frontier: str = ""
    """The URL of the frontier that the settings name, if they do."""


def translated(origin: str, values: Mapping[str, Any], warnings: list[str]) -> Translated:
    """Convert upper-case names by the table; skitter's own names stay, and ``sinks`` are returned separately."""
    known: dict[str, Any] = {}
    sinks: list[Any] = []
    without_effect: dict[str, list[str]] = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise SettingsError(f"invalid name of a setting in {origin}: {name!r}", hint="names are text")
        if name == "sinks":
            continue
        if not name.isupper():
            known[name] = value
        elif name in FOREIGN:
            setting, convert = FOREIGN[name]
            known[setting] = _converted(origin, name, value, convert)
        elif name == FEEDS:
            sinks = feed_targets(origin, value, warnings)
        elif name not in TOGETHER and name not in SWITCHES:
            without_effect.setdefault(counterpart(name), []).append(name)
    for name, settings in SWITCHES.items():
        if name in values and is_off(values[name]):
            known |= settings
    if THROTTLE in values:
        known["target_concurrency"] = _throttled(origin, values)
    elif THROTTLE_TARGET in values:
        warnings.append(
            f"{origin}: {THROTTLE_TARGET} has no effect without {THROTTLE}; target_concurrency needs no switch"
        )
    known |= _cache(origin, values, warnings)
    frontier = frontier_of(origin, values, warnings)
    _tell_without_effect(origin, without_effect, warnings)
    own_sinks = _as_list(values["sinks"]) if "sinks" in values else sinks
    return Translated((origin, known), own_sinks, frontier)


def _tell_without_effect(origin: str, names: dict[str, list[str]], warnings: list[str]) -> None:
    """Add one warning for each counterpart, and one for the names that have none."""
    unknown = names.pop("", [])
    for instead, named in sorted(names.items(), key=lambda each: each[1]):
        verb = "has" if len(named) == 1 else "have"
        warnings.append(f"{origin}: {', '.join(sorted(named))} {verb} no effect: {instead}")
    if unknown:
        warnings.append(f"{origin}: ignored, because skitter has no equivalent: {', '.join(sorted(unknown))}")


def of_spider(origin: str, spider: Spider, warnings: list[str]) -> Translated:
    """Return a spider's own settings and targets: its attributes, and above them its ``custom_settings``."""
    kind = type(spider)
    custom = kind.custom_settings or {}
    if not isinstance(custom, Mapping):
        raise SettingsError(f"custom_settings is not a mapping: {kind.__name__}", hint='as in {"delay_seconds": 1}')
    attributes = attribute_settings(spider, warnings)
    (_, values), sinks, frontier = translated(origin, custom, warnings)
    if frontier:
        warnings.append(f"{origin}: a Redis in custom_settings has no effect: --frontier {shown_frontier(frontier)}")
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
        is_on = not is_off(values[CACHE])
        known["cache_dir"] = str(values.get(CACHE_DIR) or DEFAULT_CACHE_DIR) if is_on else ""
    elif CACHE_DIR in values:
        warnings.append(f"{origin}: {CACHE_DIR} has no effect without {CACHE}; cache_dir needs no switch")
    if CACHE_AGE in values:
        known["cache_seconds"] = _converted(origin, CACHE_AGE, values[CACHE_AGE], lambda age: float(age) or None)
    return known


def _throttled(origin: str, values: Mapping[str, Any]) -> float | None:
    """Return AutoThrottle's target concurrency, 1 by default; None if it is off."""
    if is_off(values[THROTTLE]):
        return None
    target: float = _converted(origin, THROTTLE_TARGET, values.get(THROTTLE_TARGET, 1.0), float)
    return target
