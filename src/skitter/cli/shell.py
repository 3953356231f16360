"""``skitter shell``: a prompt with one page, for trying selectors and requests."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_verbosity_options
from skitter.cli.fetch import add_page_options

if TYPE_CHECKING:
    from skitter.app.page_session import BlockingPageSession
    from skitter.extract.response import Response
    from skitter.model.request import Request

NO_PAGE_URL = "https://example.com/"
BANNER = """\
response  {response}
request   {request}
spider    {spider}
settings  those of the project and the spider
fetch(URL or Request)  fetch a page, which becomes response
view(response)         open it in a browser"""


def configure(parser: Parser) -> None:
    parser.describe(
        "[URL|FILE|-] [options]",
        "URL -c CODE [options]",
        text="Open a prompt (IPython if installed) with response, request, spider, settings, fetch() and view().\n"
        "Pages are fetched as a crawl would fetch them.",
        examples=[
            ("skitter shell http://127.0.0.1:8600/", "Try selectors on a page"),
            (
                "skitter shell http://127.0.0.1:8600/books/1.html -c 'response.css(\"h1::text\").get()'",
                "Print the value of one expression",
            ),
        ],
    )
    parser.add_argument("page", nargs="?", metavar="URL|FILE", help='a page, an HTML file, or "-" for standard input')
    add_page_options(parser)
    parser.add_argument("-c", "--code", metavar="CODE", help="run this code instead of a prompt, and print its value")
    parser.add_argument(
        "--url", default=NO_PAGE_URL, metavar="URL", help=f"base URL for the links of a FILE (default {NO_PAGE_URL})"
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.app.page_session import BlockingPageSession
    from skitter.cli.output import warn
    from skitter.cli.spider_settings import spider_settings, without_events
    from skitter.spiders.site_spider import SiteSpider

    source = spider_settings(options, options.spider)
    for warning in source.warnings:
        warn(warning)
    spider = source.source.instance if source.source is not None else None
    with without_events(), BlockingPageSession(source.collected.settings) as session:
        shell = Shell(session)
        shell.names |= {"spider": spider or SiteSpider(), "settings": source.collected.settings}
        if options.page is not None and "://" in options.page:
            shell.fetch(options.page)
        elif options.page is not None:
            shell.show(read_file(options.page, options.url))
        if options.code is not None:
            run_code(options.code, shell.names, as_json=options.json)
        else:
            _interact(shell)
    return 0


class Shell:
    """The names at the prompt."""

    def __init__(self, session: BlockingPageSession) -> None:
        import skitter
        from skitter.cli.page_view import view

        self._session = session
        self.names: dict[str, Any] = {
            "skitter": skitter,
            "Request": skitter.Request,
            "response": None,
            "request": None,
            "fetch": self.fetch,
            "view": view,
        }

    def fetch(self, target: str | Request) -> Response:
        """Fetch a page as a crawl would, whatever its status; it becomes ``response``."""
        from skitter.model.request import Request

        return self.show(self._session.fetch(Request(target) if isinstance(target, str) else target))

    def show(self, response: Response) -> Response:
        """Make it the page of the prompt."""
        self.names |= {"response": response, "request": response.request}
        return response


def read_file(name: str, url: str) -> Response:
    """Return a file, or standard input, as the page of a URL."""
    import sys
    from pathlib import Path

    from skitter.app.crawl_source import seed_url
    from skitter.app.page_session import response_of
    from skitter.errors import UsageError
    from skitter.model.page import Page
    from skitter.model.request import Request

    try:
        body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        hint = "write a URL as https://example.com/" if not Path(name).exists() else "give a readable file"
        raise UsageError(f"neither a URL nor a file: {name}: {error.strerror}", hint=hint) from error
    request = Request(seed_url(url))
    return response_of(Page(url=request.url, status=200, headers=[], body=body), request)


def run_code(code: str, names: dict[str, Any], *, as_json: bool = False) -> None:
    """Run an expression and print its value, or run statements."""
    from skitter.cli.output import print_json
    from skitter.errors import UsageError

    try:
        expression = compile(code, "<code>", "eval")
    except SyntaxError:
        expression = None
    if expression is not None:
        value = eval(expression, names)  # noqa: S307  the user's own command line
        if as_json:
            print_json(value if _is_plain(value) else str(value))
        elif value is not None:
            print(value)
        return
    try:
        statements = compile(code, "<code>", "exec")
    except SyntaxError as error:
        raise UsageError(
            f"invalid Python: {code}: {error.msg}", hint="quote it for your shell: -c 'response.title'"
        ) from error
    exec(statements, names)  # noqa: S102  the user's own command line


def _is_plain(value: Any) -> bool:
    import msgspec

    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError):
        return False
    return True


def _interact(shell: Shell) -> None:
    names = shell.names
    banner = BANNER.format(response=names["response"], request=names["request"], spider=type(names["spider"]).__name__)
    try:
        from IPython import start_ipython
    except ImportError:
        import code
        from contextlib import suppress

        with suppress(ImportError):
            import readline
            import rlcompleter

            readline.set_completer(rlcompleter.Completer(names).complete)
            readline.parse_and_bind("tab: complete")
        code.interact(banner, local=names, exitmsg="")
        return
    print(banner)
    start_ipython(argv=["--no-banner"], user_ns=names)
