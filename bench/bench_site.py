"""Whole crawls of served sites next to the bare parts and to other crawlers, in turns, in one run.

bench_site.py [--rounds 3] [--frontier memory|sqlite|redis]... [--peer NAME]... [--peer-pages 1000] [--write]
              [--small-pages 20000] [--site FOLDER --start /PATH] [--redis-url redis://HOST:PORT]
bench_site.py START_URL ...

It serves a documentation site and small synthetic pages itself (sites.py), and installs the other crawlers (others.py).
Each round runs the bare parts (bare_parts.py) and skitter with one worker on each frontier, three times in turns, and
then every peer, one after the other. A site that is named with START_URL is crawled by skitter and the bare parts, and
by the peers that are named.
A crawl that did not fetch what it should gives no figures. Prints one JSON object; --write also puts tables and plots
into docs/benchmarks.md and the short table into both READMEs.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import report
from figures import BARE_PARTS, OURS, Crawls, findings, measured, ratios, rows, short_rows
from measured import CrawlFailedError, run
from others import PEERS, NotInstalledError, Peer, install, surroundings
from private_redis import redis_at
from sites import INSTALL, Site, sites

HERE = Path(__file__).parent
EVERYTHING = 1_000_000
IN_FLIGHT = 64
TURNS = 3
"""Of the bare parts and of skitter in a round: they take seconds, and a machine may be slow for longer."""
TIMEOUT_SECONDS = 600.0
FRONTIERS = {"memory": "memory", "sqlite": "SQLite", "redis": "Redis"}

Figures = dict[str, Any]


class Comparison:
    """All crawlers on one site, round by round."""

    def __init__(self, site: Site, options: argparse.Namespace, peers: dict[str, str], redis_url: str) -> None:
        """`peers` maps the name of each to why it cannot be had, which is empty as a rule."""
        self.site = site
        # The first crawl finds the files on the disk and the others find them in memory: it counts for nothing else.
        self.pages = bare_parts(site.start_url)["pages"]
        self.table: dict[str, Crawls] = {BARE_PARTS: Crawls()}
        self.table |= {f"{OURS}, {FRONTIERS[frontier]}": Crawls() for frontier in options.frontier}
        self.table |= {PEERS[name].title: Crawls(failure=failure) for name, failure in peers.items()}
        self._options = options
        self._peers = [PEERS[name] for name, failure in peers.items() if not failure]
        self._redis_url = redis_url

    def round(self) -> None:
        for _ in range(TURNS):
            self._took(BARE_PARTS, bare_parts(self.site.start_url), self.pages)
            for frontier in self._options.frontier:
                figures = skitter(self.site.start_url, frontier, self._redis_url)
                self._took(f"{OURS}, {FRONTIERS[frontier]}", figures, self.pages)
        for one in self._peers:
            crawls = self.table[one.title]
            if not crawls.failure:
                # What is wrong with another crawler is told below the table; what is wrong with ours ends the run.
                try:
                    pages = min(self._options.peer_pages, self.pages)
                    self._took(one.title, self._peer(one, pages), pages)
                except CrawlFailedError as error:
                    crawls.failure = str(error)
                    print(f"{self.site.name}: {one.title}: {error}", file=sys.stderr)

    def _took(self, name: str, figures: Figures, pages: int) -> None:
        if figures["pages"] != pages:
            raise CrawlFailedError(f"{name} had {figures['pages']} pages instead of {pages}")
        self.table[name].rounds.append(figures)
        print(f"{self.site.name}: {name}: {figures['pages_per_second']:.0f} pages/s", file=sys.stderr)

    def _peer(self, one: Peer, pages: int) -> Figures:
        with tempfile.TemporaryDirectory() as folder:
            ended = run(
                one.command(self.site.start_url, pages, self._redis_url),
                Path(folder),
                timeout_seconds=TIMEOUT_SECONDS,
                env=surroundings(),
            )
        return last_object(ended.output) | {"rss_mb_all": ended.all_mb}


def bare_parts(start_url: str) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HERE / "bare_parts.py"), start_url, str(EVERYTHING)]
        ended = run(command, Path(folder), timeout_seconds=TIMEOUT_SECONDS)
    return last_object(ended.output) | {"rss_mb_all": ended.all_mb}


def skitter(start_url: str, frontier: str, redis_url: str) -> Figures:
    """One crawl by one worker."""
    where = {"memory": "memory:", "sqlite": "sqlite:job.db", "redis": redis_url}
    command = [sys.executable, "-m", "skitter", "crawl", start_url, "-o", "out.jsonl", "--json", "-q"]
    command += ["--per-host", str(IN_FLIGHT), "--concurrency", str(IN_FLIGHT), "--delay", "0"]
    # A new run each time, also where the server still has the last one.
    command += ["--frontier", where[frontier], "--job", "bench", "--fresh"]
    with tempfile.TemporaryDirectory() as folder:
        results = Lines(Path(folder) / "out.jsonl")
        ended = run(command, Path(folder), timeout_seconds=TIMEOUT_SECONDS, mark=results.count)
    summary = last_object(ended.output)
    return {
        "pages": summary["pages"],
        "pages_per_second": summary["pages_per_second"],
        "cpu_ms_per_page": ended.cpu_seconds * 1000 / summary["pages"],
        "rss_mb": ended.largest_mb,
        "rss_mb_all": ended.all_mb,
        "rss_mb_at_1000_pages": next((one.largest_mb for one in ended.samples if one.mark >= 1000), 0),
    }


class Lines:
    """The lines of a file that grows, each read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._place, self._lines = path, 0, 0

    def count(self) -> int:
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(self._place)
            new = file.read()
            self._place += len(new)
            self._lines += new.count(b"\n")
        return self._lines


