"""The spider and the settings of a command that crawls nothing, such as ``settings``, ``fetch`` and ``parse``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from skitter.cli.arguments import key_value

if TYPE_CHECKING:
    from skitter.app.crawl_source import CrawlSource
    from skitter.cli.settings_layers import Collected


@contextmanager
def without_events() -> Iterator[None]:
    """Keep events of workers to themselves: they are those of a job, and what matters of a page is in the answer."""
    import logging

    from skitter.observe import events

    before = events.logger.level
    events.logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        events.logger.setLevel(before)


class SpiderSettings(NamedTuple):
    """A spider, or none, and all settings as a crawl of it would have them."""

    source: CrawlSource | None
    collected: Collected
    warnings: list[str]


def spider_settings(options: argparse.Namespace, spider: str | None) -> SpiderSettings:
    """Load the spider, if one is named, and join all layers of settings. Its file is run."""
    import os
    from pathlib import Path

    from skitter.app.crawl_source import source_of_spider
    from skitter.cli import settings_layers
    from skitter.cli.output import stdout_for_data
    from skitter.cli.what_to_crawl import find_spider
    from skitter.errors import UsageError
    from skitter.spiders.loading import full_reference, load_spider

    folder = Path.cwd()
    arguments = dict(key_value(text, "-a") for text in options.argument)
    project = settings_layers.read_project(folder)
    source = None
    if spider is not None:
        with stdout_for_data():
            reference = find_spider(spider, folder, project.spider_paths)
            kind = load_spider(reference, folder)
            # It need not start anywhere: its callbacks are what is wanted.
            named = full_reference(reference, kind, folder)
            source = source_of_spider(kind, named, arguments, starts_empty=True)
    elif arguments:
        raise UsageError(f"arguments without a spider: -a {next(iter(arguments))}", hint="name the spider too")
    collected = settings_layers.collect(
        spider=(source.spider or "", dict(source.settings)) if source is not None else ("", {}),
        project=project,
        environment=os.environ,
        config=options.config,
        overrides=options.overrides,
    )
    return SpiderSettings(source, collected, [*(source.warnings if source is not None else ()), *collected.warnings])
