"""A store that is deleted, replaced or emptied while a crawl is at work on it."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skitter.app.frontiers import use_open_file
from skitter.errors import VanishedError
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import JobSpec
from skitter.testing.web import ServedWeb, WebSpec, served

SLOW = WebSpec.plain(hosts=2, pages_per_host=400, latency_seconds=0.02)
FEW = 20


@pytest.fixture
def web() -> Iterator[ServedWeb]:
    with served(SLOW) as web:
        yield web


def wait_for_lines(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() or path.read_text().count("\n") < FEW:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.02)


def delete(file: Path) -> None:
    file.unlink()


def delete_all(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink()


def delete_log(file: Path) -> None:
    file.with_name(file.name + "-wal").unlink()


def replace(file: Path) -> None:
    copy = file.with_name("copy")
    shutil.copyfile(file, copy)
    copy.rename(file)


def put_a_file_in_its_folders_place(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))
    file.parent.touch()


@pytest.mark.parametrize("harm", [delete, delete_all, delete_log, replace, put_a_file_in_its_folders_place])
def test_a_file_that_vanishes_is_said_and_what_is_committed_is_delivered(
    skitter: Any, web: ServedWeb, harm: Callable[[Path], None]
) -> None:
    process = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--job", "j")
    wait_for_lines(skitter.folder / "out.jsonl", process)
    harm(skitter.folder / ".skitter" / "j.db")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3, told
    error = told[told.index("error: the database of the job was deleted or replaced while it was open: ") :]
    found = re.search(r"(\d+) items were delivered, and (\d+) committed items were not", error)
    assert found, told
    assert (int(found[1]), int(found[2])) == (len(skitter.lines("out.jsonl")), 0)
    assert "Traceback" not in told


async def test_whoever_reads_notices_at_once_that_the_file_is_gone(tmp_path: Path) -> None:
    """The last thing that a crawl does is to read how the job stands: a job that is gone is not finished."""
    frontier = sqlite_frontier(tmp_path / "j.db", "j")
    try:
        await frontier.begin(JobSpec(name="j", spider=""))
        await frontier.report()
        delete_all(tmp_path / "j.db")
        for call in (frontier.report, frontier.counts, frontier.job):
            with pytest.raises(VanishedError, match="deleted or replaced"):
                await call()
        assert use_open_file(frontier)
        assert (await frontier.report()).job.spec.name == "j"
    finally:
        await frontier.close()


def test_a_redis_that_is_emptied_is_said(skitter: Any, own_redis: Callable[..., Any], web: ServedWeb) -> None:
    server = own_redis()
    place = ("--frontier", server.url, "--job", "j")
    process = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, *place)
    wait_for_lines(skitter.folder / "out.jsonl", process)
    server.say("FLUSHALL")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3, told
    assert "error: the job vanished from Redis while it was in use" in told
    found = re.search(r"at least (\d+) items had been delivered", told)
    assert found, told
    assert int(found[1]) <= len(skitter.lines("out.jsonl"))
    assert "Traceback" not in told


REFUSALS = {
    "noeviction": lambda server: [server.say("CONFIG", "SET", *words) for words in EVICTS],
    "no permissions": lambda server: server.say("ACL", "SETUSER", "default", "-sadd"),
    "WRONGTYPE|no value|damaged": lambda server: server.say("SET", "skitter:jobs", "x"),
}
EVICTS = (("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru"))


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_redis_that_refuses_to_begin_a_job_has_not_lost_it(
    skitter: Any, own_redis: Callable[..., Any], reason: str
) -> None:
    server = own_redis()
    REFUSALS[reason](server)
    told = skitter.run("crawl", "http://127.0.0.1:9/", "--frontier", server.url, "--job", "j", code=3).stderr
    assert "vanished" not in told
    assert re.search(reason, told)


def test_a_job_that_is_removed_from_its_file_is_said(skitter: Any, web: ServedWeb) -> None:
    process = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--job", "j")
    wait_for_lines(skitter.folder / "out.jsonl", process)
    connection = sqlite3.connect(skitter.folder / ".skitter" / "j.db", timeout=30)
    with connection:
        connection.execute("DELETE FROM jobs")
    connection.close()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3, told
    assert "error: the job was removed from its store while it was in use: j" in told
