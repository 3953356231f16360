"""The built-in spider: it follows every link within the seeds' host keys, and yields one record a page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skitter.model.request import Links
from skitter.model.secrets import shown_url
from skitter.spiders.base import Spider

if TYPE_CHECKING:
    from skitter.extract.response import Response


class SiteSpider(Spider):
    """The spider for URLs on the command line. Its scope is the host keys of its seeds."""

    name = "site"

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Links]:
        request, page = response.request, response.page
        record = {
            "url": response.url,
            "status": response.status,
            "depth": request.depth,
            "title": response.title,
            "content_type": page.header("content-type"),
            "bytes": len(page.body),
            "referrer": shown_url(request.referrer) if request.referrer else None,
            "fetched_at": datetime.fromtimestamp(page.started_at, UTC).isoformat(timespec="milliseconds"),
        }
        # What the owner asks for, where they ask for something.
        directives = response.directives
        if directives.robots:
            record["robots"] = list(directives.robots)
        if directives.canonical is not None:
            record["canonical"] = directives.canonical
        if directives.tdm_reservation is not None:
            record["tdm_reservation"] = int(directives.tdm_reservation)
        if directives.tdm_policy is not None:
            record["tdm_policy"] = directives.tdm_policy
        if nofollow := response.nofollow_links():
            record["nofollow_links"] = len(nofollow)
        yield record
        yield response.links()
