"""Tasks for single pages, for small pipelines: ``scrape | parse | save``. The message contains the page."""

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
from skitter.errors import BackendError, FetchError, ScrapeError, SinkError, SinkUnavailableError, UsageError
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
"""Job whose politeness all scrape tasks share, unless they name another job."""
WAIT_SECONDS = 5.0
"""How long a task waits in its worker for a host before it continues in a new message."""
MAX_COUNTDOWN_SECONDS = 60.0
MAX_BODY_BYTES = 4_194_304
LOCK_SECONDS = 10.0
"""How long ``save`` waits for a file that another task is writing, before it is retried in a new message."""
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
    """Fetch one page and return it. robots.txt, delay and back-off of its host apply across all tasks.

    ``settings`` take effect when the job starts, which is with its first page. ``meta`` is returned with the page.
    Raises ScrapeError if the page cannot be fetched.
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
    """Return a page in a JSON-compatible form, which ``response_of`` reads."""
    return {
        "url": page.url,
        "requested": url,
        "status": page.status,
        "headers": [list(pair) for pair in page.headers],
        "body": base64.b64encode(zlib.compress(page.body, 1)).decode(),
        "meta": dict(meta),
    }


def response_of(page: Mapping[str, Any]) -> Response:
    """Return the Response of a page that ``scrape`` returned, for your own parse task."""
    try:
        body = zlib.decompress(base64.b64decode(page["body"], validate=True))
        headers = [(name, value) for name, value in page["headers"]]
        found = Page(url=page["url"], status=page["status"], headers=headers, body=body)
        return Response(found, Request(page["requested"], meta=dict(page["meta"])))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise UsageError(f"not a page: {page!r:.100}", hint="give the result of scrape") from error


def _parse(
    self: SkitterTask,  # noqa: ARG001  every task takes it
    page: Parsed,
    *,
    spider: str | None = None,
    callback: str = "parse",
    arguments: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a spider's callback on a page, or on each page of a list; return items and links.

    ``spider`` is the reference of a class or function, such as ``books.py:Books``; None means the built-in spider.
    """
    kind = load_spider(spider, Path.cwd()) if spider else SiteSpider
    parser = getattr(make_spider(kind, arguments or {}), callback, None)
    if parser is None:
        raise UsageError(
            f"the spider has no callback of this name: {callback}", hint="give the name of a method of the spider"
        )
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
    """Return everything that a callback of any kind returns or yields."""
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
    """Write the items of a result of ``parse``, or of a list of such results, to one or more outputs.

    An output with keys, such as a database, gets each item once even if the message is delivered several times. In a
    file, items are duplicated if the message is delivered again after a kill. ``part`` is internal: the work that is
    already done, for a retry.
    """
    results = [parsed] if isinstance(parsed, Mapping) else list(parsed)
    records: list[Item] = []
    for result in results:
        # Derived from the URL, so that saving a page again produces the same records.
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
            # Retry only the remaining outputs: the others already have the items.
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
            # A file has one writer at a time, and the tasks of a group run at the same time.
            if isinstance(error, SinkUnavailableError) or time.monotonic() > deadline:
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
"""One queue per task, so that fetching, parsing and saving can each have their own number of workers."""


def _shared(name: str) -> Any:
    function, options = TASKS[name]
    return shared_task(base=SkitterTask, **options)(function)


scrape = _shared("scrape")
parse = _shared("parse")
save = _shared("save")
