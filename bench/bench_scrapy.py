"""One spider twice in one run: in Scrapy, and the same file by the adapter.

bench_scrapy.py [--rounds 3] [--pages 1000] [--site FOLDER --start /PATH] [--only adapter] [--write]

The spider follows every link of a documentation site (sites.py) and yields URL and title of each page. Scrapy is the
version that is installed here, tuned as in peers/run_scrapy.py, and stops after --pages; skitter, with one worker and
SQLite, has all pages. CPU of skitter is that of all its processes with their start, CPU of Scrapy is that of its crawl
alone. Prints one JSON object; --write also puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import report
from bench_site import TIMEOUT_SECONDS, last_object
from measured import run
from sites import INSTALL, sites

HERE = Path(__file__).resolve().parent
SCRAPY, ADAPTER = "Scrapy", "the same spider, by the adapter"
ABOUT = """\
## A Scrapy spider, without a change

One spider that follows every link of the documentation site and yields URL and title of each page: in Scrapy, and the
same file by the adapter (`skitter crawl everything.py`); in turns, medians of {rounds} rounds. One worker, SQLite. CPU
of skitter is that of all its processes with their start, CPU of Scrapy that of its crawl alone. Only ratios are shown,
because this is a run of its own: pages a second of Scrapy, and of a spider that is written for skitter, are in the
[first part](#a-documentation-site)."""
SPIDER = """
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.http import TextResponse
from scrapy.linkextractors import LinkExtractor


class Everything(Spider):
    name = "everything"
    links = LinkExtractor()
    custom_settings = {
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        "ROBOTSTXT_OBEY": False,
        "COOKIES_ENABLED": False,
    }

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]
        self.allowed_domains = [urlsplit(url).hostname]

    def parse(self, response):
        if isinstance(response, TextResponse):
            yield {"url": response.url, "title": response.css("title::text").get()}
            for link in self.links.extract_links(response):
                yield Request(link.url)
"""


def scrapy(start_url: str, pages: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HERE / "peers" / "run_scrapy.py"), start_url, str(pages)]
        env = os.environ | {"PYTHONPATH": str(HERE / "peers")}
        ended = run(command, Path(folder), timeout_seconds=TIMEOUT_SECONDS, env=env)
    return last_object(ended.output)


def adapter(start_url: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "skitter", "crawl", "everything.py", "-a", f"url={start_url}", "-o", "out.jsonl"]
    command += ["--json", "-q", "--frontier", "sqlite:job.db"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "everything.py").write_text(SPIDER)
        ended = run(command, Path(folder), timeout_seconds=TIMEOUT_SECONDS)
    summary = last_object(ended.output)
    return {
        "pages": summary["pages"],
        "pages_per_second": summary["pages_per_second"],
        "cpu_ms_per_page": ended.cpu_seconds * 1000 / summary["pages"],
    }


def write(medians: dict[str, dict[str, float]], rounds: int) -> None:
    """Put the table into the docs."""
    base = medians[SCRAPY]
    table = [
        {
            "spider": title,
            "pages": f"{found['pages']:,.0f}",
            "speed to Scrapy": f"{found['pages_per_second'] / base['pages_per_second']:.1f} x",
            "CPU to Scrapy": f"{found['cpu_ms_per_page'] / base['cpu_ms_per_page']:.2f} x",
        }
        for title, found in medians.items()
    ]
    text = f"{ABOUT.format(rounds=rounds)}\n\n{report.table(table)}"
    report.write_section("scrapy", "python bench/bench_scrapy.py --write", text)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--start", default="")
    parser.add_argument("--only", action="append", choices=["scrapy", "adapter"], default=[])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    kinds = {
        "scrapy": (SCRAPY, lambda url: scrapy(url, options.pages)),
        "adapter": (ADAPTER, adapter),
    }
    figures: dict[str, list[dict[str, Any]]] = {}
    with sites(small_pages=1, folder=options.site, start=options.start) as served:
        if served[0].name != "documentation":
            raise SystemExit(f"error: no documentation site to serve\nhint: {INSTALL}")
        for _ in range(options.rounds):
            for kind in options.only or kinds:
                title, crawl = kinds[kind]
                found = crawl(served[0].start_url)
                figures.setdefault(title, []).append(found)
                print(f"{title}: {found['pages_per_second']:.0f} pages/s", file=sys.stderr)
    medians = {
        title: {
            name: statistics.median(one[name] for one in rounds)
            for name in ("pages", "pages_per_second", "cpu_ms_per_page")
        }
        for title, rounds in figures.items()
    }
    print(json.dumps({"rounds": options.rounds, "medians": medians}))
    if options.write:
        write(medians, options.rounds)


if __name__ == "__main__":
    main()
