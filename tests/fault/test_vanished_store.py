"""A store that is deleted, replaced or emptied while a crawl is at work on it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from rig.watched_web import WatchedWeb, watched
from skitter.errors import VanishedError
from skitter.model.job import JobSpec
from skitter.testing.frontiers import open_frontier, use_open_file
from skitter.testing.web import WebSpec

HARMED_AT = 15
"""Pages that were asked for when something happens to the store; many more are to come."""


@pytest.fixture
def web() -> Iterator[WatchedWeb]:
    with watched(WebSpec.plain(hosts=4, pages_per_host=15, latency_seconds=0.01)) as web:
        yield web


def told_after(skitter: Any, web: WatchedWeb, harm: Callable[[], object], *options: object) -> str:
    """What a crawl says that ends because of harm to its store."""
    process = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--job", "j", *options)

    def check_running() -> None:
        assert process.poll() is None, process.communicate()

    with web.gate.shut_at(HARMED_AT, check_running):
        harm()
    told: str = process.communicate(timeout=HANG_SECONDS)[1]
    assert process.returncode == 3, told
    assert "Traceback" not in told
    return told


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


@pytest.mark.parametrize(
    "harm",
    [
        delete,
        replace,
        put_a_file_in_its_folders_place,
        *(pytest.param(harm, marks=pytest.mark.soak) for harm in (delete_all, delete_log)),
    ],
)
def test_a_file_that_vanishes_is_said_and_what_is_committed_is_delivered(
    skitter: Any, web: WatchedWeb, harm: Callable[[Path], None]
) -> None:
    told = told_after(skitter, web, lambda: harm(skitter.folder / ".skitter" / "j.db"), "--workers", 2)
    error = told[told.index("error: the database of the job was deleted or replaced while it was open: ") :]
    found = re.search(r"(\d+) items were delivered, and (\d+) committed items were not", error)
    assert found, told
    assert (int(found[1]), int(found[2])) == (len(skitter.lines("out.jsonl")), 0)


async def test_whoever_reads_notices_at_once_that_the_file_is_gone(tmp_path: Path) -> None:
    """The last thing that a crawl does is to read how the job stands: a job that is gone is not finished."""
    frontier = open_frontier(f"sqlite:{tmp_path / 'j.db'}", "j")
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


def test_a_redis_that_is_emptied_is_said(skitter: Any, own_redis: Callable[..., Any], web: WatchedWeb) -> None:
    server = own_redis()
    told = told_after(skitter, web, lambda: server.say("FLUSHALL"), "--workers", 2, "--frontier", server.url)
    assert "error: the job vanished from Redis while it was in use" in told
    found = re.search(r"at least (\d+) items had been delivered", told)
    assert found, told
    assert int(found[1]) <= len(skitter.lines("out.jsonl"))


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


def test_a_job_that_is_removed_from_its_file_is_said(skitter: Any, web: WatchedWeb) -> None:
    def remove() -> None:
        with (
            closing(sqlite3.connect(skitter.folder / ".skitter" / "j.db", timeout=HANG_SECONDS)) as connection,
            connection,
        ):
            connection.execute("DELETE FROM jobs")

    told = told_after(skitter, web, remove)
    assert "error: the job was removed from its store while it was in use: j" in told
