"""Targets: which are taken, which are refused and how, and that a file has one owner."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from skitter.errors import MissingFolderError, SinkError, UsageError
from skitter.sinks.contract import Sink
from skitter.sinks.file_targets import SUFFIXES, file_sink

NAMES = [
    "out.jsonl",
    "out.jsonl.gz",
    "out.jsonl.zst",
    "out.json",
    "out.csv",
    "out.csv.gz",
    "out.json.zst",
    "out.parquet",
]
FORMATS = pytest.mark.parametrize("name", NAMES)

_HOLD = """
import sys
from skitter.model.job import SinkProgress
from skitter.sinks.file_targets import file_sink
sink = file_sink(sys.argv[1], overwrite=False, job="books")
sink.take()
sink.open(SinkProgress())
print("open", flush=True)
sys.stdin.read()
"""

_AS_NOBODY = """
import os, sys
from skitter.errors import SinkError
from skitter.sinks.file_targets import file_sink
sink = file_sink(sys.argv[1], overwrite=False)
if os.geteuid() == 0:  # who may write everywhere
    os.setuid(65534)
try:
    sink.take()
except SinkError as error:
    print(error, "|", error.hint)
"""


@pytest.mark.parametrize(
    "target", ["out.xml", "out", "", "out.gz", "out.csv.bz2", "out.parquet.gz", "s3://bucket/x", "jsonl"]
)
def test_an_unknown_suffix_is_a_usage_error_that_lists_the_known(target):
    with pytest.raises(UsageError) as raised:
        file_sink(target, overwrite=False)
    assert all(part in raised.value.hint for suffix in SUFFIXES for part in suffix.split(".")[1:])


def test_every_suffix_has_a_sink_that_says_whether_it_is_exact():
    sinks: list[Sink] = [file_sink(f"a{suffix}", overwrite=False) for suffix in SUFFIXES]
    assert all(sink.exact for sink in sinks)
    assert not file_sink("-", overwrite=False).exact


def test_one_place_has_one_name():
    assert {file_sink(name, overwrite=False).target for name in ("a.csv", "./a.csv", "x/../a.csv")} == {"a.csv"}


@FORMATS
def test_one_missing_folder_below_the_working_directory_is_made(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for folder in ("new", "new/er", tmp_path / "full"):
        run(f"{folder}/{name}").open().write({"n": 1}).finish()
        assert Path(folder, name).stat().st_size > 0


@FORMATS
def test_any_other_missing_folder_is_named_and_not_made(run, tmp_path, monkeypatch, name):
    here, volume = tmp_path / "here", tmp_path / "volume"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "mounted").symlink_to(volume)
    for folder, missing in (
        ("new/er", "new"),
        (f"{here}/new/er", "new"),
        (volume, volume),
        (volume / "more", volume),
        ("../volume", volume),
        ("mounted", volume),
    ):
        with pytest.raises(MissingFolderError, match=f"does not exist: {missing}\nhint: ") as raised:
            run(f"{folder}/{name}").open()
        assert raised.value.exit_code == 2
        assert [path.name for path in tmp_path.rglob("*")] == ["here", "mounted"]
    volume.mkdir()
    run(f"mounted/{name}").open().write({"n": 1}).finish()
    assert (volume / name).stat().st_size > 0


@FORMATS
def test_nothing_is_touched_before_open(run, tmp_path, name):
    file_sink(str(tmp_path / "new" / name), overwrite=True)
    assert list(tmp_path.iterdir()) == []


@FORMATS
def test_a_folder_is_no_target(run, tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(SinkError, match="not a regular file"):
        run(tmp_path / name).open()


@FORMATS
def test_a_pipe_is_no_target(run, tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(SinkError, match="not a regular file"):
        run(tmp_path / name).open()


@FORMATS
def test_a_file_is_no_folder(run, tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot write results") as raised:
        run(tmp_path / "file" / name).open()
    assert "folder" in raised.value.hint


@FORMATS
def test_a_name_that_is_too_long_is_said(run, tmp_path, name):
    with pytest.raises(SinkError, match="name too long"):
        run(tmp_path / ("x" * 300 + name)).open()


@FORMATS
@pytest.mark.parametrize("shut", ["folder", "file"])
def test_what_may_not_be_written_is_said_at_open(name, shut):
    # Not in pytest's folder, which only its owner may enter: the child is somebody else.
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if shut == "file":
            (folder / name).write_bytes(b"")
            (folder / name).chmod(0o444)
        folder.chmod(0o555 if shut == "folder" else 0o777)
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, name], cwd=folder, capture_output=True, text=True, check=True
        )
        folder.chmod(0o755)
        assert [path.name for path in folder.iterdir()] == ([name] if shut == "file" else [])
    assert done.stdout == (
        f"cannot write results: {name}: Permission denied | choose a file in a folder that you may write to\n"
    )


@FORMATS
def test_a_target_belongs_to_one_process(run, tmp_path, name):
    path = tmp_path / name
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "open\n"
        for overwrite in (False, True):
            with pytest.raises(SinkError, match="in use by another process") as raised:
                run(path, overwrite=overwrite).open()
            assert "another file" in raised.value.hint
        holder.kill()
    run(path).open().write({"n": 1}).finish()
    assert path.stat().st_size > 0


@FORMATS
def test_a_target_named_twice_is_refused(run, tmp_path, name):
    run(tmp_path / name).open()
    with pytest.raises(SinkError, match="in use"):
        run(tmp_path / name).open()


@FORMATS
def test_a_refused_target_is_let_go(run, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\xff")
    if name != "out.jsonl":
        with pytest.raises(SinkError):
            run(path).open()
    run(path, overwrite=True).open().write({"n": 1}).finish()


class TestStdout:
    def test_lines_go_out_with_each_batch(self, run, capfd):
        opened = run("-").open().write({"n": 1}, {"t": "ü"})
        assert capfd.readouterr().out == '{"n":1}\n{"t":"ü"}\n'
        opened.write({"n": 2}).finish()
        assert capfd.readouterr().out == '{"n":2}\n'
        assert opened.progress.mark

    def test_an_object_that_only_looks_like_a_file_is_written_too(self, run, monkeypatch):
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        run("-").open().write({"t": "ü"})
        assert sys.stdout.getvalue() == '{"t":"ü"}\n'

    def test_a_reader_that_went_is_said(self, run, monkeypatch):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            monkeypatch.setattr(sys, "stdout", pipe)
            with pytest.raises(SinkError, match="standard output was closed") as raised:
                run("-").open().write({"n": 1})
            monkeypatch.undo()
        assert "nothing is lost" in raised.value.hint

    def test_a_pipe_that_does_not_block_gets_everything(self, run, monkeypatch):
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        records = [{"n": n, "text": "x" * 1000} for n in range(1000)]
        reader = subprocess.Popen(["wc", "-l"], stdin=reading, stdout=subprocess.PIPE, text=True)
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            monkeypatch.setattr(sys, "stdout", pipe)
            run("-").open().write(*records)
            monkeypatch.undo()
        assert reader.communicate()[0].strip() == "1000"
