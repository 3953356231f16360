"""The base class of spiders."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from skitter.errors import SpiderError
from skitter.model.request import Request
from skitter.spiders.file_saver import FileSaver
from skitter.spiders.sitemaps import followed

if TYPE_CHECKING:
    # Not loaded where a spider's settings are only read: a process without pages needs no parser.
    from skitter.extract.response import Response


class Spider:
    """The base of all spiders: give it a ``name`` and ``start_urls``, and write ``parse``.

    Callbacks may be plain generators, async generators, coroutines or functions that return a list.
    They yield items (dicts, dataclasses, msgspec structs, attrs or pydantic models) and Requests.
    Arguments of ``-a KEY=VALUE`` become attributes.
    """

    name: str = ""
    """The name of the job, unless ``--job`` gives another."""
    start_urls: Sequence[str] = ()
    """The URLs that ``start`` makes requests of."""
    allowed_domains: Sequence[str] = ()
    """Links to other domains are not followed; empty: every link that the spider yields is."""
    sitemap_urls: Sequence[str] = ()
    """Sitemaps whose pages are crawled like ``start_urls``; "robots": those that their hosts' robots.txt name."""
    custom_settings: ClassVar[Mapping[str, Any]] = {}
    """Settings of this spider, which win over those of files; names of Scrapy's are understood."""
    handle_statuses: Sequence[int] = ()
    """Statuses besides 2xx whose pages the callback wants to see."""
    item_functions: Sequence[Callable[..., Any] | str] = ()
    """What every item passes, in this order: functions, names of methods, or ``module:function``. Each gets the item,
    and the response if it takes two; it returns the item, or raises DropItem or RejectItem. It may be async."""
    item_key: str | Sequence[str] = ()
    """Fields that name an item in targets that keep one record for each name, such as databases."""
    sinks: Sequence[str | Mapping[str, Any]] = ()
    """Targets for when ``-o`` names none, instead of those of the project; a table has ``target`` and options."""

    file_saver: FileSaver | None = None
    """Stores files for ``save_file``. Set by the worker."""

    def __init__(self, **arguments: str) -> None:
        for name, value in arguments.items():
            setattr(self, name, value)

    @property
    def logger(self) -> logging.Logger:
        """A logger named after the spider. Its records are events of the crawl."""
        return logging.getLogger(f"skitter.spider.{self.name or type(self).__name__}")

    def start(self) -> Iterable[Request] | AsyncIterable[Request]:
        """The first requests. They permit their hosts: see the network guard."""
        return map(Request, self.start_urls)

    def parse(self, response: Response) -> Any:
        """The callback of requests that name none. A spider whose requests all have callbacks needs no ``parse``."""
        raise NotImplementedError(f"{type(self).__name__} has no parse method, and a request named no other callback")

    async def save_file(
        self,
        response: Response,
        types: Sequence[str] = (),
        max_bytes: int | None = None,
        item: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """The callback of ``response.download``: stores the file, and yields its record. Override it to add to that."""
        if self.file_saver is None:
            raise SpiderError(
                f"files are stored in a crawl only: {response.url}", hint="skitter crawl, or skitter.crawl"
            )
        yield await self.file_saver.save(response, types, max_bytes, item or {})

    def file_failed(self, failure: Any) -> Any:
        """The errback of ``response.download``: yields a record with the status ``failed``."""
        from skitter.extract.downloads import failed_record

        yield failed_record(failure.request, failure.message, failure.request.cb_kwargs.get("item", {}))

    def parse_sitemap(self, response: Response) -> Any:
        """The callback of ``sitemap_urls``: every page goes to ``parse``. Override it to choose among them."""
        return followed(response, self.start_urls)
