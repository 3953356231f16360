"""A log file is rotated by size and count, by several processes at a time, and loses no line."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rig.processes import HANG_SECONDS
from skitter.errors import UsageError
from skitter.observe.log_file import LogFile

WRITER = """
import sys
from skitter.observe.log_file import LogFile

name, who = sys.argv[1:]
with LogFile(name, max_bytes=2_000, max_files=500) as log:
    sys.stdin.readline()
    for number in range(1_500):
        log.write(f"{who} {number:06} {'x' * 20}")
"""


def written(folder: Path) -> dict[str, list[str]]:
    return {file.name: file.read_text().splitlines() for file in folder.iterdir()}


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    with LogFile(str(tmp_path / "crawl.log"), max_bytes=100, max_files=3) as log:
        for number in range(50):
            log.write(f"line {number:04}")
    files = written(tmp_path)
    assert sorted(files) == ["crawl.log", "crawl.log.1", "crawl.log.2", "crawl.log.3"]
    assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())
    lines = [line for name in sorted(files, reverse=True) for line in files[name]]
    assert lines == [f"line {number:04}" for number in range(50 - len(lines), 50)]
    assert stat.S_IMODE((tmp_path / "crawl.log").stat().st_mode) == 0o600


def test_a_line_that_is_too_long_has_a_file_of_its_own(tmp_path: Path) -> None:
    with LogFile(str(tmp_path / "a"), max_bytes=10, max_files=9) as log:
        for line in ("short", "x" * 50, "short"):
            log.write(line)
    assert written(tmp_path) == {"a": ["short"], "a.1": ["x" * 50], "a.2": ["short"]}


def test_a_file_without_a_limit_grows_and_goes_on(tmp_path: Path) -> None:
    name = str(tmp_path / "a")
    for text in ("é", "\ud800"):
        with LogFile(name) as log:
            log.write(text)
        log.write("closed")
    assert written(tmp_path) == {"a": ["é", "\\ud800"]}


def test_a_file_that_was_moved_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with LogFile(str(path), max_bytes=1000) as log:
        log.write("1")
        path.rename(tmp_path / "moved")
        log.write("2")
    assert written(tmp_path) == {"moved": ["1"], "a": ["2"]}


def test_what_cannot_be_renamed_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "a.1").mkdir()
    with LogFile(str(tmp_path / "a"), max_bytes=4, max_files=1) as log:
        log.write("one")
        log.write("two")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


def test_a_link_is_followed(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "link").symlink_to(logs / "a")
    with LogFile(str(tmp_path / "link"), max_bytes=4) as log:
        log.write("one")
        log.write("two")
    assert written(logs) == {"a": ["two"], "a.1": ["one"]}


def test_a_folder_is_no_log_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        LogFile(str(tmp_path))


def test_several_processes_write_one_file_and_lose_no_line(tmp_path: Path) -> None:
    name = tmp_path / "crawl.log"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(name), str(who)], stdin=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        for who in range(3)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.wait(HANG_SECONDS) for writer in writers] == [0, 0, 0]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    files = written(tmp_path)
    assert len(files) > 1, "it was rotated"
    lines = sorted(line for lines in files.values() for line in lines)
    assert lines == sorted(f"{who} {number:06} {'x' * 20}" for who in range(3) for number in range(1_500))
