"""Pages a second of one and of two workers on two cores, next to one and two processes of the bare parts.

bench_scaling.py [--site small|documentation]... [--hosts 1 40] [--frontier sqlite|redis]... [--workers 1 2]
                 [--rounds 3] [--pages 40000] [--write] [--redis-url redis://HOST:PORT]

A row is one site on one host or on 40, by one crawler. nginx serves the sites (sites.py) and counts the requests. The
figures are those between a tenth and nine tenths of the pages: start-up and end are in none of them. The documentation
has two fifths of the pages, from several copies of it. Every crawl writes a JSON line a page, and is killed at nine
tenths.

CPU is told apart: workers, the process that started them (with the delivery), the Redis, nginx. "of cores" is pages/s
divided by what the cores give at the CPU per page of all these processes together; what other processes of the
machine used is told beside it, and makes it smaller. The crawlers take turns, and each figure is the median of its
rounds. Prints one JSON object; with --write, the table goes to docs/benchmarks.md as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
from measured import CrawlFailedError, family
from private_redis import redis_at
from sites import INSTALL, PACKAGE_START, Server, nginx, packaged_site, path_of, write_small_pages

from skitter.bench.bench_frontiers import redis_command
from skitter.redis_driver.server_checks import parse_info

HERE = Path(__file__).parent
CORES = len(os.sched_getaffinity(0))
TICKS = os.sysconf("SC_CLK_TCK")
IN_FLIGHT = 64
COPIES = 8
"""Of the documentation on one host: 35,000 pages."""
POLL_SECONDS = 0.1
TIMEOUT_SECONDS = 240.0
SMALL, DOCUMENTATION = "small", "documentation"
BARE = "bare parts"
TITLES = {BARE: BARE, "sqlite": "skitter, SQLite", "redis": "skitter, Redis"}
GROUPS = ("workers", "parent", "redis", "web")


@dataclass(frozen=True)
class Web:
    """One site on some hosts."""

    site: str
    hosts: int
    seeds: tuple[str, ...]
    pages: int
    """How many of its pages a crawl is for."""


@dataclass(frozen=True)
class Moment:
    """The counters at one moment of a crawl."""

    time: float
    requests: int
    cpu: dict[int, float]
    """Seconds of each process."""
    busy: float
    """Seconds of all cores of the machine."""


class Meter:
    """Watches one crawl: the requests that nginx counts, and the CPU of everybody concerned."""

    def __init__(self, server: Server, redis_pid: int) -> None:
        self._server = server
        self._redis_pid = redis_pid
        self._status = http.client.HTTPConnection("127.0.0.1", server.status_port)
        self._polls = 0

    def requests(self) -> int:
        """How many requests nginx has had, but for those of this meter."""
        self._polls += 1
        self._status.request("GET", "/")
        lines = self._status.getresponse().read().decode().splitlines()
        return int(lines[2].split()[2]) - self._polls

    def steady(self, crawlers: Sequence[subprocess.Popen[bytes]], pages: int) -> dict[str, float]:
        """The figures between a tenth and nine tenths of the pages."""
        before = self.requests()
        first = self._at(crawlers, before + pages // 10)
        last = self._at(crawlers, before + pages * 9 // 10)
        served, seconds = last.requests - first.requests, last.time - first.time
        used = dict.fromkeys(GROUPS, 0.0)
        for pid, until in last.cpu.items():
            # A process that came in between has begun at nothing.
            used[self._group(pid)] += until - first.cpu.get(pid, 0.0)
        if gone := first.cpu.keys() - last.cpu.keys():
            raise CrawlFailedError(f"{len(gone)} processes ended before the crawl")
        ours = sum(used.values())
        figures = {f"{group}_us": seconds / served * 1e6 for group, seconds in used.items()}
        return {
            "pages_per_second": served / seconds,
            **figures,
            "all_us": ours / served * 1e6,
            "of_cores": ours / seconds / CORES,
            "others": max(0.0, last.busy - first.busy - ours) / seconds,
        }

    def _at(self, crawlers: Sequence[subprocess.Popen[bytes]], requests: int) -> Moment:
        """The first moment with so many requests."""
        until = time.monotonic() + TIMEOUT_SECONDS
        while (found := self.requests()) < requests:
            if any(one.poll() is not None for one in crawlers):
                raise CrawlFailedError(f"a crawler ended {requests - found} pages too early")
            if time.monotonic() > until:
                raise CrawlFailedError(f"not there after {TIMEOUT_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        pids = [pid for one in [*(crawler.pid for crawler in crawlers), self._server.pid] for pid in family(one)]
        pids += [self._redis_pid] if self._redis_pid else []
        return Moment(time.perf_counter(), found, {pid: cpu_seconds(pid) for pid in pids}, busy_seconds())

    def _group(self, pid: int) -> str:
        if pid == self._redis_pid:
            return "redis"
        if pid in family(self._server.pid):
            return "web"
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return "workers" if "skitter.app" in command or any("bare_parts" in word for word in command) else "parent"


def cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS


def busy_seconds() -> float:
    """What all cores of the machine have worked: everything but idle, waiting for disks, and stolen."""
    user, nice, system, _, _, irq, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + soft) / TICKS


def crawled(web: Web, crawler: str, workers: int, server: Server, redis_url: str) -> dict[str, float]:
    """One crawl, as far as nine tenths."""
    redis_pid = asyncio.run(pid_of_redis(redis_url)) if crawler == "redis" else 0
    with tempfile.TemporaryDirectory() as folder:
        commands = (
            # Each takes every seed: one that had only its own half might be through with it before nine tenths.
            [bare_command(web.seeds)] * workers if crawler == BARE else [skitter_command(web.seeds, workers, redis_url)]
        )
        with running(commands, Path(folder)) as crawlers:
            figures = Meter(server, redis_pid).steady(crawlers, web.pages)
        if crawler != BARE:
            with (Path(folder) / "out.jsonl").open("rb") as lines:
                figures["delivered"] = sum(1 for _ in lines) / (web.pages * 0.9)
    return figures


def bare_command(seeds: Sequence[str]) -> list[str]:
    return [sys.executable, str(HERE / "bare_parts.py"), *seeds, "1000000"]


def skitter_command(seeds: Sequence[str], workers: int, redis_url: str) -> list[str]:
    command = [sys.executable, "-m", "skitter", "crawl", *seeds, "-o", "out.jsonl", "-q", "--workers", str(workers)]
    command += ["--concurrency", str(IN_FLIGHT), "--per-host", str(2 * IN_FLIGHT), "--delay", "0"]
    return [*command, "--frontier", redis_url or "sqlite:job.db", "--job", "scaling", "--fresh"]


@contextlib.contextmanager
def running(commands: Sequence[list[str]], folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are killed with all that they started at the end of the block."""
    with contextlib.ExitStack() as stack:
        crawlers = []
        for command in commands:
            one = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
            stack.callback(ended, one)
            crawlers.append(one)
        yield crawlers


