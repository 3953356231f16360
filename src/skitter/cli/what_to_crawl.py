"""The source of a crawl from the arguments of ``crawl``: URLs, or one spider."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from skitter.app.crawl_source import CrawlSource, seed_url, source_of_spider, source_of_urls
from skitter.app.intakes import job_name_of_intake
from skitter.errors import SpiderError, UsageError, did_you_mean
from skitter.spiders.foreign_project import list_project_spiders
from skitter.spiders.loading import full_reference, load_spider
from skitter.spiders.spider_files import named_spiders

_SPIDER_FILE = re.compile(r"\.py(:.*)?$")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+-]*:")
_HOSTLIKE = re.compile(r"localhost\b|[^\s:/]+\.[^\s:/]+|\[[0-9a-fA-F:.]+\]", re.IGNORECASE)
_LOOPBACK = re.compile(r"localhost\b|127\.|\[::1\]")


def find_source(
    words: Sequence[str],
    arguments: Mapping[str, str],
    folder: Path,
    spider_paths: Sequence[str],
    sitemaps: Sequence[str] = (),
    intakes: Sequence[str] = (),
    *,
    job: str | None = None,
    closes_intakes: bool = False,
) -> CrawlSource:
    """Return the source that the arguments name; UsageError with a hint if they are neither URLs nor a spider.

    With intakes, or to close those of a job that is named, there need be nothing else.
    """
    has_intakes = bool(intakes) or (closes_intakes and job is not None)
    if not words and not sitemaps and not has_intakes:
        raise UsageError(
            "nothing to crawl", hint="skitter crawl URL... or skitter crawl SPIDER; see skitter crawl --help"
        )
    if all("://" in word for word in words):
        if arguments:
            raise UsageError(
                f"arguments without a spider: -a {next(iter(arguments))}", hint="the built-in spider takes none"
            )
        return source_of_urls(words, sitemaps, job_name_of_intake(intakes[0]) if intakes else job or "")
    spider = next(word for word in words if "://" not in word)
    reference, others = find_spider(spider, folder, spider_paths), [word for word in words if word != spider]
    kind = load_spider(reference, folder)
    return source_of_spider(
        kind,
        full_reference(reference, kind, folder),
        arguments,
        sitemaps,
        others,
        starts_empty=has_intakes,
    )


def find_spider(word: str, folder: Path, spider_paths: Sequence[str]) -> str:
    """Return a spider reference: the word itself if it is a file, else the spider of this name in the project."""
    if _SPIDER_FILE.search(word):
        return word
    known = named_spiders(list_project_spiders(spider_paths, folder).spiders)
    references = known.get(word, [])
    if len(references) == 1:
        return references[0]
    if references:
        raise SpiderError(f"several spiders with this name: {word}", hint=f"choose one: {', '.join(references)}")
    if (folder / word).is_file():
        raise SpiderError(f"not a spider file: {word}", hint="a spider's file ends in .py")
    if near := did_you_mean(word, known):
        raise SpiderError(f"no such spider: {word}", hint=near)
    if _HOSTLIKE.match(word):
        scheme = "http" if _LOOPBACK.match(word) else "https"
        raise UsageError(f"a URL without a scheme: {word}", hint=f"did you mean {scheme}://{word} ?")
    if _SCHEME.match(word):
        return seed_url(word)  # mailto: and its like, which it refuses in its own words
    there = f"{', '.join(sorted(known))}" if known else f"none in {', '.join(spider_paths)}"
    raise SpiderError(
        f"neither a URL nor a spider: {word}", hint=f"https://{word} is a URL; spiders found by name: {there}"
    )
