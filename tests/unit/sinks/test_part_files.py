"""Results in parts: which files appear and when, and the same after any crash."""

from __future__ import annotations

import json
import socket
import time

import pytest
from read_back import records

from skitter.errors import SinkError, UsageError
from skitter.sinks import durable_files
from skitter.sinks.file_targets import file_sink
from skitter.sinks.targets import parse_target, sink_of

NAMES = pytest.mark.parametrize(
    "name", ["{part}.jsonl", "{part}.jsonl.zst", "{part}.csv.gz", "{part}.json", "{part}.parquet"]
)


def shown(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def hidden(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def numbers(folder):
    return [int(record["n"]) for name in shown(folder) for record in records(folder / name)]


def small(folder, name="{part}.jsonl"):
    """Parts of two items of eight bytes each."""
    return f"{folder}/{name}?part_bytes=16"


@NAMES
def test_a_part_appears_complete_when_it_is_large_enough(run, tmp_path, name):
    opened = run(small(tmp_path, name)).open().write({"n": 1}).write({"n": 2})
    assert shown(tmp_path) == []
    opened.write({"n": 3})
    suffix = name.removeprefix("{part}")
    assert shown(tmp_path) == [f"000001{suffix}"]
    assert numbers(tmp_path) == [1, 2]
    opened.write({"n": 4}).write({"n": 5}).finish()
    assert shown(tmp_path) == [f"00000{n}{suffix}" for n in (1, 2, 3)]
    assert numbers(tmp_path) == [1, 2, 3, 4, 5]
    assert hidden(tmp_path) == []


def test_a_part_appears_when_it_is_old_enough_and_more_comes(run, tmp_path):
    opened = run(f"{tmp_path}/{{part}}.jsonl?part_seconds=60").open()
    now = 1_000_000.0
    opened.sink._clock = lambda: now
    opened.write({"n": 1})
    now += 59
    opened.write({"n": 2})
    assert shown(tmp_path) == []
    now += 1
    opened.write({"n": 3})
    assert numbers(tmp_path) == [1, 2]
    now += 1000
    opened.finish()
    assert shown(tmp_path) == ["000001.jsonl", "000002.jsonl"]


def test_a_name_says_job_machine_date_and_number(run, tmp_path):
    opened = run(f"{tmp_path}/{{job}}-{{worker}}-{{date}}-{{part}}.jsonl", job="bo/oks").open()
    opened.sink._clock = lambda: 1_767_225_599.0  # a second before 2026, in UTC
    opened.write({"n": 1}).finish()
    assert shown(tmp_path) == [f"bo_oks-{socket.gethostname()}-2025-12-31-000001.jsonl"]


def test_a_folder_with_a_format_has_names_of_the_job(run, tmp_path):
    (tmp_path / "new").mkdir()
    run(f"{tmp_path}/new/?format=csv.gz", job="books").open().write({"n": 1}).finish()
    assert shown(tmp_path / "new") == ["books-000001.csv.gz"]


def test_one_place_has_one_name_whichever_way_it_is_written():
    ways = ["x/?format=jsonl&part_bytes=9", "./x/{job}-{part}.jsonl?part_bytes=9"]
    assert {parse_target(way).name for way in ways} == {"x/{job}-{part}.jsonl?part_bytes=9"}
    by_table = parse_target("x/", options={"format": "jsonl", "part_bytes": "9"})
    assert by_table.name == "x/{job}-{part}.jsonl?part_bytes=9"
    again = sink_of(parse_target(by_table.name))
    assert again.target == by_table.name == sink_of(by_table).target


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("x/", "no format given for the folder"),
        ("x/?part_bytes=9", "no format given for the folder"),
        ("x/?format=xml", "unknown format"),
        ("x/{part}", "unknown format"),
        ("x/{part}.jsonl?parts=9", "no such option"),
        ("x/{part}.jsonl?part_bytes=many", "not a number"),
        ("x/{part}.jsonl?part_bytes=0", "not a number"),
        ("x/{part}.jsonl?part_seconds=-1", "not a number"),
        ("x/{part}.jsonl?nonsense", "not an output"),
        ("{date}/{part}.jsonl", "placeholders"),
        ("x/{job}.jsonl", "placeholders of an output need {part}"),
        ("{date}/pages.warc.gz", "placeholders of an output need {part}"),
    ],
)
def test_what_is_no_folder_of_parts_is_said(target, says):
    with pytest.raises(UsageError, match=says) as raised:
        file_sink(target, overwrite=False)
    assert raised.value.hint


def test_an_option_of_parts_is_refused_for_a_single_file():
    with pytest.raises(UsageError, match="this option is for folders of parts"):
        file_sink("a.jsonl", overwrite=False, options={"part_bytes": "9"})


def test_any_other_file_may_have_a_question_mark_in_its_name(run, tmp_path):
    run(tmp_path / "what?a=b.jsonl").open().write({"n": 1}).finish()
    assert shown(tmp_path) == ["what?a=b.jsonl"]


@NAMES
@pytest.mark.parametrize("recorded", range(6))
def test_a_crash_after_any_write_repeats_and_loses_nothing(run, tmp_path, name, recorded):
    opened = run(small(tmp_path, name)).open()
    for n in range(recorded):
        opened.write({"n": n})
    opened.write({"n": recorded}, recorded=False).crash()
    opened.open()
    for n in range(recorded, 7):
        opened.write({"n": n})
    opened.finish()
    assert numbers(tmp_path) == list(range(7))
    assert len(shown(tmp_path)) == 4
    assert hidden(tmp_path) == []


