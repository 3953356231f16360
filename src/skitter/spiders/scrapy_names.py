"""Scrapy's special names: keys of a request's ``meta``, and attributes and methods of a spider.

None of them is ignored in silence. What has no counterpart yet is refused where the crawl would be another one without
it, and else named in a warning; each with what to write instead (docs/how-to/migrate-from-scrapy.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skitter.errors import RequestError, SpiderError
from skitter.model.request import ALL_STATUSES, EXPECTED, Request
from skitter.model.secrets import shown_url
from skitter.model.session import is_session_name
from skitter.settings import names

_STATUSES = "handle_statuses of the spider lists statuses besides 2xx whose responses its callbacks get"
_ATTEMPTS = "max_attempts of a Request counts its attempts, including the first"
_BROWSER = "render=True of a Request renders its page, and actions control the browser"
_CHAIN = "response.request.chain has the URLs that redirected to the page"
_SIZE = "the setting max_body_bytes applies to every page of the job"

META: dict[str, str] = {
    "autothrottle_dont_adjust_delay": "the setting target_concurrency applies to the whole job",
    "allow_offsite": "allowed_domains of the spider limits the links to follow",
    "bindaddress": "the system chooses the address that requests come from",
    "crawlera": "--proxies gives a job a pool of proxies, and proxy of a Request sets one for it alone",
    "depth": "response.request.depth has the number of links from a seed; give your own number another name",
    "dont_cache": "cache_dir applies to the whole crawl; without it, every page is fetched",
    "dont_obey_robotstxt": "the setting obey_robots applies to the whole job",
    "download_fail_on_dataloss": "a body that ends too early is fetched again, and failed after max_attempts",
    "download_latency": "response.seconds has it",
    "download_maxsize": _SIZE,
    "download_slot": "requests are limited per host key, by the settings per_host and delay_seconds",
    "download_warnsize": _SIZE,
    "ftp_password": "only http and https are fetched",
    "ftp_user": "only http and https are fetched",
    "give_up_log_level": "skitter failed lists failed requests",
    "http_proxy": "proxy of a Request sets one for it alone",
    "is_start_request": "response.request.seed is True for a first request",
    "playwright": _BROWSER,
    "playwright_context": _BROWSER,
    "playwright_include_page": _BROWSER,
    "playwright_page": _BROWSER,
    "playwright_page_methods": _BROWSER,
    "redirect_reasons": _CHAIN,
    "redirect_times": _CHAIN,
    "redirect_urls": _CHAIN,
    "referrer_policy": "no Referer is sent; headers of the request may have one",
    "retry_times": _ATTEMPTS,
    "selenium": _BROWSER,
    "splash": _BROWSER,
    "verbatim_url": "URLs are sent as a browser would send them",
    "zyte_api": _BROWSER,
    "zyte_api_automap": _BROWSER,
}
"""Keys of ``meta`` that change how Scrapy, or a plugin of it, fetches; with the counterpart of each."""

OPTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "download_timeout": ("timeout", float),
    "handle_httpstatus_list": ("handle_statuses", list),
    "max_retry_times": ("max_attempts", lambda times: int(times) + 1),
    "proxy": ("proxy", str),
}
"""Keys of ``meta`` that are options of a request: which, and how their value is read. ``dont_retry`` and
``handle_httpstatus_all`` are too, ``cookiejar`` and ``dont_merge_cookies`` are its session, and ``dont_redirect`` makes
the page that redirects the last one."""

REFUSED: dict[str, str] = {
    "handle_httpstatus_all": _STATUSES,
    "handle_httpstatus_list": _STATUSES,
    "parse_start_url": "write parse with yield from self.follow_rules(response)",
    "sitemap_filter": "override parse_sitemap to select pages of a sitemap",
    "sitemap_rules": "override parse_sitemap, and yield a Request with the callback of each URL",
    "start_requests": "rename it to start",
}
"""Attributes of a spider that are refused: without them another set of pages would be crawled."""
WARNED: dict[str, str] = {
    "http_user": "use [[credentials]] of skitter.toml, or the header Authorization of a Request",
    "sitemap_alternate_links": "override parse_sitemap to follow them",
    "sitemap_follow": "every sitemap of an index is followed; override parse_sitemap to select some",
}
WARNED_METHODS: dict[str, str] = {
    "closed": "it is not called; use the hook on_close, or code after skitter.crawl(…) in a script",
    "from_crawler": "it is not called; arguments of -a are passed to __init__",
    "update_settings": "it is not called; use custom_settings for settings of the spider",
}
"""Attributes of a spider that have no effect, with the text of the warning."""
SETTINGS: dict[str, str] = {
    "download_delay": "delay_seconds",
    "download_maxsize": "max_body_bytes",
    "download_timeout": "timeout_seconds",
    "user_agent": "user_agent",
}
"""Attributes of a spider that are settings, in Scrapy as here."""


def with_options(request: Request) -> Request:
    """Return the request with the options that Scrapy's keys of its ``meta`` mean; its own options win.

    Raises RequestError for a key without a counterpart, unless its value asks for nothing.
    """
    found: dict[str, Any] = {}
    for name, value in request.meta.items():
        if name in META and _asks(name, value):
            raise RequestError(
                f"skitter has no equivalent of Scrapy's meta[{name!r}]: {shown_url(request.url)}",
                hint=META[name],
            )
        if name == "proxy" and not value:
            raise RequestError(
                f"meta['proxy'] is empty, which would send the request without any proxy: {shown_url(request.url)}",
                hint="omit the key: the job's pool or the setting proxy is used, if there is one",
            )
        if name in OPTIONS and value is not None and value is not False:
            field, convert = OPTIONS[name]
            try:
                found[field] = convert(value)
            except (TypeError, ValueError) as error:
                shown = "***" if name == "proxy" else f"{value!r:.50}"
                raise RequestError(
                    f"meta[{name!r}] has an invalid value: {shown}: {shown_url(request.url)}",
                    hint=f"it sets {field} of a Request: {EXPECTED[field]}",
                ) from error
    # Whatever the order of the keys, these are stronger than max_retry_times and a list.
    if request.meta.get("dont_retry"):
        found["max_attempts"] = 1
    if request.meta.get("dont_merge_cookies"):
        found["session"] = None
    elif request.meta.get("cookiejar") is not None:
        found["session"] = _session_of(request)
    if request.meta.get("handle_httpstatus_all"):
        found["handle_statuses"] = ALL_STATUSES
    changes = {field: value for field, value in found.items() if not getattr(request, field)}
    return request.replace(**changes) if changes else request


def _session_of(request: Request) -> str:
    """The session of Scrapy's ``cookiejar``, which may be any number or text."""
    name = str(request.meta["cookiejar"])
    if not is_session_name(name):
        raise RequestError(
            f"meta['cookiejar'] has an invalid value: {name!r:.50}: {shown_url(request.url)}",
            hint=f"it sets session of a Request: {EXPECTED['session']}",
        )
    return name


