"""The address of a Redis in settings of scrapy-redis and Crawlo: what ``--frontier`` would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from skitter.errors import SettingsError
from skitter.model.secrets import shown_frontier
from skitter.spiders.foreign_settings import FRONTIER_NAMES, MODE_NAMES, is_off

OWN_URL = "SKITTER_FRONTIER"
_SCRAPY_REDIS, _OWN_SCHEDULER = "scrapy_redis.", "skitter.contrib.scrapy"
_PARAMS = {"host": "REDIS_HOST", "port": "REDIS_PORT", "db": "REDIS_DB", "password": "REDIS_PASSWORD"}
_PARAMS |= {"username": "REDIS_USER", "ssl": "REDIS_SSL"}


def frontier_of(origin: str, values: Mapping[str, Any], warnings: list[str]) -> str:
    """Return the URL of the frontier that settings name; empty: none, or they do not say that the job is there.

    A job is in Redis by scrapy-redis' scheduler, or Crawlo's mode ``distributed`` or a queue in Redis. Else the names
    are added to ``warnings``.
    """
    named = sorted(name for name in FRONTIER_NAMES if name in values and not _is_empty(values[name]))
    if values.get(OWN_URL):
        return str(values[OWN_URL])
    if _is_in_redis(values) or (named and _dotted(values.get("SCHEDULER")).startswith(_OWN_SCHEDULER)):
        return redis_url(origin, values)
    if named:
        url = shown_frontier(redis_url(origin, values))
        warnings.append(f"{origin}: {_listed(named)} no effect: --frontier {url} keeps the job there")
    others = sorted(name for name in MODE_NAMES if name in values and not _is_empty(values[name]))
    if others:
        warnings.append(
            f"{origin}: {_listed(others)} no effect: --frontier names the store of the queue and of the seen URLs"
        )
    return ""


def _listed(names: list[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {}, ())


def _is_in_redis(values: Mapping[str, Any]) -> bool:
    queue = str(values.get("QUEUE_TYPE", "")).lower()
    if queue:
        # Crawlo's "auto" is what its mode says.
        return queue.startswith("redis") or (queue != "memory" and _is_distributed(values))
    return _is_distributed(values) or any(
        _dotted(values.get(name)).startswith(_SCRAPY_REDIS) for name in ("SCHEDULER", "DUPEFILTER_CLASS")
    )


def _is_distributed(values: Mapping[str, Any]) -> bool:
    return "distributed" in (str(values.get(name, "")).lower() for name in ("RUN_MODE", "CRAWLO_MODE"))


def _dotted(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}" if isinstance(named, type) else str(named or "")


def redis_url(origin: str, values: Mapping[str, Any]) -> str:
    """Return the URL of the Redis that the names describe: one server, sentinels or a cluster."""
    values = {name: value for name, value in values.items() if not _is_empty(value)}
    params = values.get("REDIS_PARAMS", {})
    if not isinstance(params, Mapping):
        raise SettingsError(f"bad value in {origin}: REDIS_PARAMS", hint='as in REDIS_PARAMS = {"password": "…"}')
    values = {
        _PARAMS[name]: value for name, value in params.items() if name in _PARAMS and not _is_empty(value)
    } | values
    if url := values.get("REDIS_URL"):
        return _with_credentials(str(url), values)
    scheme = "redis" if is_off(values.get("REDIS_SSL", False)) else "rediss"
    credentials = _credentials(values)
    try:
        database = int(values.get("REDIS_DB", 0))
        if nodes := values.get("REDIS_CLUSTER_NODES"):
            return f"{scheme}+cluster://{credentials}{_hosts(nodes)}"
        if sentinels := values.get("REDIS_SENTINEL_URLS"):
            master = quote(str(values.get("REDIS_SENTINEL_SERVICE", "mymaster")), safe="")
            return f"{scheme}+sentinel://{credentials}{_hosts(sentinels)}/{master}/{database}"
        return f"{scheme}://{credentials}{_host(values)}:{int(values.get('REDIS_PORT', 6379))}/{database}"
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"invalid Redis address in {origin}: {error}", hint="REDIS_PORT and REDIS_DB must be numbers"
        ) from error


def _host(values: Mapping[str, Any]) -> str:
    host = str(values.get("REDIS_HOST", "127.0.0.1"))
    return f"[{host}]" if ":" in host else host


def _hosts(nodes: Any) -> str:
    """Return ``HOST:PORT,HOST:PORT`` of a list of addresses, URLs or mappings."""
    listed = nodes.split(",") if isinstance(nodes, str) else nodes
    return ",".join(
        f"{node['host']}:{node['port']}"
        if isinstance(node, Mapping)
        else str(node).strip().rpartition("://")[2].rstrip("/")
        for node in listed
    )


def _credentials(values: Mapping[str, Any]) -> str:
    user, password = (quote(str(values.get(name, "")), safe="") for name in ("REDIS_USER", "REDIS_PASSWORD"))
    user = user or quote(str(values.get("REDIS_USERNAME", "")), safe="")
    return f"{user}:{password}@" if user or password else ""


def _with_credentials(url: str, values: Mapping[str, Any]) -> str:
    """Add the user and the password that stand beside a URL which has none."""
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.scheme not in ("redis", "rediss"):
        return url
    return parts._replace(netloc=_credentials(values) + parts.netloc).geturl()
