"""Who may read what skitter writes: a store or a spool is its owner's, and results follow the umask."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
from pathlib import Path

import pytest

from rig.processes import HANG_SECONDS
from skitter.testing.frontiers import open_frontier
from skitter.testing.web import WebSpec, served

STRANGER = 65534
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
UMASKS = pytest.mark.parametrize("umask", [0o000, 0o077])
SLOW = WebSpec.plain(hosts=1, pages_per_host=200, latency_seconds=0.02)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes(folder: Path) -> dict[str, str]:
    """Of everything in a folder, by name."""
    return {str(path.relative_to(folder)): f"{mode(path):o}" for path in folder.rglob("*")}


@pytest.fixture
def web():
    with served(WebSpec.plain(hosts=1, pages_per_host=5)) as web:
        yield web


def pages_done(skitter) -> int:
    """The pages of the job, which does not exist at first."""
    told = skitter.run("status", "--job", "j", "--json", code=None).stdout
    return json.loads(told)["done"] if told else 0


@pytest.mark.parametrize(
    ("name", "umask"),
    [("out.jsonl", 0), ("out.jsonl", 0o077), ("out.json", 0o077), ("out.warc.gz", 0), ("parts/{part}.jsonl", 0)],
)
def test_while_a_crawl_runs_only_its_results_follow_the_umask(skitter, until, umask, name) -> None:
    with served(SLOW) as web:
        command = ("crawl", web.urls[0], "-o", name, "--job", "j", "--log", "log.jsonl", "--log-format", "json")
        process = skitter.start(*command, "--delay", 0.2, umask=umask)  # 40 seconds, if it is not stopped
        until((skitter.folder / ".skitter" / "j.db-wal").exists, process)
        until(lambda: pages_done(skitter) > 5, process)
        found = modes(skitter.folder)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_SECONDS)
    public = {f"{0o666 & ~umask:o}", f"{0o777 & ~umask:o}"}
    results = {"out.jsonl", "out.warc.gz", "parts"}
    for path, seen in found.items():
        if path in results:
            assert seen in public, path
        else:
            assert seen in ("600", "700"), path
    assert {".skitter", ".skitter/j.db", ".skitter/j.db-wal", ".skitter/j.db-shm", "log.jsonl"} <= set(found)
    private = {"out.json": ".out.json.spool.jsonl", "out.warc.gz": ".out.warc.gz.ahead"}
    assert private.get(name, ".skitter") in found
    assert name.partition("/")[0] in found or name == "out.json"


@UMASKS
@pytest.mark.parametrize("name", ["out.json", "out.csv", "out.parquet", "parts/{part}.jsonl"])
def test_what_is_rendered_has_the_mode_of_the_umask_or_of_what_it_replaces(skitter, web, umask, name) -> None:
    skitter.run("crawl", web.urls[0], "-o", name, "-q", umask=umask)
    (made,) = list(skitter.folder.glob("out.*")) or [*(skitter.folder / "parts").iterdir()]
    assert mode(made) == 0o666 & ~umask
    if "{part}" not in name:
        made.chmod(0o640)
        skitter.run("crawl", web.urls[0], "-o", name, "-q", umask=umask)
        assert mode(made) == 0o640


def test_what_an_older_version_left_open_is_closed(skitter, web) -> None:
    command = ("crawl", web.urls[0], "--job", "j", "-q")
    skitter.run(*command)
    folder = skitter.folder / ".skitter"
    folder.chmod(0o755)
    (folder / "j.db").chmod(0o644)
    held = sqlite3.connect(folder / "j.db")
    held.execute("SELECT count(*) FROM jobs").fetchone()  # as a crawl of that version that goes on
    assert mode(folder / "j.db-wal") == 0o644
    skitter.run("status", "--job", "j")
    assert modes(skitter.folder) == {
        ".skitter": "700",
        ".skitter/j.db": "600",
        ".skitter/j.db-wal": "600",
        ".skitter/j.db-shm": "600",
    }
    held.close()


def test_a_folder_that_the_user_chose_is_not_changed_and_one_that_is_made_is_private(skitter, web) -> None:
    chosen = skitter.folder / "chosen"
    chosen.mkdir()
    chosen.chmod(0o775)
    skitter.run("crawl", web.urls[0], "--frontier", "sqlite:chosen/j.db", "-q", umask=0)
    skitter.run("crawl", web.urls[0], "--frontier", "sqlite:new/er/j.db", "-q", umask=0)
    assert modes(skitter.folder) == {
        "chosen": "775",
        "chosen/j.db": "600",
        "new": "700",
        "new/er": "700",
        "new/er/j.db": "600",
    }


def test_rejects_in_the_private_folder_are_private_and_beside_results_are_not(skitter, site) -> None:
    site.page("/", "<title>x</title>")
    skitter.write(
        "own.py",
        f"""
        import skitter

        def refuse(item):
            raise skitter.RejectItem("no")

        class Own(skitter.Spider):
            start_urls = ["{site.url()}"]
            item_functions = [refuse]
            async def parse(self, response):
                yield {{"a": 1}}
    """,
    )
    skitter.run("crawl", "own.py", "-o", "out.jsonl", "-o", "sqlite:out.db#t", "-q", umask=0o022)
    found = modes(skitter.folder)
    rejects = {path: seen for path, seen in found.items() if path.endswith(".rejects.jsonl")}
    assert rejects
    assert all(seen == ("600" if path.startswith(".skitter") else "644") for path, seen in rejects.items()), rejects


def planted_link(folder: Path, name: str) -> None:
    (folder / "elsewhere").mkdir(mode=0o755)
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(folder / "elsewhere" / "target" if "/" in name else folder / "elsewhere")


@pytest.mark.parametrize("name", [".skitter", ".skitter/j.db", ".skitter/j.db-wal", ".skitter/j.db-shm"])
def test_a_link_at_the_default_place_is_refused_and_nothing_is_written(skitter, web, name) -> None:
    planted_link(skitter.folder, name)
    refused = skitter.run("crawl", web.urls[0], "--job", "j", code=3)
    assert f"a symbolic link instead of a private file or folder: {name}" in refused.stderr
    assert "hint: " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert list((skitter.folder / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("command", [("status", "--job", "j"), ("jobs",), ("drop", "--job", "j"), ("status",)])
def test_every_command_refuses_a_folder_that_is_a_link(skitter, web, command) -> None:
    skitter.run("crawl", web.urls[0], "--job", "j", "-q")
    (skitter.folder / ".skitter").rename(skitter.folder / "real")
    (skitter.folder / ".skitter").symlink_to(skitter.folder / "real")
    refused = skitter.run(*command, code=3)
    assert "error: a symbolic link instead of a private file or folder: .skitter" in refused.stderr
    asked = "sqlite:.skitter/j.db?shared=yes"
    assert skitter.json("status", "--frontier", asked, "--job", "j")["done"] == 5


@is_root
@pytest.mark.parametrize("name", [".skitter", ".skitter/j.db", ".skitter/j.db-wal", ".skitter/j.db-shm"])
def test_what_belongs_to_another_user_is_refused_and_nothing_is_written(skitter, web, name) -> None:
    path = skitter.folder / name
    if "/" in name:
        path.parent.mkdir(mode=0o700)
        path.touch(0o666)
    else:
        path.mkdir(0o777)
    os.chown(path, STRANGER, STRANGER)
    path.chmod(0o777)
    refused = skitter.run("crawl", web.urls[0], "--job", "j", code=3)
    assert f"belongs to another user: {name}: user {STRANGER}, this process is user 0" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert path.stat().st_uid == STRANGER
    assert mode(path) == 0o777
    assert not path.is_file() or path.stat().st_size == 0


@is_root
def test_a_store_of_another_user_is_taken_when_it_is_asked_for(skitter, web) -> None:
    skitter.run("crawl", web.urls[0], "--frontier", "sqlite:j.db", "--job", "j", "-q")
    store = skitter.folder / "j.db"
    os.chown(store, STRANGER, STRANGER)
    store.chmod(0o660)
    refused = skitter.run("status", "--frontier", "sqlite:j.db", code=3)
    assert "belongs to another user: j.db" in refused.stderr
    asked = "sqlite:j.db?shared=yes"
    assert f"--frontier '{asked}'" in refused.stderr
    assert skitter.json("status", "--frontier", asked)["done"] == 5
    skitter.run("crawl", web.urls[0], "--frontier", asked, "--job", "j", "--fresh", "--workers", 2, "-q")
    assert [place["job"] for place in skitter.records("jobs", "--frontier", asked)] == ["j"]
    assert mode(store) == 0o660
    skitter.run("worker", "--frontier", asked, "--job", "j", "-q")
    skitter.run("drop", "--frontier", asked, "--job", "j")
    assert not store.exists()


@is_root
@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("out.json", ".out.json.spool.jsonl"),
        ("out.warc.gz", ".out.warc.gz.ahead"),
        ("p/{part}.csv", "p/.part.csv.lock"),
    ],
)
def test_a_spool_of_another_user_is_refused(skitter, web, name, planted) -> None:
    path = skitter.folder / planted
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if planted.endswith(".ahead") else path.touch()
    path.chmod(0o777)
    os.chown(path, STRANGER, STRANGER)
    refused = skitter.run("crawl", web.urls[0], "-o", name, "--job", "j", code=3)
    assert "belongs to another user: " in refused.stderr
    assert path.stat().st_uid == STRANGER
    assert not path.is_file() or path.stat().st_size == 0


def test_a_folder_in_the_place_of_the_file_is_not_changed(skitter, web) -> None:
    (skitter.folder / "j.db").mkdir(mode=0o755)
    assert "cannot use the file" in skitter.run("crawl", web.urls[0], "--frontier", "sqlite:j.db", code=3).stderr
    assert mode(skitter.folder / "j.db") == 0o755


async def test_looking_at_the_mode_of_an_open_store_does_not_unlock_it(tmp_path) -> None:
    """POSIX locks of a process go with the first descriptor of the file that it closes."""
    path = tmp_path / "j.db"
    first = open_frontier(f"sqlite:{path}", "j")
    before = locks_of(path)
    second = open_frontier(f"sqlite:{path}", "j")
    await second.close()
    assert before
    assert locks_of(path) == before
    await first.close()


def locks_of(path: Path) -> list[str]:
    """Held by this process, as others see them; without their numbers, which depend on other processes."""
    inode = f":{path.stat().st_ino}"
    return [
        line.partition(": ")[2]
        for line in Path("/proc/locks").read_text().splitlines()
        if f"{inode} " in line and str(os.getpid()) in line
    ]
