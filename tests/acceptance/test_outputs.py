"""Every kind of file that ``-o`` can name, by the real command line, read back by other programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from read_back import records

from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2")


@pytest.mark.parametrize(
    "target",
    [
        "out.jsonl.zst",
        "out.json.gz",
        "out.csv.zst",
        "out.parquet",
        "parts/{date}-{part}.jsonl.gz?part_bytes=4000",
        "parts/?format=parquet&part_seconds=0.3",
    ],
)
def test_every_page_is_in_the_file_once(skitter, target) -> None:
    with served(WebSpec.demo()) as web:
        summary = skitter.json("crawl", *web.urls, "-o", target, "--workers", 2, "--job", "demo", *QUICK)
        expected = web.expected()
    files = [skitter.folder / target]
    if target.startswith("parts/"):
        files = sorted((skitter.folder / "parts").iterdir())
        assert not [path for path in files if path.name.startswith(".")]
    found = [record for path in files for record in records(path)]
    assert Counter(canonical(record["url"]) for record in found) == Counter(expected.done)
    assert summary["items"] == len(found)


def test_duckdb_reads_a_folder_of_parts_with_sensible_types(skitter) -> None:
    with served(WebSpec.plain(hosts=2, pages_per_host=40)) as web:
        # Slowly: items are delivered in batches, and a part has whole ones.
        outputs = ("-o", "parts/?format=parquet&part_bytes=2000")
        skitter.run("crawl", *web.urls, *outputs, "--delay", 0.05, "--ignore-robots", *QUICK)
    parts = skitter.folder / "parts"
    assert len(list(parts.iterdir())) > 2
    with duckdb.connect() as connection:
        rows = connection.execute(f"describe select * from '{parts}/*.parquet'").fetchall()
        types = {row[0]: row[1] for row in rows}
        total = connection.execute(f"select count(distinct url), sum(bytes) from '{parts}/*.parquet'").fetchone()
    assert types["url"] == types["title"] == "VARCHAR"
    assert types["status"] == types["depth"] == types["bytes"] == "BIGINT"
    assert types["fetched_at"] == "TIMESTAMP WITH TIME ZONE"
    assert total[0] == 80


def check(path: Path) -> None:
    """By warcio's own command: every digest of every record."""
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", "-v", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digest pass" in done.stdout


def answered(path: Path) -> list[tuple[str, int]]:
    """Every response and revisit, read by fastwarc."""
    kinds = WarcRecordType.response | WarcRecordType.revisit
    with path.open("rb") as stream:
        return [
            (record.headers["WARC-Target-URI"], record.http_headers.status_code)
            for record in ArchiveIterator(stream, record_types=kinds, parse_http=True)
        ]


@pytest.fixture(params=["sqlite", "redis", "memory"])
def frontier(request, services, tmp_path) -> str:
    """Where a job of its own is kept."""
    if request.param == "redis":
        return services.need("redis")["url"]
    return f"sqlite:{tmp_path}/x.db" if request.param == "sqlite" else "memory:"


def test_an_archive_and_items_are_told_apart_on_every_frontier(skitter, frontier, tmp_path) -> None:
    with served(WebSpec.plain(hosts=2, pages_per_host=30)) as web:
        place = ("--frontier", frontier, "--job", tmp_path.name)
        summary = skitter.json("crawl", *web.urls, "-o", "pages.warc.gz", "-o", "out.jsonl", *place)
    assert summary["items"] == len(skitter.lines("out.jsonl")) == 60
    check(skitter.folder / "pages.warc.gz")
    assert len(answered(skitter.folder / "pages.warc.gz")) == 60


