"""What to crawl: the arguments of ``crawl`` are URLs, or one spider."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skitter.cli.arguments import did_you_mean
from skitter.cli.job_ref import job_name_of
from skitter.errors import SpiderError, UrlError, UsageError
from skitter.model.url import absolute, host_key
from skitter.spiders.loading import check_spider, full_reference, load_spider, make_spider, named_spiders
from skitter.spiders.scrapy_settings import of_spider
from skitter.spiders.sitemaps import ROBOTS

_SPIDER_FILE = re.compile(r"\.py(:.*)?$")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+-]*:")
_HOSTLIKE = re.compile(r"localhost\b|[^\s:/]+\.[^\s:/]+|\[[0-9a-fA-F:.]+\]", re.IGNORECASE)


class Target(NamedTuple):
    """What was asked for, ready for a job."""

    spider: str
    """A reference for the job; empty: the built-in spider."""
    seeds: list[str]
    sitemaps: list[str]
    name: str
    """The default name of the job."""
    settings: Mapping[str, Any]
    """The spider's own."""
    sinks: Sequence[Any] = ()
    """Where the spider would have its results, if nobody says otherwise."""
    item_key: Any = ()
    warnings: Sequence[str] = ()
    """What of the spider has no effect."""


def find_target(
    words: Sequence[str],
    arguments: Mapping[str, str],
    folder: Path,
    places: Sequence[str],
    sitemaps: Sequence[str] = (),
) -> Target:
    """URLs if they are URLs, and a spider otherwise; UsageError with a hint when it is neither."""
    sitemaps = list(dict.fromkeys(word if word == ROBOTS else seed_url(word) for word in sitemaps))
    if not words and not sitemaps:
        raise UsageError(
            "nothing to crawl", hint="skitter crawl URL... or skitter crawl SPIDER; see skitter crawl --help"
        )
    if all("://" in word for word in words):
        if arguments:
            raise UsageError(
                f"arguments without a spider: -a {next(iter(arguments))}", hint="the built-in spider takes none"
            )
        seeds = list(dict.fromkeys(seed_url(word) for word in words))
        if ROBOTS in sitemaps and not seeds:
            raise _robots_of_whom()
        first = (seeds or sitemaps)[0]
        return Target("", seeds, sitemaps, job_name_of(host_key(first).partition("//")[2]), {})
    reference = find_spider(next(word for word in words if "://" not in word), folder, places)
    if len(words) > 1:
        raise UsageError(
            f"a spider and something else: {' '.join(words)}",
            hint="give one spider, or URLs; a spider has -a KEY=VALUE",
        )
    kind = load_spider(reference, folder)
    # Here rather than in each worker: a wrong -a is one clear error.
    spider = make_spider(kind, arguments)
    if sitemaps and not isinstance(spider.sitemap_urls, str):
        spider.sitemap_urls = [*spider.sitemap_urls, *sitemaps]
    check_spider(spider)
    name = job_name_of(spider.name or kind.__name__)
    if ROBOTS in sitemaps and not spider.start_urls:
        raise _robots_of_whom()
    full, warnings = full_reference(reference, kind, folder), list[str]()
    (_, settings), sinks = of_spider(full, spider, warnings)
    return Target(full, [], sitemaps, name, settings, sinks, spider.item_key, warnings)


def find_spider(word: str, folder: Path, places: Sequence[str]) -> str:
    """A reference: the word itself when it is a file, or what has this name in the project."""
    if _SPIDER_FILE.search(word):
        return word
    known = named_spiders(places, folder)
    references = known.get(word, [])
    if len(references) == 1:
        return references[0]
    if references:
        raise SpiderError(f"several spiders of one name: {word}", hint=f"name one of them: {', '.join(references)}")
    if (folder / word).is_file():
        raise SpiderError(f"not a spider file: {word}", hint="a spider's file ends in .py")
    if near := did_you_mean(word, known):
        raise SpiderError(f"no such spider: {word}", hint=near)
    if _HOSTLIKE.match(word):
        raise UsageError(f"a URL without a scheme: {word}", hint=f"did you mean https://{word} ?")
    if _SCHEME.match(word):
        return seed_url(word)  # mailto: and its like, which it refuses in its own words
    there = f"here: {', '.join(sorted(known))}" if known else f"none was found in {', '.join(places)}"
    raise SpiderError(f"neither a URL nor a spider: {word}", hint=f"https://{word} is a URL; spiders by name, {there}")


def _robots_of_whom() -> UsageError:
    return UsageError(
        "--sitemap robots: of which host?", hint="give a seed too, or --sitemap https://example.com/robots.txt"
    )


def seed_url(text: str) -> str:
    """A URL that a person typed, as the job stores it."""
    try:
        return absolute(text)
    except UrlError as error:
        raise UsageError(str(error), hint=error.hint or "a URL reads https://example.com/path") from error
