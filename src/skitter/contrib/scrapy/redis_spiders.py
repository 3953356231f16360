"""Spiders that read their start URLs from a Redis key, like those of scrapy-redis.

The key is an intake of the job: messages are removed only after they were added to the frontier, so that none is lost
if a process dies, and the job does not end while more messages may come.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
import scrapy
from scrapy.spiders import CrawlSpider

from skitter.contrib.scrapy.request_codec import RequestCodec
from skitter.contrib.scrapy.scheduler_settings import idle_seconds, start_urls_server
from skitter.errors import RequestError, SkitterError, UrlError
from skitter.frontier.contract import Frontier
from skitter.intakes.contract import DeadLetter, Message
from skitter.intakes.messages import reason_of
from skitter.intakes.sources import intake_of, parse_source
from skitter.model.request import Entry
from skitter.node.intake_reader import IntakeReader
from skitter.observe import events
from skitter.stop_request import StopRequest

if TYPE_CHECKING:
    from skitter.contrib.scrapy.scheduler_settings import SchedulerSettings

log = logging.getLogger("skitter.scrapy")
DEFAULT_KEY = "%(name)s:start_urls"


class RedisMixin(scrapy.Spider):
    """Common part of both spiders: the key, and the conversion of a message to a request."""

    redis_key: str | None = None
    """Key with start URLs: a list, set, sorted set or stream; None means REDIS_START_URLS_KEY."""
    redis_batch_size: int | None = None
    """No effect: the size of a batch depends on the free space in the queue."""
    redis_encoding: str | None = None
    """Encoding of messages; None means REDIS_ENCODING, or UTF-8."""
    max_idle_time: float | None = None
    """Seconds without a message after which the key is no longer read and the job can end; None uses the settings."""

    def make_request_from_data(self, data: bytes) -> scrapy.Request | Iterable[scrapy.Request] | None:
        """Return the request for a message: a URL, or a JSON object with url, method, meta and form fields."""
        text = data.decode(self.redis_encoding or self.settings.get("REDIS_ENCODING") or "utf-8").strip()
        if not text.startswith("{"):
            return scrapy.Request(text, dont_filter=True)
        given = msgspec.json.decode(text, type=dict[str, Any])
        if not given.get("url"):
            return None
        url, method = str(given.pop("url")), str(given.pop("method", "GET")).upper()
        meta = given.pop("meta", {})
        return scrapy.FormRequest(url, method=method, meta=meta, formdata=given or None, dont_filter=True)

    async def start(self) -> Any:
        """Yield requests for ``start_urls``, if there are any; other requests come from the key."""
        for url in self.start_urls:
            yield scrapy.Request(url, dont_filter=True)

    @property
    def source(self) -> str:
        """URL of the intake."""
        key = self.redis_key or self.settings.get("REDIS_START_URLS_KEY") or DEFAULT_KEY
        parts = urlsplit(start_urls_server(self.settings))
        return urlunsplit(parts._replace(fragment=key % {"name": self.name}))

    async def open_intake(self, frontier: Frontier, settings: SchedulerSettings) -> SpiderIntake:
        """Start to read the key, for the scheduler."""
        idle = idle_seconds(self.settings) if self.max_idle_time is None else self.max_idle_time or None
        reader = _SpiderIntakeReader(
            frontier,
            intake_of(parse_source(self.source, job=settings.spec.name)),
            max_queued=settings.settings.limits.max_queued,
            until_idle_seconds=idle,
            stop=StopRequest(),
            on_event=_tell,
        )
        reader.spider, reader.codec = self, RequestCodec(self)
        await reader.open()
        return SpiderIntake(reader)


class RedisSpider(RedisMixin):
    """Spider that reads its start URLs from a Redis key."""


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """CrawlSpider that reads its start URLs from a Redis key."""


class SpiderIntake:
    """Task that reads a key during the crawl."""

    def __init__(self, reader: IntakeReader) -> None:
        self._reader = reader
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._reader.run()
        except SkitterError:
            log.exception("start URLs are no longer read")

    async def close(self) -> None:
        """Stop reading; messages that were not added stay in the key."""
        self._reader.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([self._task])


class _SpiderIntakeReader(IntakeReader):
    """Intake reader that lets the spider convert messages to requests."""

    spider: RedisMixin
    codec: RequestCodec

    def _sort(self, messages: Sequence[Message]) -> tuple[list[Entry], list[DeadLetter]]:
        entries: list[Entry] = []
        letters: list[DeadLetter] = []
        for message in messages:
            try:
                entries += self._entries(message)
            except (UrlError, RequestError) as error:
                letters.append(DeadLetter(message, reason_of(error)))
            except Exception as error:  # noqa: BLE001  an error of the spider affects only this message
                letters.append(DeadLetter(message, f"{type(error).__name__}: {error}"))
        return entries, letters

    def _entries(self, message: Message) -> list[Entry]:
        made = self.spider.make_request_from_data(message.body)
        requests = [made] if isinstance(made, scrapy.Request) else list(made or ())
        if not requests:
            raise RequestError("the spider created no request from it")
        # A message with an id is identified by it, however often it is delivered. A message of a list is delivered
        # again only if its reader was killed between adding and removing it; otherwise an equal one is a new message.
        told = message.id.encode() or secrets.token_bytes(8)
        parent = int.from_bytes(hashlib.blake2b(self.source.encode() + b"\0" + told, digest_size=8).digest(), "big")
        encoded = [self.codec.encode(request) for request in requests]
        if message.priority is not None:
            encoded = [request.replace(priority=request.priority or message.priority) for request in encoded]
        return [self._fingerprinter.entry(request, parent, place) for place, request in enumerate(encoded)]


def _tell(event: events.Event) -> None:
    log.log(event.level, "%s", event.text)
