"""Two skitters on one store: the same stored format is worked on together, another one is refused and left alone.

The other one is a copy of this package with another version or another format, run as a program of its own.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

import skitter as package
from rig.processes import HANG_SECONDS
from skitter.testing.web import WebSpec, served

SLOW = WebSpec.plain(hosts=2, pages_per_host=40)
SMALL = WebSpec.plain(hosts=1, pages_per_host=10)


@pytest.fixture(params=["sqlite", "redis"])
def place(request, services) -> tuple[str, ...]:
    url = "sqlite:j.db" if request.param == "sqlite" else services.need("redis")["url"]
    return ("--frontier", url, "--job", f"versions-{os.getpid()}-{re.sub(r'[^a-z]+', '-', request.node.name)[:60]}")


@pytest.fixture
def other(tmp_path):
    """The environment of a program that differs."""

    def make(*, version: str = "9.9.9", format_change: int = 0) -> dict[str, str]:
        home = tmp_path / "other"
        shutil.copytree(Path(package.__file__).parent, home / "skitter")
        (home / "skitter" / "_version.py").write_text(f'__version__ = "{version}"\n')
        for name in ("sqlite/store.py", "redis/codec.py"):
            file = home / "skitter" / "frontier" / name
            text, changed = re.subn(
                r"(?m)^(FORMAT = )(\d+)$",
                lambda found: f"{found[1]}{int(found[2]) + format_change}",
                file.read_text(),
            )
            assert changed == 1, name
            file.write_text(text)
        return os.environ | {"PYTHONPATH": str(home)}

    return make


def urls_of(skitter) -> Counter[str]:
    return Counter(record["url"] for record in skitter.lines("out.jsonl"))


def test_two_versions_with_one_format_complete_a_job_together_and_say_so(skitter, place, other, until) -> None:
    newer = other()
    assert skitter.run("--version", env=newer).stdout == "skitter 9.9.9\n"
    with served(SLOW) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "-q", "--fresh", "--delay", 0.05, *place)
        until(lambda: (skitter.folder / "out.jsonl").exists() and skitter.lines("out.jsonl"), crawl)
        skitter.run("pause", *place)
        joined = skitter.start("worker", *place, env=newer)
        while "job.other_version" not in (line := joined.stderr.readline()):
            assert line, "it says nothing of another version"
        skitter.run("resume", *place)
        _, error = crawl.communicate(timeout=HANG_SECONDS)
        joined.communicate(timeout=HANG_SECONDS)
        expected = web.expected()
    assert crawl.returncode == 0, error
    assert joined.returncode == 0
    assert f"this is skitter 9.9.9, but the job was started by {package.__version__}" in line
    assert sum(urls_of(skitter).values()) == len(urls_of(skitter)) == len(expected.done)
    skitter.run("drop", *place)


@pytest.mark.parametrize(("change", "theirs", "ours"), [(1, "an older", "a newer"), (-1, "a newer", "an older")])
def test_another_format_is_refused_in_both_directions_and_left_alone(
    skitter, place, other, change, theirs, ours
) -> None:
    environment = other(format_change=change)
    with served(SMALL) as web:
        crawl = ("crawl", web.urls[0], "-q", *place)
        skitter.run(*crawl, "-o", "out.jsonl", "--fresh")
        before = skitter.json("status", *place)
        for command in (crawl, (*crawl, "--fresh"), ("status", *place), ("worker", *place), ("retry", *place)):
            refused = skitter.run(*command, code=3, env=environment)
            assert f"written by {theirs} skitter" in refused.stderr, command
            assert "hint: use the skitter that wrote it" in refused.stderr
            assert "Traceback" not in refused.stderr
        assert skitter.json("status", *place)["done"] == before["done"]
        skitter.run("drop", *place)
        skitter.run(*crawl, env=environment)
        assert f"written by {ours} skitter" in skitter.run("status", *place, code=3).stderr
        skitter.run("drop", *place, env=environment)


def test_a_program_of_another_format_does_not_disturb_a_crawl_that_runs(skitter, place, other, until) -> None:
    environment = other(format_change=1)
    with served(SLOW) as web:
        command = ("crawl", *web.urls, "-o", "out.jsonl", "-q", "--delay", 0.05, *place)
        crawl = skitter.start(*command, "--fresh")
        until(lambda: (skitter.folder / "out.jsonl").exists() and skitter.lines("out.jsonl"), crawl)
        skitter.run("pause", *place)
        for joining in (("worker", *place), command):
            assert "an older skitter" in skitter.run(*joining, code=3, env=environment).stderr
        skitter.run("resume", *place)
        _, error = crawl.communicate(timeout=HANG_SECONDS)
        expected = web.expected()
    assert crawl.returncode == 0, error
    assert sum(urls_of(skitter).values()) == len(urls_of(skitter)) == len(expected.done)
    skitter.run("drop", *place)
