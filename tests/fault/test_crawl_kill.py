"""kill -9 of a whole crawl, writer and workers, again and again: the target holds everything that was there, once.

Once for each kind of file. Every page of the synthetic web has four items; an archive holds every page once.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from read_back import records

from skitter.model.url import canonical
from skitter.testing.web import ServedWeb, WebSpec, served

SPIDER = """
from skitter import Spider

class Four(Spider):
    name = "four"

    def parse(self, response):
        for place in range(4):
            yield {"id": f"{response.url} {place}", "price": place / 4, "text": "x" * 400}
        yield response.links()
"""
ITEMS = [
    "out.jsonl",
    "parts/{part}.parquet?part_bytes=60000",
    # test_sink_kill.py kills the writer of each.
    *(pytest.param(name, marks=pytest.mark.soak) for name in ("out.jsonl.zst", "out.csv.gz", "out.parquet")),
]
ARCHIVES = ["pages.warc.gz", "pages/{worker}-{part}.warc.gz?part_bytes=60000"]
REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"
SLICE = (120, 3)
PER_HOST = 4
DELAY_SECONDS = 0.3
"""At most, between an instant that was reached and its fault."""
FULL = pytest.param((1250, 20), marks=[pytest.mark.soak, pytest.mark.timeout(900)])


def web_of(pages_per_host: int) -> WebSpec:
    """So slow that what is left at the last instant takes longer than its fault: whoever starts a crawl again that
    is over begins another run, which writes everything once more."""
    return WebSpec.plain(hosts=4, pages_per_host=pages_per_host, latency_seconds=0.05)


def crawl_with_kills(skitter, web: ServedWeb, target: str, pages: int, kills: int, chance: random.Random) -> None:
    skitter.write("four.py", SPIDER.replace('name = "four"', f'name = "four"\n    start_urls = {list(web.urls)!r}'))
    command = ("crawl", "four.py", "-o", target, "--workers", 2, "--per-host", PER_HOST, "--ignore-robots", "-q")
    least_left = pages / (kills + 1)
    assert least_left / (len(web.urls) * PER_HOST / web.spec.latency_seconds) > DELAY_SECONDS
    for killed in range(kills):
        # Instants are spread over the crawl: each comes when so many pages were asked for.
        goal = pages * (killed + chance.random()) / (kills + 1)
        with skitter.start(*command, stdout=subprocess.DEVNULL) as crawl:
            while crawl.poll() is None and len(web.log()) < goal:
                time.sleep(0.01)  # the instant of the fault; nothing else waits for it
            time.sleep(chance.random() * DELAY_SECONDS)
            assert crawl.poll() is None, "it was over before it was killed often enough"
            os.killpg(crawl.pid, signal.SIGKILL)
    skitter.run(*command)


def report(target: str, kills: int, expected: Counter[str], found: Counter[str]) -> None:
    """Of a run in full."""
    missing, doubled = (expected - found).total(), (found - expected).total()
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"file-{re.sub(r'[^a-z]+', '-', target)}-soak.txt").write_text(
        f"kill -9 of the crawl x{kills}, {target}: {found.total()} records, missing {missing}, doubled {doubled}\n"
    )


def files_of(folder: Path, target: str) -> list[Path]:
    path = folder / target.partition("?")[0]
    if "{part}" not in target:
        return [path]
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".")], "nothing hidden is left"
    return sorted(path.parent.iterdir())


@pytest.mark.parametrize("target", ITEMS)
@pytest.mark.parametrize("size", [SLICE, FULL])
def test_every_item_is_in_the_file_once(skitter, tmp_path_factory, target, size):
    pages_per_host, kills = size
    chance = random.Random(f"{target} {kills}")
    log = tmp_path_factory.mktemp("web") / "hits"
    with served(web_of(pages_per_host), log_path=log) as web:
        crawl_with_kills(skitter, web, target, 4 * pages_per_host, kills, chance)
        expected = web.expected()
    found = Counter(record["id"] for path in files_of(skitter.folder, target) for record in records(path))
    items = Counter(f"{url} {place}" for url in expected.done for place in range(4))
    assert len(items) == 16 * pages_per_host
    if size != SLICE:
        report(target, kills, items, found)
    assert items - found == Counter(), "missing"
    assert found - items == Counter(), "doubled"


@pytest.mark.parametrize("target", ARCHIVES)
@pytest.mark.parametrize("size", [SLICE, FULL])
def test_every_page_is_in_the_archive_once(skitter, tmp_path_factory, target, size):
    pages_per_host, kills = size
    chance = random.Random(f"{target} {kills}")
    log = tmp_path_factory.mktemp("web") / "hits"
    with served(web_of(pages_per_host), log_path=log) as web:
        crawl_with_kills(skitter, web, target, 4 * pages_per_host, kills, chance)
        expected = web.expected()
    found: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for path in files_of(skitter.folder, target):
        check = subprocess.run(
            [sys.executable, "-m", "warcio.cli", "check", str(path)], capture_output=True, check=False
        )
        assert check.returncode == 0, check.stdout.decode()
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, verify_digests=True):
                kind, url = record.record_type, record.headers.get("WARC-Target-URI")
                if kind in (WarcRecordType.response, WarcRecordType.revisit):
                    found[canonical(url)] += 1
                elif kind == WarcRecordType.request:
                    asked[canonical(url)] += 1
    if size != SLICE:
        report(target, kills, Counter(expected.done), found)
    assert found == asked == Counter(expected.done)
    assert not list(skitter.folder.glob(".*.ahead"))
