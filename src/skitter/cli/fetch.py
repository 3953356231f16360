"""``skitter fetch``: one page, fetched as a crawl would fetch it, on standard output."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import (
    CACHE_OPTIONS,
    Parser,
    add_setting_options,
    add_spider_argument_option,
    add_verbosity_options,
)
from skitter.cli.exit_codes import FAILED

if TYPE_CHECKING:
    from skitter.model.page import Page
    from skitter.model.request import Request
    from skitter.settings import Settings

FETCH_OPTIONS = [
    ("--ignore-robots", "obey_robots=false", "", "do not read or obey robots.txt"),
    ("--allow-private", "allow_private=true", "", "follow redirects to private addresses"),
    *CACHE_OPTIONS,
]
"""Options for ``add_setting_options`` of commands that fetch single pages."""


def configure(parser: Parser) -> None:
    parser.describe(
        "URL [options]",
        text="Fetch one page as a crawl would, with the settings of the project, and print its body. robots.txt is\n"
        "obeyed and redirects are followed; nothing is retried or stored.",
        examples=[
            ("skitter fetch http://127.0.0.1:8600/ > page.html", "Save a page"),
            (
                "skitter fetch http://127.0.0.1:8600/books/1.html --headers --set user_agent=test-bot/1.0",
                "Print status and headers, fetched with another user agent",
            ),
        ],
    )
    parser.add_argument("url", metavar="URL", help="the page to fetch")
    add_page_options(parser)
    parser.group("Output").add_argument(
        "--headers", action="store_true", help="print status and headers instead of the body"
    )
    add_verbosity_options(parser, json_help="print url, status, headers, encoding and text as a JSON object")


def add_page_options(parser: Parser) -> None:
    """Add --spider, -a and the options of settings."""
    parser.group("Spider").add_argument(
        "--spider",
        metavar="SPIDER",
        help="use the settings of this spider: a name, file.py or file.py:Class; its file is run",
    )
    add_spider_argument_option(parser)
    add_setting_options(parser, FETCH_OPTIONS)


def run(options: argparse.Namespace) -> int:
    from skitter.app.page_session import response_of
    from skitter.cli.output import note, print_json, warn
    from skitter.cli.spider_settings import spider_settings
    from skitter.model.request import Request

    source = spider_settings(options, options.spider)
    for warning in source.warnings:
        warn(warning)
    request = Request(options.url)
    page = fetched(request, source.collected.settings)
    if options.json:
        response = response_of(page, request)
        text = response.text if response.kind != "other" or _is_text(page) else None
        print_json(page_fields(page) | {"encoding": response.encoding, "text": text})
    elif options.headers:
        from skitter.cli.terminal_text import clean

        print(f"{page.status} {clean(page.url)}")
        print("\n".join(f"{clean(name)}: {clean(value)}" for name, value in page.headers))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(page.body)
        sys.stdout.buffer.flush()
    if page.status >= 400:
        note(f"HTTP {page.status}: {page.url}")
        return FAILED
    return 0


def fetched(request: Request, settings: Settings) -> Page:
    """Fetch one page in a session of its own."""
    from skitter.app.event_loop import new_loop
    from skitter.app.page_session import PageSession
    from skitter.cli.spider_settings import without_events

    async def fetch() -> Page:
        async with PageSession(settings) as session:
            return await session.fetch(request)

    with without_events(), asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(fetch())


def page_fields(page: Page) -> dict[str, Any]:
    """Return what a JSON answer tells of a page."""
    from skitter.model.secrets import shown_url

    return {
        "url": shown_url(page.url),
        "status": page.status,
        "headers": [list(pair) for pair in page.headers],
        "bytes": len(page.body),
        "address": page.address,
        "http_version": page.http_version,
        "seconds": round(page.seconds, 4),
    }


def _is_text(page: Page) -> bool:
    kind = (page.header("content-type") or "").lower()
    return kind.startswith("text/") or "json" in kind or "javascript" in kind or b"\0" not in page.body[:1024]
