"""kill -9 of a whole crawl, writer and workers, again and again: the target holds everything that was there, once.

Once for each kind of file. Every page of the synthetic web has four items; an archive holds every page once.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from read_back import records

from rig.killed_crawl import by_chance, expected_items, kills_at, parts_crawl, under_kills
from rig.soak import chance_of
from rig.watched_web import WatchedWeb, watched
from skitter.model.url import canonical
from skitter.testing.web import WebSpec

ITEMS = ["out.jsonl", "parts/{part}.parquet?part_bytes=60000", "out.jsonl.zst", "out.csv.gz", "out.parquet"]
ARCHIVES = ["pages.warc.gz", "pages/{worker}-{part}.warc.gz?part_bytes=60000"]
REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"
FEW, MANY = (40, 2), (5000, 20)
"""Pages and kills."""
in_full = (pytest.mark.soak, pytest.mark.timeout(900))


def short_and_in_full(short: str, targets: list[str]) -> pytest.MarkDecorator:
    """One target is killed a few times in every run of the tests, and all of them many times in the soak."""
    full = [pytest.param(target, MANY, marks=in_full) for target in targets]
    return pytest.mark.parametrize(("target", "size"), [(short, FEW), *full])


def crawl_with_kills(skitter, web: WatchedWeb, target: str, size: tuple[int, int]) -> None:
    pages, kills = size
    crawl = parts_crawl(skitter, web, target, "--workers", 2, "--ignore-robots", "-q")
    moments = by_chance(chance_of(f"{target} {kills}"), kills, pages)
    under_kills(crawl, web.gate, kills_at(moments, crawl.kill))


def web_of(size: tuple[int, int]) -> WebSpec:
    return WebSpec.plain(hosts=4, pages_per_host=size[0] // 4, latency_seconds=0.01)


def report(target: str, size: tuple[int, int], expected: Counter, found: Counter) -> None:
    """Of a run in full."""
    if size != FEW:
        missing, doubled = (expected - found).total(), (found - expected).total()
        REPORTS.mkdir(parents=True, exist_ok=True)
        (REPORTS / f"file-{re.sub(r'[^a-z]+', '-', target)}-soak.txt").write_text(
            f"kill -9 of the crawl x{size[1]}, {target}: {found.total()} records,"
            f" missing {missing}, doubled {doubled}\n"
        )


def files_of(folder: Path, target: str) -> list[Path]:
    path = folder / target.partition("?")[0]
    if "{part}" not in target:
        return [path]
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".")], "nothing hidden is left"
    return sorted(path.parent.iterdir())


@short_and_in_full("parts/{part}.parquet?part_bytes=6000", ITEMS)
def test_every_item_is_in_the_file_once(skitter, target, size):
    with watched(web_of(size)) as web:
        crawl_with_kills(skitter, web, target, size)
        items = expected_items(web)
    files = files_of(skitter.folder, target)
    if "{part}" in target:
        assert len(files) > 1
    found = Counter((canonical(record["url"]), int(record["part"])) for path in files for record in records(path))
    assert len(items) == 4 * size[0]
    report(target, size, items, found)
    assert items - found == Counter(), "missing"
    assert found - items == Counter(), "doubled"


@short_and_in_full("pages.warc.gz", ARCHIVES)
def test_every_page_is_in_the_archive_once(skitter, target, size):
    with watched(web_of(size)) as web:
        crawl_with_kills(skitter, web, target, size)
        expected = Counter(web.expected().done)
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
    report(target, size, expected, found)
    assert found == asked == expected
    assert not list(skitter.folder.glob(".*.ahead"))
