"""The base class of spiders."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from skitter.errors import SpiderError
from skitter.model.request import Links, Request
from skitter.spiders.file_saver import FileSaver
from skitter.spiders.hooks import Hooks
from skitter.spiders.sitemaps import followed

if TYPE_CHECKING:
    # Not loaded where a spider's settings are only read: a process without pages needs no parser.
    from skitter.cluster.lock import Held
    from skitter.extract.response import Response
    from skitter.spiders.job_locks import JobLocks
    from skitter.spiders.rules import Rule


class Spider(Hooks):
    """Base class of spiders: set ``name`` and ``start_urls``, and write ``parse``.

    A spider may have hooks (``on_request`` and others, see Hooks), and counts in ``self.stats``.

    Callbacks may be plain generators, async generators, coroutines, or functions that return a list. They yield
    items (dicts, dataclasses, msgspec structs, attrs or pydantic models) and Requests. Arguments of ``-a KEY=VALUE``
    become attributes."""

    name: str = ""
    """Name of the job, unless ``--job`` gives another."""
    start_urls: Sequence[str] = ()
    """URLs that ``start`` creates requests for."""
    allowed_domains: Sequence[str] = ()
    """Links to other domains are not followed. If empty, every link that the spider yields is followed."""
    rules: Sequence[Rule] = ()
    """Rules that select the links to follow and their callbacks. A spider with rules needs no ``parse``."""
    sitemap_urls: Sequence[str] = ()
    """Sitemaps whose pages are crawled like ``start_urls``. "robots" stands for the sitemaps in the robots.txt of
    their hosts."""
    custom_settings: ClassVar[Mapping[str, Any]] = {}
    """Settings of this spider, which override those of files. Scrapy's names are understood."""
    handle_statuses: Sequence[int] = ()
    """Statuses besides 2xx whose responses the callbacks get."""
    item_functions: Sequence[Callable[..., Any] | str] = ()
    """Functions that every item passes, in this order: functions, names of methods, or ``module:function``. Each
    gets the item, and the response if it takes two arguments; it returns the item, or raises DropItem or RejectItem.
    It may be async."""
    item_key: str | Sequence[str] = ()
    """Fields that identify an item in outputs that keep one record per key, such as databases."""
    sinks: Sequence[str | Mapping[str, Any]] = ()
    """Outputs to use if ``-o`` names none, instead of those of the project. A table has ``target`` and options."""

    job_locks: JobLocks | None = None
    """Locks of the job. Set by the worker; a spider without a job creates its own."""
    file_saver: FileSaver | None = None
    """Stores files for ``save_file``. Set by the worker."""

    def __init__(self, **arguments: str) -> None:
        for name, value in arguments.items():
            setattr(self, name, value)

    @property
    def logger(self) -> logging.Logger:
        """Logger named after the spider. Its records are events of the crawl."""
        return logging.getLogger(f"skitter.spider.{self.name or type(self).__name__}")

    def lock(
        self,
        name: str,
        *,
        lifetime_seconds: float = 10.0,
        timeout_seconds: float | None = None,
        stop_on_loss: bool = False,
    ) -> AbstractAsyncContextManager[Held]:
        """Return a lock that all workers of the job share: ``async with self.lock(name) as held``, in an async
        callback.

        The lock is in the node's ``coordinator``, or else in the job's own store. Waiting for it counts towards
        ``callback_seconds``. ``held.token``, ``held.lost`` and the parameters are those of ``skitter.cluster``. A
        lock alone does not prevent others from writing; only a resource that checks the token does."""
        if self.job_locks is None:
            from skitter.spiders.job_locks import JobLocks

            self.job_locks = JobLocks()
        return self.job_locks.lock(
            name, lifetime_seconds=lifetime_seconds, timeout_seconds=timeout_seconds, stop_on_loss=stop_on_loss
        )

    def start(self) -> Iterable[Request] | AsyncIterable[Request]:
        """Return the first requests. Their hosts come into scope and may be private (see the network guard)."""
        return map(Request, self.start_urls)

    def parse(self, response: Response) -> Any:
        """Handle the responses of requests without a callback. A spider whose requests all have callbacks needs no
        ``parse``.

        With ``rules`` it follows them. Your own ``parse`` does so with ``yield from self.follow_rules(response)``."""
        if self.rules:
            return self.follow_rules(response)
        raise NotImplementedError(f"{type(self).__name__} has no parse method, and a request names no other callback")

    async def save_file(
        self,
        response: Response,
        types: Sequence[str] = (),
        max_bytes: int | None = None,
        item: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Store the file of a ``response.download`` and yield its record. Override it to change the record."""
        if self.file_saver is None:
            raise SpiderError(
                f"files are stored only in a crawl: {response.url}", hint="use skitter crawl or skitter.crawl"
            )
        yield await self.file_saver.save(response, types, max_bytes, item or {})

    async def save_screenshot(self, response: Response, item: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Store the screenshot of a rendered page where downloads are stored, and return its record, to be yielded.

        In an async callback: ``yield await self.save_screenshot(response, {"name": …})``.
        """
        picture = response.screenshot
        if picture is None or self.file_saver is None:
            told = "the page has no screenshot" if picture is None else "files are stored only in a crawl"
            raise SpiderError(f"{told}: {response.url}", hint="Request(…, render=True, actions=[Screenshot()])")
        return await self.file_saver.save_picture(response, picture, item or {})

    def file_failed(self, failure: Any) -> Any:
        """Handle a failed ``response.download``: yield a record with the status ``failed``."""
        from skitter.extract.downloads import failed_record

        yield failed_record(failure.request, failure.message, failure.request.cb_kwargs.get("item", {}))

    def parse_sitemap(self, response: Response) -> Any:
        """Handle a sitemap of ``sitemap_urls``: every page goes to ``parse``. Override it to select pages."""
        return followed(response, self.start_urls)

    def follow_rules(self, response: Response) -> Iterator[Links | Request]:
        """Return the links of a page that match ``rules``, for the callback to yield."""
        # Most spiders have none.
        from skitter.spiders.rules import rule_links

        return rule_links(self, response)

    def parse_and_follow(self, response: Response, **keywords: Any) -> Any:
        """Handle a rule that has both a callback and ``follow``. Do not override it."""
        from skitter.spiders.rules import parsed_and_followed

        return parsed_and_followed(self, response, keywords)


def has_login(spider: type[Spider] | Spider | None) -> bool:
    """Return whether a spider has a method ``login(session)``, which logs sessions in."""
    return callable(getattr(spider, "login", None))
