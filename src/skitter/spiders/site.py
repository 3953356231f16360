"""The built-in spider: follows every link within the seeds' host keys, one record a page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skitter.model.request import Links
from skitter.spiders.base import Spider

if TYPE_CHECKING:
    from skitter.extract.response import Response


class SiteSpider(Spider):
    """Used when ``crawl`` is given URLs. Its scope is the host keys of its seeds."""

    name = "site"

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Links]:
        request, page = response.request, response.page
        yield {
            "url": response.url,
            "status": response.status,
            "depth": request.depth,
            "title": response.title,
            "content_type": page.header("content-type"),
            "bytes": len(page.body),
            "referrer": request.referrer,
            "fetched_at": datetime.fromtimestamp(page.started_at, UTC).isoformat(timespec="milliseconds"),
        }
        yield response.links()
