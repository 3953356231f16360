"""What one host without an end costs ten good ones beside it, and what the rules cost a link.

bench_traps.py [--rounds 5] [--hosts 10] [--pages 1000] [--trap same] [--trap-pages 500] [--traps strict] [--workers 1]
bench_traps.py --links

Each round crawls the good hosts alone and with the trap, in turns, with the same settings; what counts is the time from
the start of the command until the last page of the good hosts was fetched. Every good page must be there, in both.
Prints one JSON object: the medians in seconds, their ratio, and the ratio of each round.

--links times the rules on links of a real-looking site instead, next to what a new link costs anyway: making it
absolute and its fingerprint.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from skitter.model.request import Fingerprinter
from skitter.model.url import absolute, host_key
from skitter.policy.traps import TrapRules
from skitter.settings import Settings
from skitter.testing.web import ServedWeb, WebSpec, served
from skitter.testing.web_traps import KINDS


def crawl(web: ServedWeb, options: argparse.Namespace, *, with_trap: bool) -> tuple[float, int]:
    """Seconds until the good hosts were complete, and the pages of the trap."""
    seeds = [*web.urls, *(web.trap_urls if with_trap else ())]
    settings = {"traps": options.traps, "trap_pages": options.trap_pages}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "skitter", "crawl", *seeds, "-o", "out.jsonl", "-q", "--job", "bench"]
        command += ["--workers", str(options.workers), "--ignore-robots"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        began = time.time()
        subprocess.run(command, cwd=folder, check=True, timeout=options.timeout, stdout=subprocess.DEVNULL)
        lines = Path(folder, "out.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    good = [record for record in records if host_key(record["url"]) + "/" in web.urls]
    if len(good) != options.hosts * options.pages:
        raise SystemExit(f"error: {len(good)} pages of the good hosts, not {options.hosts * options.pages}")
    last = max(datetime.fromisoformat(record["fetched_at"]).timestamp() for record in good)
    return last - began, len(records) - len(good)


def measure_crawls(options: argparse.Namespace) -> dict[str, Any]:
    alone: list[float] = []
    beside: list[float] = []
    trapped: list[int] = []
    spec = WebSpec.plain(hosts=options.hosts, pages_per_host=options.pages, traps=(options.trap,))
    with served(spec) as web:
        for turn in range(options.rounds):
            for with_trap in ((False, True), (True, False))[turn % 2]:
                seconds, pages = crawl(web, options, with_trap=with_trap)
                (beside if with_trap else alone).append(seconds)
                if with_trap:
                    trapped.append(pages)
    ratios = [round(one / other, 3) for one, other in zip(beside, alone, strict=True)]
    medians = statistics.median(alone), statistics.median(beside)
    return {
        "hosts": options.hosts,
        "pages_per_host": options.pages,
        "trap": options.trap,
        "pages_of_the_trap": trapped,
        "seconds_alone": round(medians[0], 3),
        "seconds_beside_the_trap": round(medians[1], 3),
        "ratio": round(medians[1] / medians[0], 3),
        "ratios": ratios,
    }


def measure_links() -> dict[str, float]:
    """Microseconds a link, the best of many passes."""
    base = "https://docs.example/3/library/index.html"
    hrefs = [f"chapter-{n // 7}/page-{n}.html" for n in range(350)]
    hrefs += [f"/search?q=word{n}&page={n}&sort=new" for n in range(100)]
    hrefs += [f"/tree/main/src/main/java/com/company/product/module{n}/Main.java" for n in range(50)]
    urls = [absolute(href, base) for href in hrefs]
    fingerprinter = Fingerprinter(b"secret")

    def timed(work: Any) -> float:
        best = float("inf")
        for _ in range(50):
            began = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - began)
        return round(best / len(urls) * 1e6, 3)

    def anyway() -> None:
        for href in hrefs:
            fingerprinter.fingerprint("GET", absolute(href, base))

    figures = {"absolute and fingerprint": timed(anyway)}
    for traps in ("normal", "strict"):
        rules = TrapRules(Settings.from_layers([("bench", {"traps": traps})]).traps, time.gmtime().tm_year)
        assert not any(rules.rule_against(url, 5) for url in urls)
        figures[traps] = timed(lambda rules=rules: [rules.rule_against(url, 5) for url in urls])
    figures["normal, share"] = round(figures["normal"] / figures["absolute and fingerprint"], 3)
    figures["strict, share"] = round(figures["strict"] / figures["absolute and fingerprint"], 3)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="one host without an end beside good ones")
    parser.add_argument("--links", action="store_true", help="time the rules on links, and nothing else")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--pages", type=int, default=1000, help="of each good host")
    parser.add_argument("--trap", choices=KINDS, default="same")
    parser.add_argument("--trap-pages", type=int, default=500)
    parser.add_argument("--traps", choices=["normal", "strict"], default="strict")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that one crawl may take")
    options = parser.parse_args()
    print(json.dumps(measure_links() if options.links else measure_crawls(options), indent=1))


if __name__ == "__main__":
    main()
