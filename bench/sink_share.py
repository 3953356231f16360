"""What writing results costs a whole crawl: the same site with a sink and without, in turns.

    python bench/sink_share.py [START_URL] [--rounds 5] [-o out.jsonl] [--frontier sqlite:job.db]

Without START_URL it serves a synthetic site of its own. Prints one JSON object: medians of pages a second and of CPU
milliseconds a page (all processes, start-up included) for both, and ``slower``, the share of the rate that the sink
takes (the median of the pairs, so that what else the machine does weighs on both).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from skitter.testing.web import WebSpec, served


def crawl(start: str, frontier: str, target: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "skitter", "crawl", start, "--json", "-q", "--frontier", frontier]
        command += ["--job", "bench", "--fresh", "--per-host", "64", "--concurrency", "64"]
        command += ["-o", target] if target else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary = json.loads(out)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "pages": summary["pages"],
        "pages_per_second": summary["pages_per_second"],
        "cpu_ms_per_page": cpu * 1000 / summary["pages"],
    }


@contextlib.contextmanager
def site(start: str | None) -> Iterator[str]:
    if start:
        yield start
        return
    with served(WebSpec.plain(hosts=1, pages_per_host=3000, links_per_page=20, page_bytes=7000)) as web:
        yield web.urls[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", dest="target", default="out.jsonl")
    parser.add_argument("--frontier", default="sqlite:job.db")
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
    with site(options.start) as start:
        for number in range(options.rounds):
            # Whoever goes first finds other caches: they take turns.
            order = ["with", "without"] if number % 2 else ["without", "with"]
            for kind in order:
                runs[kind].append(crawl(start, options.frontier, options.target if kind == "with" else ""))
    report: dict[str, Any] = {
        kind: {name: round(statistics.median(run[name] for run in of_kind), 3) for name in of_kind[0]}
        for kind, of_kind in runs.items()
    }
    pairs = zip(runs["with"], runs["without"], strict=True)
    report["slower"] = round(1 - statistics.median(w["pages_per_second"] / o["pages_per_second"] for w, o in pairs), 4)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
