"""``.json``, ``.csv`` and ``.parquet``, packed or not: whole or not at all, and the same after any crash."""

from __future__ import annotations

import csv
import json
import os
import stat

import pytest
from read_back import records

from skitter.errors import SinkError
from skitter.sinks import durable_files

BOTH = pytest.mark.parametrize("name", ["out.json", "out.csv", "out.json.gz", "out.csv.zst", "out.parquet"])


def numbers(path):
    return [int(record["n"]) for record in records(path)]


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@BOTH
def test_the_target_appears_at_the_end_and_the_spool_goes(run, tmp_path, name):
    opened = run(tmp_path / name).open().write({"n": 1}).write({"n": 2})
    assert names(tmp_path) == [f".{name}.spool.jsonl"]
    opened.finish()
    assert names(tmp_path) == [name]
    assert numbers(tmp_path / name) == [1, 2]


@BOTH
def test_a_crash_after_a_write_repeats_nothing(run, tmp_path, name):
    first = run(tmp_path / name).open().write({"n": 1})
    first.write({"n": 2}, {"n": 3}, recorded=False).crash()
    first.open().write({"n": 2}, {"n": 3}).finish()
    assert numbers(tmp_path / name) == [1, 2, 3]


@BOTH
def test_a_crash_between_the_rename_and_its_record_repeats_nothing(run, tmp_path, name):
    first = run(tmp_path / name).open().write({"n": 1}, {"n": 2})
    first.sink.finish()
    first.crash()
    first.open().finish()
    assert numbers(tmp_path / name) == [1, 2]
    assert names(tmp_path) == [name]


@BOTH
def test_a_crash_between_the_record_and_the_end_of_the_spool_repeats_nothing(run, tmp_path, name):
    first = run(tmp_path / name).open().write({"n": 1}, {"n": 2})
    first.finish()
    spool = tmp_path / f".{name}.spool.jsonl"
    spool.write_text('{"job":"books","token":"x","skitter_spool":1}\n{"n":1}\n{"n":2}\n')
    first.open().write({"n": 3}).finish()
    assert numbers(tmp_path / name) == [1, 2, 3]


@BOTH
def test_a_crash_while_the_spool_is_begun_repeats_nothing(run, tmp_path, name):
    run(tmp_path / name).open().write({"n": 1}).finish()
    new = run(tmp_path / name)
    before = new.progress
    new.open().crash()
    new.progress = before  # the first mark was never recorded
    new.open().write({"n": 2}).finish()
    assert numbers(tmp_path / name) == [1, 2]


@BOTH
def test_o_keeps_the_rows_that_are_there_and_capital_o_does_not(run, tmp_path, name):
    path = tmp_path / name
    run(path).open().write({"n": 1}).finish()
    run(path).open().write({"n": 2, "more": "x"}).finish()
    assert numbers(path) == [1, 2]
    run(path, overwrite=True).open().write({"n": 3}).finish()
    assert numbers(path) == [3]


@BOTH
def test_the_old_file_stays_until_the_new_one_is_complete(run, tmp_path, name, monkeypatch):
    path = tmp_path / name
    run(path).open().write({"n": 1}).finish()
    old = path.read_bytes()
    new = run(path, overwrite=True).open().write({"n": 2})
    assert path.read_bytes() == old

    def fail(self, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable_files.Path, "replace", fail)
        with pytest.raises(SinkError, match="the disk is full") as raised:
            new.sink.finish()
    assert "nothing is lost" in raised.value.hint
    assert path.read_bytes() == old
    assert names(tmp_path) == [f".{name}.spool.jsonl", name]
    new.finish()
    assert numbers(path) == [2]


@BOTH
def test_a_rendered_file_keeps_its_mode_and_follows_its_link(run, tmp_path, name):
    real = tmp_path / "real" / name
    real.parent.mkdir()
    run(real).open().write({"n": 1}).finish()
    real.chmod(0o640)
    (tmp_path / name).symlink_to(real)
    run(tmp_path / name).open().write({"n": 2}).finish()
    assert numbers(real) == [1, 2]
    assert (tmp_path / name).is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@BOTH
def test_a_new_file_has_the_mode_of_the_umask(run, tmp_path, name):
    before = os.umask(0o027)
    try:
        run(tmp_path / name).open().write({"n": 1}).finish()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640


@BOTH
def test_a_spool_that_vanished_or_was_cut_is_said(run, tmp_path, name):
    spool = tmp_path / f".{name}.spool.jsonl"
    first = run(tmp_path / name).open().write({"n": 1}, {"n": 2}).crash()
    content = spool.read_bytes()
    for left in (content[:-4], b"", content.replace(b'"token":"', b'"token":"0'), None):
        spool.unlink()
        if left is not None:
            spool.write_bytes(left)
        with pytest.raises(SinkError, match="missing or truncated") as raised:
            first.open()
        assert "--fresh" in raised.value.hint
        spool.write_bytes(content)
    first.open().finish()
    assert numbers(tmp_path / name) == [1, 2]


