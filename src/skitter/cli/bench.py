"""``skitter bench``: measures crawls and frontiers on this machine, and profiles a page's time."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from skitter.cli.arguments import Parser, add_verbosity_options, whole
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.bench import crawl_bench, frontier_bench, profile

ROUNDS = 3
TERMINATED = 143
_OF_CRAWLS = ("pages", "url", "profile")
_OF_FRONTIERS = ("requests", "hosts", "duplicates")


def configure(parser: Parser) -> None:
    parser.describe(
        "[options]",
        "--profile [options]",
        "frontier [options]",
        text="Measure on this machine: pages per second, CPU time per page and memory of whole crawls of a site that\n"
        "the bench serves itself, or the throughput of frontiers without fetching.",
        examples=[
            ("skitter bench", "Measure the bare parts, then crawls with memory: and sqlite:"),
            (
                "skitter bench frontier --frontier redis://127.0.0.1:6379 --requests 1e5",
                "Measure the throughput of a Redis server",
            ),
        ],
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=["frontier"],
        help="measure frontiers alone: add, lease and commit (default: whole crawls)",
    )
    parser.group("Frontiers and rounds").add_argument(
        "--frontier",
        metavar="URL",
        action="append",
        help="a frontier such as redis://HOST:PORT; measured besides memory: and sqlite: in crawls, instead of them by "
        "frontier and --profile; sqlite:PATH is a new file; the bench removes its own job at the end (repeatable)",
    )
    parser.group("Frontiers and rounds").add_argument(
        "--rounds",
        metavar="N",
        type=whole,
        default=ROUNDS,
        help=f"repetitions; the median counts (default {ROUNDS})",
    )
    crawl_bench = parser.group("Whole crawls")
    crawl_bench.add_argument("--pages", metavar="N", type=whole, help="pages of each crawl (default 3000)")
    crawl_bench.add_argument(
        "--url", metavar="URL", help="crawl this site, on this machine or its network, instead of the built-in one"
    )
    crawl_bench.add_argument(
        "--profile", action="store_true", default=None, help="show where the CPU time of a page goes"
    )
    bench_cases = parser.group("Frontiers alone (skitter bench frontier)")
    for name, text in (
        ("requests", "URLs to add (default 1e4 1e5; 1e7 takes ten minutes or more)"),
        ("hosts", "hosts that the URLs are spread over (default 1 1e3; at most 1e6, and at most as many as requests)"),
    ):
        bench_cases.add_argument(f"--{name}", metavar="N", type=whole, nargs="+", help=text)
    bench_cases.add_argument(
        "--duplicates",
        metavar="PERCENT",
        type=_percent,
        nargs="+",
        help="share of duplicates among the URLs (default 0 50 99)",
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.bench.tables import as_text
    from skitter.cli.output import print_json

    others = _OF_CRAWLS if options.what else _OF_FRONTIERS
    if wrong := next((name for name in others if getattr(options, name) is not None), ""):
        right = "skitter bench" if options.what else "skitter bench frontier"
        raise UsageError(f"not an option of this bench: --{wrong}", hint=f"it is an option of {right}")
    with _tidy_end(), _progress() as on_step:
        if options.what:
            measured: Any = _frontiers(options, on_step)
        else:
            measured = _crawls(options, on_step)
    if options.json:
        print_json(measured)
    else:
        print("\n".join(as_text(measured)))
    return 0


# The bench package is a layer above this one, so it is imported only when the command runs.


def _crawls(options: argparse.Namespace, on_step: Callable[[str], None]) -> crawl_bench.Report | profile.Report:
    from skitter.bench import bench_frontiers, crawl_bench, profile, sites

    given = options.frontier or []
    if options.profile and len(given) > 1:
        raise UsageError("a profile takes one frontier", hint="give --frontier once")
    addresses = given or ["sqlite:"] if options.profile else [*bench_frontiers.DEFAULTS, *given]
    bench_frontiers.names_of(addresses)  # reports mistakes before anything starts
    with sites.opened(options.url, options.pages or sites.PAGES) as site:
        if options.profile:
            return profile.measure(site, addresses[0], options.rounds, on_step)
        return crawl_bench.measure(site, addresses, options.rounds, on_step)


def _frontiers(options: argparse.Namespace, on_step: Callable[[str], None]) -> frontier_bench.Report:
    from skitter.bench import bench_frontiers, frontier_bench

    cases = frontier_bench.bench_cases(
        options.requests or frontier_bench.REQUESTS,
        options.hosts or frontier_bench.HOSTS,
        frontier_bench.DUPLICATES if options.duplicates is None else options.duplicates,
    )
    if not cases:
        raise UsageError("more hosts than requests", hint="give more --requests, or fewer --hosts")
    return frontier_bench.measure(options.frontier or bench_frontiers.DEFAULTS, cases, options.rounds, on_step)


def _percent(text: str) -> int:
    value = 0 if text.strip() in ("0", "0.0") else whole(text)
    if value > 99:
        raise UsageError(
            f"not a percentage under 100: {text}", hint="if all URLs are duplicates, there is nothing to fetch"
        )
    return value


@contextlib.contextmanager
def _tidy_end() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into exceptions, so that temporary jobs are removed first."""

    def end(*_: object) -> NoReturn:
        raise SystemExit(TERMINATED)

    before = [
        (number, signal.signal(number, handler))
        for number, handler in ((signal.SIGTERM, end), (signal.SIGINT, signal.default_int_handler))
    ]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the current measurement in one line, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    width = 0

    def show(text: str) -> None:
        nonlocal width
        print(f"\r{text:<{width}}", end="", file=sys.stderr, flush=True)
        width = len(text)

    try:
        yield show
    finally:
        print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)