def _asks(name: str, value: Any) -> bool:
    if name == "download_fail_on_dataloss":
        return value is False
    return value is not None and value is not False


def retries_first(meta: Mapping[str, Any]) -> bool:
    """Return whether a status that is handled is tried again first, as it is for who asks for it by Scrapy's keys."""
    return "handle_httpstatus_list" in meta or "handle_httpstatus_all" in meta


def check_attributes(kind: type) -> None:
    """Raise SpiderError for attributes that change a crawl in Scrapy and have no counterpart."""
    for name, counterpart in REFUSED.items():
        # A base class of another framework may do by itself what one of these says.
        if getattr(kind, name, None) and name not in getattr(kind, "handled_names", ()):
            raise SpiderError(
                f"{name} of Scrapy's spiders does not work here: {kind.__name__}",
                hint=f"{counterpart}; give your own attribute another name",
            )


def attribute_settings(spider: object, warnings: list[str]) -> Mapping[str, Any]:
    """Return the settings in a spider's attributes, also by ``-a``; attributes without effect go to ``warnings``."""
    kind = type(spider)
    left = {name: text for name, text in WARNED.items() if getattr(kind, name, None)}
    left |= {name: text for name, text in WARNED_METHODS.items() if callable(getattr(kind, name, None))}
    warnings += [f"{kind.__name__}.{name} has no effect: {counterpart}" for name, counterpart in left.items()]
    values = {setting: getattr(spider, name, None) for name, setting in SETTINGS.items()}
    own = {name for parent in kind.__mro__ if not parent.__module__.startswith("skitter.") for name in vars(parent)}
    # item_functions is both: an attribute has functions, the setting has names.
    for name in sorted(own.intersection(names()) - {"item_functions", *SETTINGS}):
        warnings.append(f"{kind.__name__}.{name} is not a setting here: put it into custom_settings")
    return {setting: value for setting, value in values.items() if value is not None}
