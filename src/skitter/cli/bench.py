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
    parser.add_argument(
        "what", nargs="?", choices=["frontier"], help="frontiers alone: add, lease and commit. Without it: whole crawls"
    )
    parser.add_argument(
        "--frontier",
        metavar="URL",
        action="append",
        help="redis://HOST:PORT or another; crawls: besides memory: and sqlite:; frontier and --profile: instead of "
        "them; sqlite:PATH is a new file; a job of the bench's own, removed at the end; may be repeated",
    )
    parser.add_argument("--rounds", metavar="N", type=whole, default=ROUNDS, help=f"default {ROUNDS}")
    crawl_bench = parser.add_argument_group("whole crawls")
    crawl_bench.add_argument("--pages", metavar="N", type=whole, help="of each crawl (default 3000)")
    crawl_bench.add_argument(
        "--url", metavar="URL", help="crawl this site, of this machine or its network, instead of one of its own"
    )
    crawl_bench.add_argument("--profile", action="store_true", default=None, help="where a page's time goes")
    bench_cases = parser.add_argument_group("frontier")
    for name, text in (
        ("requests", "URLs offered (default 1e4 1e5; 1e7 takes ten minutes and more)"),
        ("hosts", "that they are spread over (default 1 1e3; up to 1e6, and no more than requests)"),
    ):
        bench_cases.add_argument(f"--{name}", metavar="N", type=whole, nargs="+", help=text)
    bench_cases.add_argument(
        "--duplicates", metavar="PERCENT", type=_percent, nargs="+", help="of them that are known (default 0 50 99)"
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.bench.tables import as_text
    from skitter.cli.output import print_json

    others = _OF_CRAWLS if options.what else _OF_FRONTIERS
    if wrong := next((name for name in others if getattr(options, name) is not None), ""):
        right = "skitter bench" if options.what else "skitter bench frontier"
        raise UsageError(f"not an option of this bench: --{wrong}", hint=f"it belongs to {right}")
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
        raise UsageError("a profile is of one frontier", hint="give --frontier once")
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
        raise UsageError(f"not a percentage under 100: {text}", hint="of URLs that are all known, none would be first")
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
