"""``skitter demo``: serves a small bookshop to try crawls on."""

from __future__ import annotations

import argparse
import signal

from skitter.cli.arguments import Parser, host_and_port
from skitter.errors import UsageError

DEFAULT_BIND = "127.0.0.1:8600"


def configure(parser: Parser) -> None:
    parser.describe(
        "[--bind HOST:PORT] [--latency SECONDS]",
        text="Serve a bookshop with made-up books until Ctrl-C or SIGTERM, and print its address. The examples of\n"
        "the help texts and the documentation crawl it.",
        examples=[
            ("skitter demo", f"Serve the bookshop at http://{DEFAULT_BIND}/"),
            (
                "skitter demo --bind 127.0.0.1:0 --latency 0.2",
                "Serve it at a free port, with the latency of a distant server",
            ),
        ],
    )
    parser.group("Server").add_argument(
        "--bind",
        default=DEFAULT_BIND,
        metavar="HOST:PORT",
        help=f"listen here (default {DEFAULT_BIND}); port 0: any free one",
    )
    parser.group("Server").add_argument(
        "--latency",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait this long before each response (default 0)",
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.run_node import run_loop

    host, port = host_and_port(options.bind, option="--bind", example=DEFAULT_BIND)
    number = run_loop(_serve(host, port, options.latency))
    # SIGTERM is how a server is asked to end: in order, and so with 0.
    return 0 if number == signal.SIGTERM else of_signal(number)


async def _serve(host: str, port: int, latency_seconds: float) -> int:
    """Serve until a signal comes, and return its number."""
    import asyncio

    from skitter.demo_site.server import serving

    signalled: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    async with serving(host, port, latency_seconds=latency_seconds) as url:
        print(url, flush=True)
        return await signalled


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UsageError(f"not a number of seconds: {text}", hint="give a number from 0, as in 0.2")
    return number