@BOTH
def test_another_jobs_unfinished_spool_is_not_taken(run, tmp_path, name):
    unfinished = run(tmp_path / name, job="books").open().write({"n": 1}).crash()
    with pytest.raises(SinkError, match=r"unfinished run of another job .* job books"):
        run(tmp_path / name, job="films").open()
    unfinished.open().finish()
    run(tmp_path / name, job="films").open().write({"n": 2}).finish()
    assert numbers(tmp_path / name) == [1, 2]


@BOTH
def test_a_forgotten_run_of_the_same_job_leaves_nothing(run, tmp_path, name):
    run(tmp_path / name).open().write({"n": 1}).crash()
    run(tmp_path / name).open().write({"n": 2}).finish()
    assert numbers(tmp_path / name) == [2]


@BOTH
def test_no_item_makes_a_valid_file(run, tmp_path, name):
    run(tmp_path / name).open().finish()
    run(tmp_path / name).open().write({"n": 1}).finish()
    assert numbers(tmp_path / name) == [1]


@pytest.mark.parametrize("left", ["", "[]", "[]\n", "[\n]\n", " \n"])
def test_json_takes_an_empty_file_for_no_rows(run, tmp_path, left):
    (tmp_path / "out.json").write_text(left)
    run(tmp_path / "out.json").open().write({"n": 1}).finish()
    assert numbers(tmp_path / "out.json") == [1]


def test_json_is_one_array_with_an_item_a_line(run, tmp_path):
    run(tmp_path / "out.json").open().write({"b": "ü", "a": 1}, {}).finish()
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == '[\n{"b":"ü","a":1},\n{}\n]\n'
    empty = run(tmp_path / "empty.json").open()
    empty.finish()
    assert json.loads((tmp_path / "empty.json").read_bytes()) == []


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_json_of_another_program_is_kept(run, tmp_path, indent):
    path = tmp_path / "out.json"
    old = [{"n": 1, "t": "a\nb"}, {"n": 2, "big": 123456789012345678901234567890}]
    path.write_text(json.dumps(old, indent=indent))
    run(path).open().write({"n": 3}).finish()
    assert json.loads(path.read_bytes()) == [*old, {"n": 3}]


@pytest.mark.parametrize(
    "content",
    [
        '{"n": 1}',
        "[1, 2]",
        "no json",
        '[{"n": 1}',
        '[\n{"n":1},\n',
        '[\n{"n":1},\n{"n":\n]\n',
        '[\n{"n":1}\n]\n[]',
        "\xff",
    ],
)
def test_json_that_is_something_else_is_left_alone(run, tmp_path, content):
    path = tmp_path / "out.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(SinkError, match="cannot append to the existing results") as raised:
        run(path).open()
    assert "-O" in raised.value.hint
    assert path.read_text(encoding="latin-1") == content
    run(path, overwrite=True).open().write({"n": 3}).finish()
    assert numbers(path) == [3]


def test_csv_columns_are_the_union_in_the_order_first_seen(run, tmp_path):
    path = tmp_path / "out.csv"
    run(path).open().write({"b": 1, "a": "x"}, {"c": None, "b": 2}, {"a": "y", "d": True}).finish()
    assert path.read_bytes() == b"b,a,c,d\r\n1,x,,\r\n2,,,\r\n,y,,true\r\n"


def test_csv_nested_values_are_json_and_awkward_text_survives(run, tmp_path):
    path = tmp_path / "out.csv"
    record = {
        "list": [1, "ü", {"k": None}],
        "text": 'a "b", c\r\nd\re\nf;\0g',
        "float": -1.5e-7,
        "int": -3,
        "no": False,
    }
    run(path).open().write(record).finish()
    assert table(path) == [
        {"list": '[1,"ü",{"k":null}]', "text": record["text"], "float": "-1.5e-07", "int": "-3", "no": "false"}
    ]


def test_csv_appends_new_columns_and_leaves_old_cells_as_they_were(run, tmp_path):
    path = tmp_path / "out.csv"
    run(path).open().write({"=name": "=1+1", "n": -5}).finish()
    first = path.read_bytes()
    assert first == b"'=name,n\r\n'=1+1,-5\r\n"
    run(path).open().write({"n": "-6", "=name": "plain", "new": 1}).finish()
    assert path.read_bytes() == b"'=name,n,new\r\n'=1+1,-5,\r\nplain,'-6,1\r\n"


def test_csv_of_another_program_is_kept(run, tmp_path):
    path = tmp_path / "out.csv"
    path.write_bytes('\ufeffn,title,n\n1,"two\nlines",x\n\n2,=3,y\n'.encode())
    run(path).open().write({"n": 3, "big": "b" * 200_000}).finish()
    run(path).open().write({"n": 4}).finish()
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["n", "title", "n", "big"],
        ["1", "two\nlines", "x", ""],
        ["2", "=3", "y", ""],
        ["3", "", "", "b" * 200_000],
        ["4", "", "", ""],
    ]


@pytest.mark.parametrize("content", [b"a,b\n1,2,3\n", b'a,b\n"1,2\n', b"a,b\n\xff\xfe,1\n"])
def test_csv_that_is_no_table_is_left_alone(run, tmp_path, content):
    path = tmp_path / "out.csv"
    path.write_bytes(content)
    with pytest.raises(SinkError, match="cannot append to the existing results"):
        run(path).open()
    assert path.read_bytes() == content