def last_object(output: str) -> Figures:
    """The JSON object that a run ends with."""
    try:
        return json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise CrawlFailedError("it printed no figures") from None


def ready(names: list[str]) -> dict[str, str]:
    """Install what is missing; for each peer, why it cannot be had."""
    failures = dict.fromkeys(names, "")
    for name in names:
        try:
            install(PEERS[name])
        except NotInstalledError as error:
            failures[name] = f"Not installed: {error}"
            print(f"{name}: {failures[name]}", file=sys.stderr)
    return failures


def as_json(compared: list[Comparison], rounds: int) -> dict[str, Any]:
    return {
        "rounds": rounds,
        "sites": {
            one.site.name: {
                "start_url": one.site.start_url,
                "medians": {
                    name: {figure: round(crawls.median(figure), 3) for figure in numbers(crawls.rounds[0])}
                    for name, crawls in measured(one.table).items()
                },
                "ratios": ratios(one.table),
                "failures": {name: crawls.failure for name, crawls in one.table.items() if crawls.failure},
            }
            for one in compared
        },
    }


def numbers(figures: Figures) -> list[str]:
    return [name for name, value in figures.items() if isinstance(value, int | float)]


def write(compared: list[Comparison], options: argparse.Namespace) -> None:
    """Tables and plots into the docs, and a few rows of them into the README."""
    parts = [
        ABOUT.format(
            rounds=options.rounds,
            turns=TURNS * options.rounds,
            pages=f"{options.peer_pages:,}",
            server=compared[0].site.server,
        )
    ]
    if not any(one.site.name == "documentation" for one in compared):
        parts.append(f"There was no documentation site to serve: `{INSTALL}` brings one.")
    for one in compared:
        crawls = measured(one.table)
        speeds = {name: found.spread("pages_per_second") for name, found in crawls.items()}
        title = f"Pages a second: {one.site.about}"
        parts += [
            f"### {one.site.about[0].upper()}{one.site.about[1:]}",
            f"{one.site.source} A crawl finds {one.pages:,} of them.",
            report.table(rows(one.table)),
            "\n".join(f"- {line}" for line in findings(one.table)),
            report.bars(
                f"peers-{one.site.name}",
                title,
                {name: (speed.median, speed.low, speed.high) for name, speed in speeds.items()},
            ),
        ]
    versions = {
        name: found.rounds[0]["version"]
        for one in compared
        for name, found in measured(one.table).items()
        if "version" in found.rounds[0]
    }
    if versions:
        parts.append("Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
    command = shlex.join(["python", "bench/bench_site.py", *sys.argv[1:]])
    report.write_section("peers", command, "\n\n".join(part for part in parts if part))
    table = report.table(short_rows({one.site.about: one.table for one in compared}))
    report.write_section("figures", command, SHORT.format(table=table), report.README)
    report.write_section("figures", command, in_chinese(table), report.CHINESE_README)


ABOUT = """\
## Next to other crawlers

One crawler at a time on one machine, in turns; medians of {turns} crawls of skitter and of the bare parts, and of
{rounds} of each other crawler; in brackets the lowest and the highest. The sites are served by {server} on the same
machine. The bare parts are pycurl, selectolax and can_ada in a loop (`bench/bare_parts.py`): no frontier, no
politeness, no promises, and so the limit of what a crawler on these parts can reach. skitter runs with one worker.

Everyone has 64 requests in flight, no delay and no log, finds title and links of every page, follows those on the
host, and writes a JSON line a page. The other crawlers are set up for speed (`bench/peers/`) and read no robots.txt.
Colly is a program in Go and uses every core; the others use one, and skitter one and a little of another.
They stop after {pages} pages, so that a run takes minutes; skitter and the bare parts crawl the whole site. This may
count against the others a little, because the first pages of a crawl can be dearer than the later ones:
`--peer-pages 5000` lets them have the whole documentation site. A crawl with another number of pages than it should
have gives no figures.

Pages a second and CPU of the others are taken from the start of the crawl to the last of these pages: neither the
start of the interpreter nor the end of the crawl is in them. skitter's pages a second are those of its summary, up to
the last line that it writes, and its CPU is that of all its processes from start to end. What {server} and Redis use is
in no figure. Memory is the most that all processes of a crawler had together."""


SHORT = """\
## Speed

{table}

One worker, 64 requests in flight; in brackets, the multiple of Scrapy's speed. The bare parts are pycurl, selectolax
and can_ada in a loop: the limit of what skitter could reach. The benchmark is CPU-bound, on localhost. A real crawl is
bound by politeness and by the network: `--delay 1` allows one page a second from a host, whichever crawler you use.
[Method, CPU, memory and versions](docs/benchmarks.md)."""


def in_chinese(table: str) -> str:
    """The heads and labels of the table; the text around it is in the page."""
    for english, chinese in {
        "pages a second": "页/秒",
        "a documentation site": "文档网站",
        "small pages": "小页面",
        "bare parts": "裸组件",
    }.items():
        table = table.replace(english, chinese)
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="whole crawls next to the bare parts and other crawlers")
    parser.add_argument("start_url", nargs="?", help="a site that is served already")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frontier", choices=FRONTIERS, action="append", help="default: all")
    parser.add_argument(
        "--peer", choices=[*PEERS, "none"], action="append", help="default: all, or none with START_URL"
    )
    parser.add_argument("--peer-pages", type=int, default=1000, help="where the other crawlers stop")
    parser.add_argument("--small-pages", type=int, default=20_000, help="of the synthetic site")
    parser.add_argument("--site", type=Path, help=f"a folder of HTML instead of what {INSTALL.split()[-1]} brings")
    parser.add_argument("--start", default="/index.html", help="the first page in --site")
    parser.add_argument("--redis-url", default="", help="default: a private server of its own")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md and the README")
    options = parser.parse_args()
    if options.write and (options.start_url or options.redis_url):
        parser.error("--write is for the sites and the Redis that this command starts itself")
    options.frontier = list(dict.fromkeys(options.frontier or FRONTIERS))
    options.peer = [name for name in options.peer or ([] if options.start_url else PEERS) if name != "none"]
    return options


def main() -> None:
    options = arguments()
    with contextlib.ExitStack() as stack:
        failures = ready(options.peer)
        redis_url = ""
        if "redis" in options.frontier or any(PEERS[name].redis for name in failures):
            redis_url = stack.enter_context(redis_at(options.redis_url))
        if options.start_url:
            served = [Site(name="site", about=options.start_url, start_url=options.start_url, source="")]
        else:
            served = stack.enter_context(
                sites(small_pages=options.small_pages, folder=options.site, start=options.start)
            )
            if served[0].name == "small":
                print(f"only small pages are served; for a documentation site: {INSTALL}", file=sys.stderr)
        # As an installed package has it: the first round does not pay for the others.
        compileall.compile_dir(HERE.parent / "src", quiet=2)
        compared = [Comparison(site, options, failures, redis_url) for site in served]
        for _ in range(options.rounds):
            for one in compared:
                one.round()
    print(json.dumps(as_json(compared, options.rounds), indent=1))
    if options.write:
        write(compared, options)


if __name__ == "__main__":
    try:
        main()
    except CrawlFailedError as error:
        raise SystemExit(f"error: {error}") from None
