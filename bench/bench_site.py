"""A whole crawl of a served site next to the bare parts and, if asked, to peers, in one run.

bench_site.py [START_URL] [--rounds 3] [--peer "PYTHON SCRIPT"]... [--frontier sqlite|memory]

Without START_URL it serves a synthetic site of its own.
Each round runs the bare parts (bare_parts.py), skitter with one worker, and every peer, one after the
other; medians are compared. A peer is a command that takes START_URL MAX_PAGES and prints one JSON object
with pages_per_second and cpu_ms_per_page. skitter's CPU is that of all its processes, start-up included;
its memory is the worker's, read every 20 ms. Prints one JSON object.
"""

from __future__ import annotations

import argparse
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

from skitter.testing.web import WebSpec, served

HERE = Path(__file__).parent
EVERYTHING = 1_000_000


def skitter(start: str, frontier: str) -> dict[str, Any]:
    """One crawl, with the figures that only this parent sees."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "skitter", "crawl", start, "-o", "out.jsonl", "--json", "-q"]
        command += ["--per-host", "64", "--concurrency", "64", "--delay", "0"]
        command += ["--frontier", "memory:" if frontier == "memory" else "sqlite:job.db"]
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


def peer(command: list[str], start: str) -> dict[str, Any]:
    answer = subprocess.run([*command, start, str(EVERYTHING)], capture_output=True, check=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def median(rounds: list[dict[str, Any]], name: str) -> float:
    return round(statistics.median(figures[name] for figures in rounds), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description="a whole crawl next to the bare parts and peers")
    parser.add_argument("start", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frontier", choices=["sqlite", "memory"], default="sqlite")
    parser.add_argument("--peer", action="append", default=[], help="a command that takes START_URL MAX_PAGES")
    options = parser.parse_args()
    if options.start:
        measure(options, options.start)
    else:
        with served(WebSpec.plain(hosts=1, pages_per_host=3000, links_per_page=20, page_bytes=7000)) as web:
            measure(options, web.urls[0])


def measure(options: argparse.Namespace, start: str) -> None:
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        bare = peer([sys.executable, str(HERE / "bare_parts.py")], start)
        runs.setdefault("bare parts", []).append(bare)
        runs.setdefault("skitter", []).append(skitter(start, options.frontier))
        for command in options.peer:
            figures = peer(shlex.split(command), start)
            runs.setdefault(figures["peer"], []).append(figures)
    table = {
        name: {figure: median(rounds, figure) for figure in rounds[0] if figure != "peer"}
        for name, rounds in runs.items()
    }
    ours = table["skitter"]
    ratios = {
        "cpu_to_bare_parts": round(ours["cpu_ms_per_page"] / table["bare parts"]["cpu_ms_per_page"], 2),
        "memory_growth_after_1000_pages": round(ours["rss_mb"] / ours["rss_mb_at_1000_pages"], 3)
        if ours["rss_mb_at_1000_pages"]
        else None,
    }
    for name, figures in table.items():
        if name not in ("skitter", "bare parts"):
            ratios[f"speed_to_{name}"] = round(ours["pages_per_second"] / figures["pages_per_second"], 1)
    print(json.dumps({"start": start, "rounds": options.rounds, "medians": table, "ratios": ratios}, indent=1))


if __name__ == "__main__":
    main()
