"""Crawlo's base class: a spider whose start requests come from ``start_requests``."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable
from pathlib import Path
from typing import Any

import skitter
from skitter.contrib.crawlo.requests import Request
from skitter.model.secrets import shown_frontier
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.scrapy_settings import Translated, of_spider, translated


class Spider(AdaptedSpider):
    """Spider like Crawlo's: name, start_urls, custom_settings, allowed_domains, start_requests, parse, logger."""

    handled_names = frozenset({"start_requests"})

    def start_requests(self) -> Any:
        """Yield the start requests, by default those of ``start_urls``."""
        for url in self.start_urls:
            yield Request(url)

    async def start(self) -> Any:
        """Yield the requests of ``start_requests``, which may be sync or async."""
        requests = self.start_requests()
        if isinstance(requests, Awaitable):
            requests = await requests
        if isinstance(requests, AsyncIterable):
            async for request in requests:
                yield request
        else:
            for request in requests or ():
                yield request

    def own_settings(self, origin: str, warnings: list[str]) -> Translated:
        """Return the settings of the project, if any, overridden by those of the spider."""
        # Not at the top: project imports this module.
        from skitter.contrib.crawlo.project import project_settings

        module, values = project_settings(Path.cwd())
        # The list of spiders has read it already: no warning should say that it has no effect.
        values.pop("SPIDER_MODULES", None)
        (_, project), sinks, frontier = translated(module, values, warnings)
        if frontier:
            warnings.append(
                f"{module}: the job is not stored in Redis unless you give --frontier {shown_frontier(frontier)}"
            )
        (_, own), own_sinks, _ = of_spider(origin, self, warnings)
        return Translated((origin, project | own), own_sinks or sinks)

    def make_request(self, url: str, callback: Any = None, **options: Any) -> skitter.Request:
        """Return a request, as in Crawlo."""
        return Request(url, callback=callback, **options)