def ended(process: subprocess.Popen[bytes]) -> None:
    pids = family(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.01)


async def pid_of_redis(url: str) -> int:
    return int(parse_info(await redis_command(url, "INFO", "server"))["process_id"])


@contextlib.contextmanager
def served(options: argparse.Namespace) -> Iterator[tuple[Server, list[Web]]]:
    """The sites that were asked for, on each number of hosts."""
    if not shutil.which("nginx"):
        raise SystemExit(f"error: no nginx here\nhint: {INSTALL}")
    packaged = packaged_site()
    if packaged is None and DOCUMENTATION in options.site:
        print(f"only small pages are served; for a documentation site: {INSTALL}", file=sys.stderr)
        options.site.remove(DOCUMENTATION)
    with tempfile.TemporaryDirectory(prefix="bench-scaling-") as temporary:
        roots: list[Path] = []
        plans: list[tuple[str, int, int, list[str]]] = []
        for site in options.site:
            for hosts in options.hosts:
                root, paths = Path(temporary, f"{site}-{hosts}"), [path_of(0)]
                if site == SMALL:
                    write_small_pages(root, options.pages // hosts)
                elif packaged is not None:
                    root.mkdir()
                    copies = max(1, COPIES // hosts)
                    for copy in range(copies):
                        (root / str(copy)).symlink_to(packaged)
                    paths = [f"/{copy}{PACKAGE_START}" for copy in range(copies)]
                plans.append((site, hosts, len(roots), paths))
                roots += [root] * hosts
        with nginx(Path(temporary), roots) as server:
            webs = []
            for site, hosts, place, paths in plans:
                seeds = tuple(origin + path for path in paths for origin in server.origins[place : place + hosts])
                pages = options.pages if site == SMALL else options.pages * 2 // 5
                webs.append(Web(site, hosts, seeds, pages))
            yield server, webs


def rows_of(measured: dict[tuple[Web, str, int], list[dict[str, float]]]) -> list[dict[str, Any]]:
    rows = []
    for (web, crawler, workers), rounds in measured.items():
        figures = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        alone = measured.get((web, crawler, 1), [])
        ratio = statistics.median(one["pages_per_second"] for one in alone) if alone else 0.0
        rows.append(
            {
                "site": web.site,
                "hosts": web.hosts,
                "crawler": TITLES[crawler],
                "workers": workers,
                "pages_per_second": round(figures["pages_per_second"]),
                "to_one": round(figures["pages_per_second"] / ratio, 2) if ratio else None,
                "of_cores": round(figures["of_cores"], 2),
                **{f"{group}_us": round(figures[f"{group}_us"]) for group in (*GROUPS, "all")},
                "others": round(figures["others"], 2),
                "delivered": round(figures.get("delivered", 1.0), 2),
            }
        )
    return rows


def write(rows: list[dict[str, Any]], rounds: int) -> None:
    shown = [
        {
            "site, hosts": f"{row['site']}, {row['hosts']}",
            "crawler": row["crawler"],
            "workers": row["workers"],
            "pages/s": f"{row['pages_per_second']:,}",
            "to one": row["to_one"] or "",
            "of cores": row["of_cores"],
            **{f"{group} us": row[f"{group}_us"] for group in (*GROUPS, "all")},
        }
        for row in rows
    ]
    text = f"""## More workers on one machine

One and two workers on {CORES} cores, next to one and two processes of the bare parts, which know nothing of each other.
nginx and the Redis run on the same cores. `us` is CPU per page, in microseconds: of the workers, of the process that
starts them and delivers, of the Redis, of nginx, and of all together. "of cores" is pages/s divided by what {CORES}
cores give at the CPU per page of all together: the rest of the time a core was idle, or busy with something else. Taken
between a tenth and nine tenths of a crawl; medians of {rounds}.

{report.table(shown)}
"""
    report.write_section("scaling", "python bench/bench_scaling.py --write", text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="pages a second of one and of two workers on two cores")
    parser.add_argument("--site", choices=[SMALL, DOCUMENTATION], action="append", help="default: both")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 40])
    parser.add_argument(
        "--frontier", choices=[*(name for name in TITLES if name != BARE), "none"], action="append", help="default: all"
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--no-bare-parts", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=40_000, help="small pages of a crawl")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--redis-url", default="", help="default: a private server of its own")
    options = parser.parse_args()
    options.site = list(dict.fromkeys(options.site or [SMALL, DOCUMENTATION]))
    options.frontier = [name for name in dict.fromkeys(options.frontier or TITLES) if name not in ("none", BARE)]
    return options


