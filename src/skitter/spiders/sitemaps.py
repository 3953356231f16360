"""Sitemaps of a spider: pages are followed as seeds are, and the sitemaps of an index too.

A sitemap is a request like any other, with the callback ``parse_sitemap``: it is polite, obeys robots.txt, is
retried, deduped and resumed, and what it lists is committed in parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from skitter.errors import SitemapError, UrlError
from skitter.model.request import Links, Request
from skitter.model.url import absolute, host_key
from skitter.policy.robots import ROBOTS_PATH, Robots

if TYPE_CHECKING:
    from skitter.extract.response import Response

SITEMAP_CALLBACK = "parse_sitemap"
ROBOTS = "robots"
"""The entry of a sitemap list that means the sitemaps in the robots.txt of each seed's host."""
MAX_LEVELS = 3
"""The deepest nesting of indexes, which the protocol forbids and sites use."""
MAX_NAMED = 1_000
"""The most sitemaps that are read from one robots.txt."""
EMPTY = "sitemap_empty"
"""Rule of a sitemap that lists nothing, and of a robots.txt that names no sitemap."""
_LEVEL, _NAMED_BY = "sitemap_level", "sitemap_named_by"


def sitemap_requests(sitemaps: Iterable[str], seeds: Iterable[str]) -> Iterator[Request]:
    """Return the seed requests for a spider's sitemaps."""
    for sitemap in sitemaps:
        if sitemap != ROBOTS:
            yield Request(sitemap, SITEMAP_CALLBACK)
            continue
        for key in dict.fromkeys(_keys(seeds)):
            yield Request(key + ROBOTS_PATH, SITEMAP_CALLBACK)


def is_robots(request: Request) -> bool:
    """Return whether a request is for the sitemaps that a robots.txt names."""
    return request.callback == SITEMAP_CALLBACK and request.url == host_key(request.url) + ROBOTS_PATH


def followed(response: Response, seeds: Sequence[str]) -> Iterator[Links | Request]:
    """Iterate over the links of a sitemap, or the sitemaps of a robots.txt.

    URLs of another site than the sitemap's own are left out, unless a seed or the robots.txt that named the sitemap is
    of that site: otherwise anybody could list anybody's pages. Raises SitemapError for what is no sitemap at all.
    """
    if is_robots(response.request):
        yield from _named(response)
        return
    # Most jobs have no sitemap, and a worker starts without what reads one.
    from skitter.extract.sitemaps import listed_in_pieces

    level, named_by = response.meta.get(_LEVEL, 0), response.meta.get(_NAMED_BY, "")
    sites = {_site(key) for key in (host_key(response.url), named_by, *_keys(seeds)) if key}
    found = False
    try:
        for entries in listed_in_pieces(response.body):
            found = found or bool(entries)
            pages = Links()
            for entry in entries:
                if (url := _joined(response, entry.url)) is None:
                    continue
                if _site(host_key(url)) not in sites:
                    response.leave_out("other_site")
                elif not entry.is_sitemap:
                    pages.append(url)
                elif level + 1 >= MAX_LEVELS:
                    response.leave_out("sitemap_too_deep")
                else:
                    yield Request(url, SITEMAP_CALLBACK, meta={**response.meta, _LEVEL: level + 1})
            if pages:
                yield pages
            # For the worker to do something else (``Callbacks``): a file can take a second.
            yield Links()
    except SitemapError as error:
        if not found and error.rule != "empty":
            raise
        response.leave_out(f"sitemap_{error.rule}")


def _named(response: Response) -> Iterator[Request]:
    """Iterate over requests for the sitemaps that a robots.txt names."""
    named = Robots.parse(response.body, "*").sitemaps
    if not named:
        response.leave_out(EMPTY)
    if len(named) > MAX_NAMED:
        response.leave_out("sitemap_too_many")
    for text in named[:MAX_NAMED]:
        if (url := _joined(response, text)) is not None:
            yield Request(url, SITEMAP_CALLBACK, meta={_NAMED_BY: host_key(response.url)})


def _joined(response: Response, text: str) -> str | None:
    try:
        return absolute(text, response.url)
    except UrlError as error:
        response.leave_out(error.rule)
        return None


def _keys(seeds: Iterable[str]) -> Iterator[str]:
    """Iterate over the host keys of seeds, skipping bad ones, which are reported elsewhere."""
    for seed in seeds:
        with contextlib.suppress(UrlError):
            yield host_key(absolute(seed))


def _site(key: str) -> str:
    """Return a host key without scheme and www: sites that moved list their old names for years."""
    return key.partition("//")[2].removeprefix("www.")
