"""What a crawl starts from: URLs, sitemaps, or a spider. The same for the command line and for ``skitter.crawl``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from skitter.errors import UrlError, UsageError
from skitter.model.job_name import job_name_of
from skitter.model.url import absolute, host_key
from skitter.spiders.base import Spider
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.function_spider import FunctionSpider
from skitter.spiders.loading import check_spider, make_spider
from skitter.spiders.scrapy_settings import of_spider
from skitter.spiders.sitemaps import ROBOTS


class CrawlSource(NamedTuple):
    """A checked source: everything about a job that URLs or a spider decide."""

    spider: str | None
    """A reference that a worker can load; empty: the built-in spider; None: only ``instance`` has it."""
    seeds: list[str]
    sitemaps: list[str]
    name: str
    """The default name of the job."""
    settings: Mapping[str, Any] = {}
    """The spider's own."""
    sinks: Sequence[Any] = ()
    """Where the spider would have its results, if nobody says otherwise."""
    item_key: Any = ()
    arguments: Mapping[str, str] = {}
    instance: Spider | None = None
    warnings: Sequence[str] = ()
    """What of the spider has no effect."""


def source_of_urls(urls: Sequence[str], sitemaps: Sequence[str], name: str = "") -> CrawlSource:
    """The built-in spider, from seeds and sitemaps. At least one of them must be given, or the name of the job."""
    seeds, listed = list(dict.fromkeys(map(seed_url, urls))), _sitemap_urls(sitemaps)
    if not seeds and ROBOTS in listed:
        raise _robots_of_which_host()
    for first in (seeds or listed)[:1]:
        name = job_name_of(host_key(first).partition("//")[2])
    return CrawlSource("", seeds, listed, name)


def source_of_spider(
    kind: type[Spider],
    reference: str | None,
    arguments: Mapping[str, str],
    sitemaps: Sequence[str] = (),
    urls: Sequence[str] = (),
    *,
    starts_empty: bool = False,
) -> CrawlSource:
    """A spider class. It is constructed here rather than in each worker: a wrong argument is one clear error.

    ``urls``: what a function is called for. ``starts_empty``: it need not start anywhere, because requests are added.
    """
    if urls and not issubclass(kind, FunctionSpider):
        raise UsageError(
            f"a spider does not take URLs: {kind.__name__} {' '.join(urls)}",
            hint="give one spider, or URLs; -a KEY=VALUE passes an argument to a spider",
        )
    for name, value in arguments.items():
        if not isinstance(value, str):
            # Stores keep text, and another worker would get another type.
            raise UsageError(
                f"an argument must be text: {name}={value!r:.100}", hint=f"give {name} as {str(value)!r:.100}"
            )
    seeds, listed = list(dict.fromkeys(map(seed_url, urls))), _sitemap_urls(sitemaps)
    spider = make_spider(kind, arguments)
    if issubclass(kind, FunctionSpider):
        if not seeds and not listed and not starts_empty:
            raise UsageError(f"a function needs URLs: {kind.__name__}", hint="give at least one URL after it")
        spider.start_urls = seeds
    if listed and not isinstance(spider.sitemap_urls, str):
        spider.sitemap_urls = [*spider.sitemap_urls, *listed]
    check_spider(spider, starts_empty=starts_empty)
    if ROBOTS in listed and not spider.start_urls:
        raise _robots_of_which_host()
    warnings: list[str] = []
    own_settings = spider.own_settings if isinstance(spider, AdaptedSpider) else partial(of_spider, spider=spider)
    (_, settings), sinks, _ = own_settings(reference or "the spider", warnings=warnings)
    return CrawlSource(
        spider=reference,
        seeds=seeds,
        sitemaps=listed,
        name=job_name_of(spider.name or kind.__name__),
        settings=settings,
        sinks=sinks,
        item_key=spider.item_key,
        arguments=arguments,
        instance=spider,
        warnings=warnings,
    )


def seed_url(text: str) -> str:
    """A URL that a person typed, as the job stores it."""
    try:
        return absolute(text)
    except UrlError as error:
        raise UsageError(str(error), hint=error.hint or "give a URL such as https://example.com/path") from error


def check_inside(path: str, what: str) -> None:
    """UsageError for a file that somebody elsewhere names outside the current folder."""
    folder = Path.cwd()
    if Path(path).is_absolute() or not (folder / path).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{what} outside the server's folder: {path[:200]}", hint="name a file below that folder")


def _sitemap_urls(sitemaps: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(word if word == ROBOTS else seed_url(word) for word in sitemaps))


def _robots_of_which_host() -> UsageError:
    return UsageError(
        'the sitemap "robots" needs a host', hint="give a seed too, or the sitemap https://example.com/robots.txt"
    )