def main() -> None:
    options = arguments()
    crawlers = [*([] if options.no_bare_parts else [BARE]), *options.frontier]
    measured: dict[tuple[Web, str, int], list[dict[str, float]]] = {}
    with contextlib.ExitStack() as stack:
        redis_url = stack.enter_context(redis_at(options.redis_url)) if "redis" in crawlers else ""
        server, webs = stack.enter_context(served(options))
        turns = [(web, crawler, workers) for web in webs for crawler in crawlers for workers in options.workers]
        for web in webs:
            # The first crawl finds the files on the disk and the others find them in memory: it counts for nothing.
            crawled(web, BARE, CORES, server, "")
        for number in range(options.rounds):
            for web, crawler, workers in turns:
                url = redis_url if crawler == "redis" else ""
                figures = crawled(web, crawler, workers, server, url)
                measured.setdefault((web, crawler, workers), []).append(figures)
                print(
                    f"round {number + 1}: {web.site}, {web.hosts} hosts: {TITLES[crawler]}, {workers}:"
                    f" {figures['pages_per_second']:.0f} pages/s, {figures['all_us']:.0f} us a page,"
                    f" {figures['of_cores']:.2f} of the cores, others {figures['others']:.2f}",
                    file=sys.stderr,
                )
    rows = rows_of(measured)
    print(json.dumps({"cores": CORES, "rounds": options.rounds, "rows": rows}, indent=1))
    if options.write:
        write(rows, options.rounds)


if __name__ == "__main__":
    try:
        main()
    except CrawlFailedError as error:
        raise SystemExit(f"error: {error}") from None
