"""One page through one callback, as a worker does it, with nothing stored: what ``skitter parse`` shows."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from skitter._version import __version__
from skitter.errors import UsageError
from skitter.extract.items import decode_item
from skitter.extract.rejected_items import Reject, decode_reject
from skitter.fetch.contract import Fetcher, FetchRequest
from skitter.model.item import ItemKind
from skitter.model.job import Job, JobSpec, State
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, Outcome
from skitter.model.page import Page
from skitter.model.request import Fingerprinter, Request, decode, encode
from skitter.model.url import host_key
from skitter.policy.scope import LinkPatterns, Scope
from skitter.policy.traps import TrapRules
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.site_spider import SiteSpider
from skitter.worker.callbacks import Callbacks
from skitter.worker.item_functions import item_functions_of
from skitter.worker.known_urls import KnownUrls
from skitter.worker.page_visit import Visitor
from skitter.worker.page_yield import LinkContext
from skitter.worker.url_table import UrlTable

_SECRET = b"\0" * 16


class ParsedPage(msgspec.Struct, kw_only=True):
    """What a callback made of a page."""

    url: str
    status: int
    callback: str
    items: list[dict[str, Any]] = []
    """After the item functions, as a target would get them."""
    rejected: list[Reject] = []
    requests: list[Request] = []
    """Those that would be queued: in scope, each once."""
    left_out: dict[str, int] = {}
    """What was not: links by the rule against them, items by the reason they were dropped for."""
    error: str = ""
    """The traceback, if the callback or an item function has failed; a crawl would keep nothing of the page."""


async def parse_page(spider: Spider, request: Request, page: Page, settings: Settings) -> ParsedPage:
    """Call the request's callback with the page. UsageError if the spider has no such callback."""
    if isinstance(spider, AdaptedSpider):
        raise UsageError(
            f"only spiders of skitter itself can parse single pages: {type(spider).__name__}",
            hint="use skitter crawl NAME --max-pages 1, or the commands of its framework",
        )
    name = str(request.callback or "parse")
    if not callable(getattr(spider, name, None)):
        raise UsageError(
            f"no such callback: {type(spider).__name__} has no {name}",
            hint="name a method of the spider with --callback NAME",
        )
    parts: list[Outcome] = []

    async def collect(part: Outcome, _urls: list[str]) -> bool:
        parts.append(part)
        return True

    functions = item_functions_of(spider, settings.items.item_functions, settings.limits.callback_seconds)
    visitor = Visitor(
        rules=_link_context(spider, page, settings),
        fetcher=_NoFetcher(),
        settings=settings,
        callbacks=Callbacks(
            callback_seconds=settings.limits.callback_seconds, commit_part=collect, item_functions=functions
        ),
    )
    lease = Lease(work=Work.PAGE, id=1, epoch=1, host_key=host_key(page.url), payload=encode(request), trusted=True)
    functions.open()
    try:
        outcome, _ = await visitor.read(lease, request, page)
    finally:
        functions.close()
    return _parsed(page, name, [*parts, outcome])


def _link_context(spider: Spider, page: Page, settings: Settings) -> LinkContext:
    scope = Scope(
        domains=spider.allowed_domains,
        by_seeds=isinstance(spider, SiteSpider) and not spider.allowed_domains,
        max_depth=settings.limits.max_depth,
        traps=None if settings.traps.traps == "off" else TrapRules(settings.traps, time.gmtime().tm_year),
        patterns=LinkPatterns.of(settings.links),
    )
    scope.permit([host_key(page.url)])
    spec = JobSpec(name="page", spider="", settings=settings.job_wide(), version=__version__)
    job = Job(spec=spec, state=State.RUNNING, run=1, secret=_SECRET, seeding=False, started_at=0.0)
    known = KnownUrls(UrlTable.alone(1, job.secret, job.run))
    return LinkContext(spider=spider, fingerprinter=Fingerprinter.of_job(job), scope=scope, known=known)


def _parsed(page: Page, callback: str, outcomes: list[Outcome]) -> ParsedPage:
    last = outcomes[-1]
    parsed = ParsedPage(url=page.url, status=page.status, callback=callback, error=last.error)
    if last.ending is not Ending.DONE:
        return parsed
    left_out: dict[str, int] = {}
    for outcome in outcomes:
        parsed.requests += [decode(entry.payload) for entry in outcome.links]
        for item in outcome.items:
            if item.kind is ItemKind.REJECT:
                parsed.rejected.append(decode_reject(item.record))
            else:
                parsed.items.append(decode_item(item.record))
        for counted, number in outcome.tally.items():
            if counted.partition(":")[0] in ("outside", "skipped", "dropped", "withheld", "duplicates"):
                left_out[counted] = left_out.get(counted, 0) + number
    parsed.left_out = left_out
    return parsed


class _NoFetcher(Fetcher):
    """A fetcher for a page that is at hand."""

    async def fetch(self, request: FetchRequest) -> Page:
        raise AssertionError(f"nothing is fetched here: {request.url}")

    async def close(self) -> None:
        pass
