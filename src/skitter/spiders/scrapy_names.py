"""Scrapy's special names: keys of a request's ``meta``, and attributes and methods of a spider.

None of them is ignored in silence. What has no counterpart yet is refused where the crawl would be another one without
it, and else named in a warning; each with what to write instead (docs/how-to/come-from-scrapy.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skitter.errors import RequestError, SpiderError
from skitter.model.request import RequestFields
from skitter.model.secrets import shown_url
from skitter.settings import names

_STATUSES = "handle_statuses of the spider lists statuses besides 2xx that its callbacks want to see"
_ATTEMPTS = "the setting max_attempts counts the attempts of every request of the job"
_REDIRECTS = "redirects are followed before the callback; the setting max_redirects bounds them"
_BROWSER = "pages are not rendered: ask for the data that the page's scripts load"
_CHAIN = "response.request.chain has the URLs that redirected to the page"
_TIMEOUT = "the setting timeout_seconds is that of every request of the job"
_SIZE = "the setting max_body_bytes is that of every page of the job"
_COOKIES = "each worker keeps one cookie jar; the setting cookies=false turns it off"

META: dict[str, str] = {
    "allow_offsite": "allowed_domains of the spider says which links are followed",
    "bindaddress": "the system chooses the address that requests come from",
    "cookiejar": _COOKIES,
    "crawlera": "one proxy for all fetches of a node is the setting proxy",
    "depth": "response.request.depth has the links from a seed; give a number of your own another name",
    "dont_cache": "there is no cache: every page is fetched",
    "dont_merge_cookies": _COOKIES,
    "dont_obey_robotstxt": "the setting obey_robots is that of the whole job",
    "dont_redirect": _REDIRECTS,
    "dont_retry": _ATTEMPTS,
    "download_fail_on_dataloss": "a body that ends too early is fetched again, and dead after max_attempts",
    "download_latency": "response.seconds has it",
    "download_maxsize": _SIZE,
    "download_slot": "requests are limited per host key, by the settings per_host and delay_seconds",
    "download_timeout": _TIMEOUT,
    "download_warnsize": _SIZE,
    "ftp_password": "only http and https are fetched",
    "ftp_user": "only http and https are fetched",
    "handle_httpstatus_all": _STATUSES,
    "handle_httpstatus_list": _STATUSES,
    "max_retry_times": _ATTEMPTS,
    "playwright": _BROWSER,
    "playwright_context": _BROWSER,
    "playwright_include_page": _BROWSER,
    "playwright_page": _BROWSER,
    "playwright_page_methods": _BROWSER,
    "proxy": "a request has no proxy of its own, and is not sent without it; the setting proxy is one for all fetches",
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

REFUSED: dict[str, str] = {
    "handle_httpstatus_all": _STATUSES,
    "handle_httpstatus_list": _STATUSES,
    "parse_start_url": "write parse, and let it yield from self.follow_rules(response)",
    "sitemap_filter": "override parse_sitemap to choose among what a sitemap lists",
    "sitemap_rules": "override parse_sitemap, and yield a Request with the callback that each URL is for",
    "start_requests": "call it start",
}
"""Attributes of a spider that are refused: without them another set of pages would be crawled."""
WARNED: dict[str, str] = {
    "http_user": "headers of each Request may have Authorization",
    "sitemap_alternate_links": "override parse_sitemap to follow them",
    "sitemap_follow": "every sitemap of an index is followed; override parse_sitemap to choose",
}
WARNED_METHODS: dict[str, str] = {
    "closed": "nothing calls it; what is to follow a crawl can follow skitter.crawl(…) in a script",
    "from_crawler": "nothing calls it; arguments of -a are given to __init__",
    "update_settings": "nothing calls it; settings of the spider are its custom_settings",
}
"""Attributes of a spider that have no effect, with the text of the warning."""
SETTINGS: dict[str, str] = {
    "download_delay": "delay_seconds",
    "download_maxsize": "max_body_bytes",
    "download_timeout": "timeout_seconds",
    "user_agent": "user_agent",
}
"""Attributes of a spider that are settings, in Scrapy as here."""


def check_meta(request: RequestFields) -> None:
    """Raise RequestError for a ``meta`` key without a counterpart, unless its value is ``None`` or ``False``."""
    for name, value in request.meta.items():
        if name in META and (name == "proxy" or (value is not None and value is not False)):
            raise RequestError(
                f"skitter has nothing for meta[{name!r}], which Scrapy gives a meaning: {shown_url(request.url)}",
                hint=META[name],
            )


def check_attributes(kind: type) -> None:
    """Raise SpiderError for attributes that change a crawl in Scrapy and have no counterpart."""
    for name, counterpart in REFUSED.items():
        if getattr(kind, name, None):
            raise SpiderError(
                f"{name} of Scrapy's spiders does not work here: {kind.__name__}",
                hint=f"{counterpart}; something of your own needs another name",
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
        warnings.append(f"{kind.__name__}.{name} is no setting: write it into custom_settings")
    return {setting: value for setting, value in values.items() if value is not None}
