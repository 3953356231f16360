"""A whole crawl of a served site next to the bare parts and, if asked, to peers, in one run.

bench_site.py [START_URL] [--rounds 3] [--frontier sqlite|memory|redis]... [--peer "PYTHON SCRIPT"]...
              [--redis-peer "PYTHON SCRIPT"]... [--redis-url redis://HOST:PORT]

Without START_URL it serves a synthetic site of its own.
Each round runs the bare parts (bare_parts.py), skitter with one worker on each frontier, and every peer, one after the
other; medians are compared. A peer is a command that takes START_URL MAX_PAGES, and a redis-peer one that takes the
address of a Redis besides; it prints one JSON object with peer, pages_per_second and cpu_ms_per_page. skitter's CPU is
that of all its processes, start-up included; its memory is the worker's, read every 20 ms. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from private_redis import redis_at

from skitter.testing.web import WebSpec, served

HERE = Path(__file__).parent
EVERYTHING = 1_000_000


def skitter(start: str, frontier: str, redis_url: str) -> dict[str, Any]:
    """One crawl, with the figures that only this parent sees."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "skitter", "crawl", start, "-o", "out.jsonl", "--json", "-q"]
        command += ["--per-host", "64", "--concurrency", "64", "--delay", "0"]
        where = {"memory": "memory:", "sqlite": "sqlite:job.db", "redis": redis_url}
        # A new run each time, also where the server still has the last one.
        command += ["--frontier", where[frontier], "--job", "bench", "--fresh"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)
        samples: list[tuple[int, int]] = []
        sampler = threading.Thread(target=sample, args=(process, Path(folder) / "out.jsonl", samples))
        sampler.start()
        out, _ = process.communicate()
        sampler.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary = json.loads(out)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    at_1000 = next((rss for lines, rss in samples if lines >= 1000), 0)
    return {
        "pages": summary["pages"],
        "pages_per_second": summary["pages_per_second"],
        "cpu_ms_per_page": cpu * 1000 / summary["pages"],
        "rss_mb": max((rss for _, rss in samples), default=0),
        "rss_mb_at_1000_pages": at_1000,
    }


def sample(process: subprocess.Popen[bytes], results: Path, samples: list[tuple[int, int]]) -> None:
    """(results written, MB of the largest process) while the crawl runs."""
    while process.poll() is None:
        lines = results.read_bytes().count(b"\n") if results.exists() else 0
        samples.append((lines, max(map(rss_mb, family(process.pid)), default=0)))
        time.sleep(0.02)


def family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *map(int, children)]


def rss_mb(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000


def peer(command: list[str], start: str, *more: str) -> dict[str, Any]:
    answer = subprocess.run([*command, start, str(EVERYTHING), *more], capture_output=True, check=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def median(rounds: list[dict[str, Any]], name: str) -> float:
    return round(statistics.median(figures[name] for figures in rounds), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description="a whole crawl next to the bare parts and peers")
    parser.add_argument("start", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frontier", choices=["sqlite", "memory", "redis"], action="append")
    parser.add_argument("--peer", action="append", default=[], help="a command that takes START_URL MAX_PAGES")
    parser.add_argument("--redis-peer", action="append", default=[], help="the same, and the address of a Redis")
    parser.add_argument("--redis-url", default="", help="default: a private server of its own")
    options = parser.parse_args()
    options.frontier = options.frontier or ["sqlite"]
    with contextlib.ExitStack() as stack:
        start, redis_url = options.start, ""
        if "redis" in options.frontier or options.redis_peer:
            redis_url = stack.enter_context(redis_at(options.redis_url))
        if not start:
            spec = WebSpec.plain(hosts=1, pages_per_host=3000, links_per_page=20, page_bytes=7000)
            start = stack.enter_context(served(spec)).urls[0]
        measure(options, start, redis_url)


def measure(options: argparse.Namespace, start: str, redis_url: str) -> None:
    runs: dict[str, list[dict[str, Any]]] = {}
    peers = [(shlex.split(command), []) for command in options.peer]
    peers += [(shlex.split(command), [redis_url]) for command in options.redis_peer]
    for _ in range(options.rounds):
        bare = peer([sys.executable, str(HERE / "bare_parts.py")], start)
        runs.setdefault("bare parts", []).append(bare)
        for frontier in options.frontier:
            runs.setdefault(f"skitter, {frontier}", []).append(skitter(start, frontier, redis_url))
        for command, more in peers:
            figures = peer(command, start, *more)
            runs.setdefault(figures["peer"], []).append(figures)
    table = {
        name: {figure: median(rounds, figure) for figure in rounds[0] if figure != "peer"}
        for name, rounds in runs.items()
    }
    ratios = {name: ratios_of(name, table) for name in table if name.startswith("skitter")}
    print(json.dumps({"start": start, "rounds": options.rounds, "medians": table, "ratios": ratios}, indent=1))


def ratios_of(name: str, table: dict[str, dict[str, float]]) -> dict[str, float | None]:
    """Of one of ours to everything else."""
    ours = table[name]
    at_1000 = ours["rss_mb_at_1000_pages"]
    ratios: dict[str, float | None] = {
        "cpu_to_bare_parts": round(ours["cpu_ms_per_page"] / table["bare parts"]["cpu_ms_per_page"], 2),
        "memory_growth_after_1000_pages": round(ours["rss_mb"] / at_1000, 3) if at_1000 else None,
    }
    for other, figures in table.items():
        if other not in (name, "bare parts"):
            ratios[f"speed_to_{other}"] = round(ours["pages_per_second"] / figures["pages_per_second"], 2)
    return ratios


if __name__ == "__main__":
    main()