@pytest.mark.parametrize("target", ["pages.warc.gz", "pages.warc", "pages/{job}-{part}.warc.gz?part_bytes=20000"])
@pytest.mark.parametrize("workers", [1, 2])
def test_every_answer_is_in_the_archive_once(skitter, target, workers) -> None:
    with served(WebSpec.demo()) as web:
        outputs = ("-o", target, "-o", "out.jsonl")
        summary = skitter.json("crawl", *web.urls, *outputs, "--workers", workers, "--job", "demo", *QUICK)
        expected = web.expected()
    items = skitter.lines("out.jsonl")
    assert summary["items"] == len(items) == len(expected.done), "pages of the archive are not items"
    files = sorted((skitter.folder / "pages").iterdir()) if "{part}" in target else [skitter.folder / target]
    if "{part}" in target:
        assert len(files) > 1
        assert not [path for path in files if path.name.startswith(".")]
    assert not [path for path in skitter.folder.iterdir() if path.name.endswith(".ahead")]
    for path in files:
        check(path)
    archive = [answer for path in files for answer in answered(path)]
    done = Counter(canonical(url) for url, status in archive if 200 <= status < 300)
    assert done == Counter(expected.done)
    loops = Counter(expected.failed.values())["redirect"]
    assert sum(300 <= status < 400 for _, status in archive) == summary["redirected"] + loops
    answered_and_dead = [url for url, kind in expected.failed.items() if kind.startswith("http_")]
    assert Counter(canonical(url) for url, status in archive if status >= 400) == Counter(answered_and_dead)


@pytest.mark.parametrize("target", ["out.jsonl", "out.csv"])
def test_a_new_run_says_that_it_appends_to_earlier_results(skitter, site, target) -> None:
    site.page("/", "<title>only</title>")
    warning = f"appends to {target}, which already has results; to replace them, use overwrite=True (-O {target})"

    def crawl(*options: str) -> tuple[bool, int]:
        stderr = skitter.run("crawl", site.url(), "--job", "again", *options).stderr
        return warning in stderr, len(records(skitter.folder / target))

    assert crawl("-o", target) == (False, 1)
    assert crawl("-o", target) == (True, 2), "a finished job begins another run"
    assert crawl("-O", target) == (False, 1), "an output that is emptied"
    assert crawl("-o", target, "--fresh") == (True, 2)
    assert crawl("-o", target, "--recrawl-all")[0] is False, "a job that recrawls appends by design"


def test_a_resumed_run_does_not_warn_of_its_own_results(skitter, site) -> None:
    site.page("/", "<a href=/1>1</a><a href=/2>2</a>")
    site.page("/1")
    site.page("/2")
    skitter.run("crawl", site.url(), "-o", "out.jsonl", "--max-pages", 1)
    resumed = skitter.run("crawl", site.url(), "-o", "out.jsonl")
    assert "resumed" in resumed.stderr
    assert "already has results" not in resumed.stderr
    assert len(skitter.lines("out.jsonl")) == 3


@pytest.mark.parametrize("output", ["a/b/pages.warc.gz", "a/b/pages.jsonl"])
def test_a_volume_that_has_gone_becomes_no_folder_in_a_resumed_or_joined_job(
    skitter: Any, site: Any, output: str
) -> None:
    site.page("/", "<a href='/2'>2</a>")
    site.page("/2", "second")
    (skitter.folder / "a" / "b").mkdir(parents=True)
    crawl = ("crawl", site.url(), "-o", output, "--job", "j", "--max-pages")
    skitter.run(*crawl, 1)
    shutil.rmtree(skitter.folder / "a")
    asked = len(site.seen)
    commands = [(*crawl, 2), ("deliver", "j", "-o", output)]
    # A worker that joins writes the archive of its machine, and no file of another one.
    commands += [("worker", "j")] if "warc" in output else []
    skitter.run("set", "j", "max_pages=2")
    skitter.run("resume", "j")
    for command in commands:
        told = skitter.run(*command, code=2).stderr
        assert "does not exist: a\nhint: create it, or mount its volume" in told
    assert len(site.seen) == asked
    assert not (skitter.folder / "a").exists()
