"""``skitter parse``: one page through one callback; its items and requests are printed, and nothing is stored."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_verbosity_options
from skitter.cli.exit_codes import FAILED
from skitter.cli.fetch import add_page_options
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.app.page_parse import ParsedPage
    from skitter.model.request import Request


def configure(parser: Parser) -> None:
    parser.describe(
        "URL [--spider SPIDER] [--callback NAME] [options]",
        text="Fetch one page, call one callback with it, and print the items and requests that a crawl would keep.\n"
        "The requests are not fetched and nothing is stored.",
        examples=[
            ("skitter parse http://127.0.0.1:8600/ --spider books.py", "Show what parse() of a spider extracts"),
            (
                "skitter parse http://127.0.0.1:8600/books/1.html --spider books.py --callback parse_book --json",
                "Call another callback, and print JSON",
            ),
        ],
    )
    parser.add_argument("url", metavar="URL", help="the page to fetch")
    add_page_options(parser)
    parser.group("Spider").add_argument("--callback", metavar="NAME", help="the method to call (default: parse)")
    parser.group("Spider").add_argument(
        "--meta", type=_json_object, default={}, metavar="JSON", help='meta of the request, e.g. {"page": 2}'
    )
    add_verbosity_options(parser, json_help="print items, requests and what was left out as a JSON object")


def run(options: argparse.Namespace) -> int:
    from skitter.app.page_parse import parse_page
    from skitter.cli.fetch import fetched
    from skitter.cli.output import error, print_json, stdout_for_data, warn
    from skitter.cli.spider_settings import spider_settings
    from skitter.model.request import Request
    from skitter.spiders.site_spider import SiteSpider

    source = spider_settings(options, options.spider)
    for warning in source.warnings:
        warn(warning)
    settings = source.collected.settings
    spider = source.source.instance if source.source is not None else None
    spider = spider or SiteSpider()
    request = Request(options.url, callback=options.callback, meta=options.meta)
    page = fetched(request, settings)
    if not 200 <= page.status < 300 and page.status not in spider.handle_statuses:
        error(
            f"HTTP {page.status}: {page.url}",
            "callbacks get 2xx responses, and the statuses in handle_statuses of the spider",
        )
        return FAILED
    with stdout_for_data():
        parsed = asyncio.run(parse_page(spider, request.replace(url=page.url), page, settings))
    if options.json:
        print_json(as_json(parsed))
    else:
        _print(parsed)
    return FAILED if parsed.error else 0


def as_json(parsed: ParsedPage) -> dict[str, Any]:
    """Return the answer as plain values."""
    from skitter.model.secrets import shown_url

    return {
        "url": shown_url(parsed.url),
        "status": parsed.status,
        "callback": parsed.callback,
        "items": parsed.items,
        "rejected": parsed.rejected,
        "requests": [_request_fields(each) for each in parsed.requests],
        "left_out": parsed.left_out,
        "error": parsed.error,
    }


def _request_fields(request: Request) -> dict[str, Any]:
    from skitter.model.secrets import shown_url

    fields: dict[str, Any] = {"url": shown_url(request.url), "method": request.method}
    fields["callback"] = request.callback or "parse"
    others = {"errback": request.errback, "meta": request.meta, "cb_kwargs": request.cb_kwargs}
    others |= {"priority": request.priority, "depth": request.depth, "dont_filter": request.dont_filter}
    return fields | {name: value for name, value in others.items() if value}


def _print(parsed: ParsedPage) -> None:
    from skitter.cli.output import note
    from skitter.cli.terminal_text import clean, clean_block, clean_json, count

    if parsed.error:
        note(f"error: the callback failed: {parsed.callback}")
        note(clean_block(parsed.error))
        return
    print(f"# {count(len(parsed.items), 'item')} by {parsed.callback}")
    for item in parsed.items:
        print(clean_json(json.dumps(item, default=str, ensure_ascii=False)))
    for reject in parsed.rejected:
        note(f"rejected: {clean(reject.reason)}")
    print(f"# {count(len(parsed.requests), 'request')}")
    for request in parsed.requests:
        fields = _request_fields(request)
        print(clean(f"{fields['method']} {fields['url']} {fields['callback']}"))
    if parsed.left_out:
        left_out = ", ".join(f"{clean(name)} {number}" for name, number in parsed.left_out.items())
        note(f"left out: {left_out}")


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"not a JSON object: --meta {text}", hint="""as in --meta '{"page": 2}'""")
    return value
