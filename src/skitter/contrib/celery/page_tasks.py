"""Tasks about single pages, for small pipelines: ``scrape | parse | save``. The page travels with the message."""

from __future__ import annotations

import base64
import hashlib
import time
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from celery import shared_task

from skitter.app import collect_outputs
from skitter.app.script import run
from skitter.app.single_page import PageWanted, fetch_page
from skitter.contrib.celery.base_task import SkitterTask
from skitter.delivery.export import export
from skitter.errors import BackendError, FetchError, ScrapeError, SinkAwayError, SinkError, UsageError
from skitter.extract.items import decode_item, encode_item, is_item
from skitter.extract.response import Response
from skitter.model.item import Item
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.model.url import absolute
from skitter.observe import events
from skitter.sinks.targets import Target
from skitter.spiders.loading import load_spider, make_spider
from skitter.spiders.site_spider import SiteSpider
from skitter.stop_request import StopRequest

SCRAPE_JOB = "scrape"
"""The job whose politeness all scrape tasks share, unless they name another."""
WAIT_SECONDS = 5.0
"""So long a task waits in its slot for a host; then it comes again as a new message."""
MAX_COUNTDOWN_SECONDS = 60.0
MAX_BODY_BYTES = 4_194_304
LOCK_SECONDS = 10.0
"""So long ``save`` waits for a file that another task writes to, before it is tried again as a new message."""
Parsed = Mapping[str, Any] | Sequence[Any]


def _scrape(
    self: SkitterTask,
    url: str,
    *,
    job: str = SCRAPE_JOB,
    settings: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fetch one page when its host may be asked, and return it: robots.txt, delay and back-off hold for all tasks.

    ``settings`` count when the job begins, which is with its first page. ``meta`` is passed on with the page. A page
    that cannot be had is a ScrapeError.
    """
    settings = {"max_body_bytes": MAX_BODY_BYTES, **(settings or {})}
    key = self.request.id or f"{url} {time.time_ns()}"
    wanted = PageWanted(url=url, key=key, job=job, settings=settings, headers=headers or {})
    while True:
        try:
            got = run(fetch_page(self.frontier, wanted, wait_seconds=WAIT_SECONDS))
        except FetchError as error:
            raise ScrapeError(f"{error.error_class}: {error}") from error
        except BackendError as error:
            self.retry_later(error)
        if isinstance(got, Page):
            return page_message(got, url, meta or {})
        self.tell_progress(url=url, seconds=round(got.seconds, 1))
        countdown = min(max(got.seconds, 1.0), MAX_COUNTDOWN_SECONDS)
        if not self.request.is_eager and not self.request.called_directly:
            self.continue_later(countdown=countdown, url=url, job=job, settings=settings, headers=headers, meta=meta)


def page_message(page: Page, url: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """A page as JSON; ``response_of`` reads it."""
    return {
        "url": page.url,
        "requested": url,
        "status": page.status,
        "headers": [list(pair) for pair in page.headers],
        "body": base64.b64encode(zlib.compress(page.body, 1)).decode(),
        "meta": dict(meta),
    }


def response_of(page: Mapping[str, Any]) -> Response:
    """The Response of a page that ``scrape`` has returned, for a parse task of your own."""
    try:
        body = zlib.decompress(base64.b64decode(page["body"], validate=True))
        headers = [(name, value) for name, value in page["headers"]]
        found = Page(url=page["url"], status=page["status"], headers=headers, body=body)
        return Response(found, Request(page["requested"], meta=dict(page["meta"])))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise UsageError(f"not a page: {page!r:.100}", hint="give what scrape has returned") from error


def _parse(
    self: SkitterTask,  # noqa: ARG001  as every task
    page: Parsed,
    *,
    spider: str | None = None,
    callback: str = "parse",
    arguments: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a spider's callback on a page, or on each of a list of pages; items and links as values.

    ``spider``: the reference of a class or a function, as in ``books.py:Books``; None: the built-in one.
    """
    kind = load_spider(spider, Path.cwd()) if spider else SiteSpider
    parser = getattr(make_spider(kind, arguments or {}), callback, None)
    if parser is None:
        raise UsageError(f"the spider has no callback of this name: {callback}", hint="a method of the spider")
    pages = [page] if isinstance(page, Mapping) else list(page)
    items: list[dict[str, Any]] = []
    links: list[str] = []
    for each in pages:
        response = response_of(each)
        for output in run(_outputs(parser, response)):
            if isinstance(output, Request):
                links.append(absolute(output.url, response.url))
            elif is_item(output):
                items.append(decode_item(encode_item(output)))
    return {"url": pages[0]["url"] if len(pages) == 1 else "", "items": items, "links": list(dict.fromkeys(links))}


async def _outputs(parser: Callable[[Response], Any], response: Response) -> list[Any]:
    """All that a callback of any kind gives."""
    result = parser(response)
    if isinstance(result, AsyncIterable):
        return [output async for output in result]
    if isinstance(result, Awaitable):
        result = await result
    if result is None:
        return []
    if isinstance(result, (Request, str)) or is_item(result) or not isinstance(result, Iterable):
        return [result]
    return list(result)


def _save(
    self: SkitterTask, parsed: Parsed, output: str | Sequence[str], *, part: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write the items of what ``parse`` has returned, or of a list of such results, to a target.

    A target with keys, such as a database, has each item once however often the message comes. To a file the items of a
    message that comes again after a kill are written again. ``part`` is the task's own: what is done, after a retry.
    """
    results = [parsed] if isinstance(parsed, Mapping) else list(parsed)
    records: list[Item] = []
    for result in results:
        # By URL, so that a page that is saved again makes the same records.
        page = int.from_bytes(hashlib.blake2b(str(result.get("url", "")).encode(), digest_size=8).digest(), "big") >> 1
        for place, item in enumerate(result["items"]):
            records.append(Item(len(records) + 1, page, place, encode_item(item)))
    targets = [output] if isinstance(output, str) else list(output)
    told: dict[str, Any] = {"written": 0, "rejected": 0, "outputs": []} | dict(part or {})
    while targets:
        (target,) = collect_outputs(
            typed=[(targets[0], False)], job="save", password=self.app.conf.get("skitter_sink_password")
        )
        try:
            written, rejected = _written(target, records)
        except BackendError as error:
            # With what is left: the others have their items.
            self.retry_later(error, args=(parsed, targets), kwargs={"part": told})
        told["written"] += written
        told["rejected"] += rejected
        told["outputs"] = [*told["outputs"], target.name]
        targets = targets[1:]
    return told


def _written(target: Target, records: list[Item]) -> tuple[int, int]:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return run(export(lambda: _pieces(records), [target], stop=StopRequest(), on_event=_ignore))
        except SinkError as error:
            # A file has one writer at a time, and tasks of a group come together.
            if isinstance(error, SinkAwayError) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


async def _pieces(records: list[Item]) -> AsyncIterator[list[Item]]:
    if records:
        yield records


def _ignore(event: events.Event) -> None:
    pass


TASKS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "scrape": (_scrape, {"name": "skitter.scrape", "bind": True}),
    "parse": (_parse, {"name": "skitter.parse", "bind": True}),
    "save": (_save, {"name": "skitter.save", "bind": True}),
}
ROUTES = {options["name"]: {"queue": name} for name, (_, options) in TASKS.items()}
"""Each in a queue of its name: fetching, parsing and storing have workers of their own, as many as each wants."""


def _shared(name: str) -> Any:
    function, options = TASKS[name]
    return shared_task(base=SkitterTask, **options)(function)


scrape = _shared("scrape")
parse = _shared("parse")
save = _shared("save")
