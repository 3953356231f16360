"""The samples of the how-to pages on fetchers, frontiers, sinks, intakes and programs run as they stand there."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from skitter.testing.web import WebSpec, served

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^```(python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def install(page: str, site: Path) -> None:
    """Write the modules of a page, each of which names itself, and its entry points, as pip would leave them."""
    points = [code for kind, code in BLOCK.findall((PAGES / page).read_text()) if kind == "toml"]
    assert points
    info = site / "samples-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: samples\nVersion: 1.0\n")
    lines = "\n".join(points).replace("project.entry-points.", "").replace('"', "")
    (info / "entry_points.txt").write_text(lines)
    write_modules(page, site)


def write_modules(page: str, folder: Path) -> None:
    blocks = BLOCK.findall((PAGES / page).read_text())
    modules = {code.partition("\n")[0].removeprefix("# "): code for kind, code in blocks if kind == "python"}
    assert modules
    for name, code in modules.items():
        (folder / name).write_text(code)


def environment(site: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(site), "SKITTER_ALLOW_PRIVATE": "true"}


@pytest.mark.parametrize(
    ("page", "suite", "part", "least"),
    [
        ("write-a-fetcher.md", "test_signed.py", "", 30),
        # All of it takes 20 seconds: what the sample changes is that a job is told to pause and to stop.
        ("write-a-frontier.md", "test_diary.py", "pause or stop", 5),
        ("write-a-sink.md", "test_shelf.py", "", 10),
        ("write-an-intake.md", "test_inbox.py", "", 12),
        # All of it takes 20 seconds.
        ("write-a-coordinator.md", "test_folder.py", "owner or tokens or cancel or tasks or short_outage", 6),
    ],
)
def test_the_sample_passes_the_suite_of_its_page(tmp_path: Path, page: str, suite: str, part: str, least: int) -> None:
    install(page, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", part, suite]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed
    assert int(passed[1]) >= least


def test_the_program_of_the_page_holds_a_lock(tmp_path: Path) -> None:
    (program,) = (
        code
        for _, code in BLOCK.findall((PAGES / "locks-and-elections.md").read_text())
        if code.startswith("# one_at_a_time.py")
    )
    (tmp_path / "one_at_a_time.py").write_text(program)
    install("write-a-coordinator.md", tmp_path)
    for url in ("sqlite:cluster.db", "folder:locks"):
        command = [sys.executable, "one_at_a_time.py", url]
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=True,
        )
        assert "this process alone writes the report, with token" in ended.stdout


def test_the_spider_of_the_page_counts_every_page_once_under_its_lock(skitter: Any) -> None:
    write_modules("coordinator.md", skitter.folder)
    ((_, table),) = [block for block in BLOCK.findall((PAGES / "coordinator.md").read_text()) if block[0] == "toml"]
    (skitter.folder / "skitter.toml").write_text(table.replace("zookeeper://zk1,zk2,zk3/crawls", "sqlite:nodes.db"))
    spider = skitter.folder / "page_count.py"
    with served(WebSpec.plain(hosts=1, pages_per_host=20)) as web:
        spider.write_text(spider.read_text().replace("http://127.0.0.1:8600/", web.urls[0]))
        skitter.run("crawl", "page_count.py", "--workers", 2, "-o", "out.jsonl")
    assert len(skitter.lines("out.jsonl")) == 20
    assert json.loads((skitter.folder / "count.json").read_text())["pages"] == 20
    assert (skitter.folder / "nodes.db").exists()


def test_the_signed_fetcher_crawls(skitter: Any, site: Any) -> None:
    install("write-a-fetcher.md", skitter.folder / "site")
    site.page("/", "<title>signed</title>")
    skitter.run("crawl", site.url(), "--set", "fetcher=signed", env=environment(skitter.folder / "site"))
    assert all(len(seen.headers["x-signature"]) == 64 for seen in site.seen)
    assert site.paths() == ["/"]


def test_the_diary_frontier_crawls_and_tells_who_paused(skitter: Any) -> None:
    install("write-a-frontier.md", skitter.folder / "site")
    told = {"env": environment(skitter.folder / "site") | {"USER": "ann"}}
    at = ["--frontier", "diary:sqlite:jobs.db", "--job", "books"]
    with served(WebSpec.plain(hosts=1, pages_per_host=20)) as web:
        skitter.run("crawl", web.urls[0], *at, "--workers", 2, "-o", "out.jsonl", **told)
    assert len(skitter.lines("out.jsonl")) == 20
    skitter.run("pause", *at, code=None, **told)
    assert "ann: pause" in (skitter.folder / "books.diary").read_text()
    assert "books" in skitter.run("jobs", *at[:2], **told).stdout


def test_sinks_of_the_page_get_the_items(skitter: Any) -> None:
    site = skitter.folder / "site"
    install("write-a-sink.md", site)
    with served(WebSpec.plain(hosts=1, pages_per_host=20)) as web:
        outputs = ["-o", "ledger://ann@shop.example/shelf?file=ledger&key=url", "-o", "shelf:books.db"]
        skitter.run("crawl", web.urls[0], *outputs, env=environment(site))
    assert len({item["key"] for item in skitter.lines("ledger")}) == 20
    with closing(sqlite3.connect(skitter.folder / "books.db")) as file:
        assert file.execute("SELECT count(*) FROM shelf").fetchone() == (20,)


def test_the_programs_of_the_page_take_the_results_of_a_fleet(skitter: Any, site: Any) -> None:
    write_modules("python-client.md", skitter.folder)
    for number in range(5):
        site.page(f"/{number}", "x" * number)
    urls = [site.url(f"/{number}") for number in range(5)]

    def run(program: str, *words: str) -> list[str]:
        command = [*skitter.python, program, *words]
        ended = subprocess.run(
            command, cwd=skitter.folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=True
        )
        return ended.stdout.splitlines()

    fleet = skitter.start("worker", "--every-job", "--frontier", "sqlite:jobs.db", "-q")
    try:
        first, *results, done = run("master.py", *urls[:3])
        assert first == "first: queued"
        assert sorted(results) == [f"{url} {number}" for number, url in enumerate(urls[:3])]
        assert done == "3 done"
        assert sorted(run("master_async.py", *urls)) == urls[3:], "what was done is done once"
    finally:
        fleet.terminate()
        fleet.communicate(timeout=HANG_SECONDS)
    assert fleet.returncode == 143


def test_the_schedules_of_the_page_are_stored(skitter: Any) -> None:
    write_modules("schedules.md", skitter.folder)
    command = [*skitter.python, "add_schedule.py"]
    ended = subprocess.run(
        command, cwd=skitter.folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=True
    )
    assert ended.stdout.startswith("nightly ")
    (tables,) = [code for kind, code in BLOCK.findall((PAGES / "schedules.md").read_text()) if kind == "toml"]
    (skitter.folder / "skitter.toml").write_text(tables)
    scheduler = skitter.start("scheduler", "--frontier", "sqlite:other.db")
    try:
        assert scheduler.stderr is not None
        lines = [scheduler.stderr.readline() for _ in range(2)]
    finally:
        scheduler.terminate()
        scheduler.communicate()
    assert ["schedule nightly: added" in lines[0], "schedule check: added" in lines[1]] == [True, True], lines


def test_the_intake_of_the_page_brings_requests(skitter: Any) -> None:
    install("write-an-intake.md", skitter.folder / "site")
    (skitter.folder / "incoming").mkdir()
    with served(WebSpec.plain(hosts=1, pages_per_host=20)) as web:
        for number, body in enumerate([web.urls[0], "not a URL"]):
            (skitter.folder / "incoming" / f"{number}.txt").write_text(body)
        words = ["--intake", "inbox:incoming", "--until-idle", "0.5", "-o", "out.jsonl"]
        skitter.run("crawl", *words, env=environment(skitter.folder / "site"))
    assert len(skitter.lines("out.jsonl")) == 20
    assert [path.name for path in (skitter.folder / "incoming").iterdir()] == ["dead-letters.jsonl"]


def test_the_programs_of_the_page_on_python_crawl(skitter: Any, site: Any) -> None:
    write_modules("scripts-and-notebooks.md", skitter.folder)
    site.page("/", "<title>one</title><a class=next href=/2>x</a>")
    site.page("/2", "<title>two</title>")

    def run(program: str, *words: str) -> str:
        command = [*skitter.python, program, *words]
        ended = subprocess.run(
            command, cwd=skitter.folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run("with_a_bar.py", site.url())
    assert run("as_they_come.py", site.url()) == f"{site.url()} one\n{site.url('/2')} two\n"
    assert run("in_a_loop.py", site.url(), site.url("/2")) == "2 titles\n[2, 1]\n"