def test_a_part_that_was_written_and_not_recorded_is_written_again_under_its_name(run, tmp_path):
    pattern = "{date}-{part}.jsonl"
    opened = run(small(tmp_path, pattern)).open()
    opened.sink._clock = lambda: 0.0
    opened.write({"n": 1}).write({"n": 2})
    opened.write({"n": 3}, recorded=False).crash()
    assert shown(tmp_path) == ["1970-01-01-000001.jsonl"]
    # The batch that comes again may be larger; the day is another one.
    opened.open().write({"n": 3}, {"n": 4}).finish()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert shown(tmp_path) == ["1970-01-01-000001.jsonl", f"{today}-000002.jsonl"]
    assert numbers(tmp_path) == [1, 2, 3, 4]


def test_a_crawl_that_is_interrupted_shows_its_open_part_and_goes_on_with_it(run, tmp_path):
    opened = run(small(tmp_path)).open().write({"n": 1})
    opened.sink.finish()
    opened.crash()
    assert numbers(tmp_path) == [1]
    opened.open().write({"n": 2}).finish()
    assert shown(tmp_path) == ["000001.jsonl"]
    assert numbers(tmp_path) == [1, 2]


def test_a_finished_run_that_is_reopened_begins_a_new_part(run, tmp_path):
    opened = run(small(tmp_path), overwrite=True).open().write({"n": 1}).finish()
    opened.open().write({"n": 2}).finish()
    assert shown(tmp_path) == ["000001.jsonl", "000002.jsonl"]
    for path in tmp_path.iterdir():
        path.unlink()
    opened.open().write({"n": 3}).finish()
    assert shown(tmp_path) == ["000003.jsonl"], "a number is not given twice, also if the parts were taken away"


def test_o_goes_on_after_the_parts_that_are_there_and_capital_o_removes_them(run, tmp_path):
    for name in ("notes.txt", "000007.csv", "x000008.jsonl"):
        (tmp_path / name).write_text("somebody else's")
    run(small(tmp_path)).open().write({"n": 1}).finish()
    run(small(tmp_path)).open().write({"n": 2}).finish()
    assert [name for name in shown(tmp_path) if name[0] != "n"] == [
        "000001.jsonl",
        "000002.jsonl",
        "000007.csv",
        "x000008.jsonl",
    ]
    run(small(tmp_path), overwrite=True).open().write({"n": 3}).finish()
    assert shown(tmp_path) == ["000001.jsonl", "000007.csv", "notes.txt", "x000008.jsonl"]
    assert json.loads((tmp_path / "000001.jsonl").read_text()) == {"n": 3}


def test_two_jobs_share_a_folder_and_do_not_touch_each_others_parts(run, tmp_path):
    target = small(tmp_path, "{job}-{part}.jsonl")
    books, films = run(target, job="books").open(), run(target, job="films", overwrite=True).open()
    books.write({"n": 1})
    films.write({"n": 2}).finish()
    books.finish()
    assert shown(tmp_path) == ["books-000001.jsonl", "films-000001.jsonl"]


def test_no_item_makes_no_part(run, tmp_path):
    run(small(tmp_path)).open().finish()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_parts_belongs_to_one_process(run, tmp_path):
    run(small(tmp_path)).open()
    with pytest.raises(SinkError, match="in use by another process"):
        run(small(tmp_path)).open()


def test_another_jobs_unfinished_parts_are_not_taken(run, tmp_path):
    unfinished = run(small(tmp_path), job="books").open().write({"n": 1}).crash()
    with pytest.raises(SinkError, match=r"unfinished run of another job .* job books"):
        run(small(tmp_path), job="films").open()
    unfinished.open().finish()
    run(small(tmp_path), job="films").open().write({"n": 2}).finish()
    assert numbers(tmp_path) == [1, 2]


def test_a_spool_that_vanished_is_said(run, tmp_path):
    opened = run(small(tmp_path)).open().write({"n": 1}).crash()
    (spool,) = tmp_path.iterdir()
    spool.unlink()
    with pytest.raises(SinkError, match="missing or truncated"):
        opened.open()


def test_a_part_that_cannot_be_written_is_tried_again(run, tmp_path, monkeypatch):
    opened = run(small(tmp_path)).open().write({"n": 1}).write({"n": 2})

    def fail(self, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable_files.Path, "replace", fail)
        with pytest.raises(SinkError, match="the disk is full"):
            opened.write({"n": 3})
    assert shown(tmp_path) == []
    opened.write({"n": 3}).finish()
    assert numbers(tmp_path) == [1, 2, 3]


def test_a_batch_that_finds_no_room_in_the_new_part_is_tried_again(run, tmp_path, monkeypatch):
    opened = run(small(tmp_path)).open().write({"n": 1}).write({"n": 2})

    def fail(fd, data):
        if b'"n":3' in data:
            raise OSError(28, "No space left on device")
        assert fd

    with monkeypatch.context() as patch:
        real = durable_files.write_all
        patch.setattr(durable_files, "write_all", lambda fd, data: fail(fd, data) or real(fd, data))
        with pytest.raises(SinkError, match="the disk is full"):
            opened.write({"n": 3})
    # The same process tries again, and is killed before that is recorded; another one goes on.
    opened.write({"n": 3}, recorded=False).crash()
    opened.open().write({"n": 3}).write({"n": 4}).write({"n": 5}).finish()
    assert numbers(tmp_path) == [1, 2, 3, 4, 5]
    assert hidden(tmp_path) == []
