"""JSON lines, plain and compressed: what stands in the file, and what survives a crash."""

from __future__ import annotations

import gzip
import io
import json
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_back import records, zstd

from skitter.errors import SinkError
from skitter.model.job import SinkProgress
from skitter.sinks.compression import Gzip, Plain, Zstandard

BOTH = pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"])
PACKED = pytest.mark.parametrize("name", ["out.jsonl.gz", "out.jsonl.zst"])
PACK = {".gz": gzip.compress, ".zst": zstd.compress}


def numbers(path: Path) -> list[int]:
    return [record["n"] for record in records(path)]


def put(path: Path, text: str) -> None:
    path.write_bytes(PACK.get(path.suffix, bytes)(text.encode()))


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".jl", ".JSONL"])
def test_a_line_is_one_item_in_utf8_with_its_keys_in_order(run, tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    run(path).open().write(
        {"z": "Ünï → 日本 🕷", "a": [1, None, True], "m": {"x": 1.5}}, {"a": "two\nlines\u2028"}
    ).finish()
    lines = path.read_bytes().decode().split("\n")
    assert lines[0] == '{"z":"Ünï → 日本 🕷","a":[1,null,true],"m":{"x":1.5}}'
    assert json.loads(lines[1]) == {"a": "two\nlines\u2028"}
    assert lines[2:] == [""]


def test_what_json_lacks_has_a_form(run, tmp_path):
    path = tmp_path / "out.jsonl"
    run(path).open().write({"bytes": b"\x00\xff", "nan": float("nan"), "inf": float("inf")}).finish()
    assert json.loads(path.read_text()) == {"bytes": "AP8=", "nan": None, "inf": None}


def test_half_a_surrogate_pair_is_replaced_and_its_neighbours_stay(run, tmp_path):
    path = tmp_path / "out.jsonl"
    opened = run(path).open()
    items = opened.items([{"n": 1}, {"n": 2}])
    broken = msgspec.structs.replace(items[0], record=b"\x81\xa1t\xa5a\xed\xa0\x80b")
    opened.sink.write([broken, items[1]])
    assert path.read_text(encoding="utf-8") == '{"t":"a\ufffdb"}\n{"n":2}\n'


def test_a_record_that_is_no_item_is_named(run, tmp_path):
    opened = run(tmp_path / "out.jsonl").open()
    items = [msgspec.structs.replace(opened.items([{}])[0], record=b"\xc1")]
    with pytest.raises(SinkError, match="cannot be read: number 1"):
        opened.sink.write(items)


@BOTH
def test_what_was_written_and_not_recorded_is_cut_back(run, tmp_path, name):
    path = tmp_path / name
    first = run(path).open().write({"n": 1}, {"n": 2})
    first.write({"n": 3}, {"n": 4}, recorded=False).crash()
    assert numbers(path) == [1, 2, 3, 4]
    # More has been committed meanwhile: the batch that comes again is longer.
    first.open().write({"n": 3}, {"n": 4}, {"n": 5}).finish()
    assert numbers(path) == [1, 2, 3, 4, 5]


@BOTH
@pytest.mark.parametrize("lost", [1, 5, 12, 19])
def test_a_torn_batch_is_cut_back(run, tmp_path, name, lost):
    path = tmp_path / name
    first = run(path).open().write({"n": 1})
    first.write({"n": 2}, {"n": 3}, {"n": 4}, recorded=False).crash()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - lost)
    first.open().write({"n": 2}, {"n": 3}, {"n": 4}).finish()
    assert numbers(path) == [1, 2, 3, 4]


@BOTH
def test_zeros_that_a_power_cut_leaves_are_cut_back(run, tmp_path, name):
    path = tmp_path / name
    first = run(path).open().write({"n": 1}).crash()
    with path.open("ab") as file:
        file.write(bytes(100))
    first.open().write({"n": 2}).finish()
    assert numbers(path) == [1, 2]


@BOTH
def test_lines_that_another_job_has_appended_meanwhile_stay(run, tmp_path, name):
    path = tmp_path / name
    unfinished = run(path).open().write({"n": 1}).crash()
    run(path, job="other").open().write({"n": 100}, {"n": 101}, {"n": 102}).finish()
    unfinished.open().write({"n": 2}).finish()
    assert numbers(path) == [1, 100, 101, 102, 2]


@BOTH
def test_a_finished_target_that_is_reopened_goes_on_after_what_is_there(run, tmp_path, name):
    path = tmp_path / name
    done = run(path, overwrite=True).open().write({"n": 1}).finish()
    run(path, job="other").open().write({"n": 2}).finish()
    done.open().write({"n": 3}).finish()
    assert numbers(path) == [1, 2, 3]


@BOTH
def test_a_finished_target_that_was_taken_away_starts_anew(run, tmp_path, name):
    path = tmp_path / name
    done = run(path).open().write({"n": 1}).finish()
    path.unlink()
    done.open().write({"n": 2}).finish()
    assert numbers(path) == [2]


@BOTH
def test_o_appends_and_capital_o_overwrites_only_in_a_new_run(run, tmp_path, name):
    path = tmp_path / name
    run(path).open().write({"n": 1}).finish()
    run(path).open().write({"n": 2}).finish()
    assert numbers(path) == [1, 2]
    new = run(path, overwrite=True).open().write({"n": 3}).crash()
    assert numbers(path) == [3]
    new.open().write({"n": 4}).finish()
    assert numbers(path) == [3, 4]


@BOTH
def test_an_existing_last_line_is_ended_first(run, tmp_path, name):
    path = tmp_path / name
    put(path, '{"n":1}\n{"n":2}')
    run(path).open().write({"n": 3}).finish()
    assert numbers(path) == [1, 2, 3]


@BOTH
def test_no_item_makes_an_empty_file(run, tmp_path, name):
    run(tmp_path / name).open().finish()
    assert (tmp_path / name).read_bytes() == b""


@BOTH
def test_a_file_cut_by_somebody_is_said(run, tmp_path, name):
    path = tmp_path / name
    first = run(path).open().write({"n": 1}, {"n": 2}).crash()
    with path.open("r+b") as file:
        file.truncate(3)
    with pytest.raises(SinkError, match=rf"were truncated: .*{name}: \d+ bytes were written, 3 are left") as raised:
        first.open()
    assert "--fresh" in raised.value.hint
    assert path.stat().st_size == 3


@BOTH
def test_a_file_that_vanished_is_said_and_not_made_anew(run, tmp_path, name):
    path = tmp_path / name
    first = run(path).open().write({"n": 1}).crash()
    path.unlink()
    with pytest.raises(SinkError, match="are missing") as raised:
        first.open()
    assert "restore the file" in raised.value.hint
    assert not path.exists()


def test_a_mark_of_another_version_is_said(run, tmp_path):
    path = tmp_path / "out.jsonl"
    first = run(path).open().write({"n": 1}).crash()
    first.progress = SinkProgress(1, b"2 whatever")
    with pytest.raises(SinkError, match="another version of skitter"):
        first.open()


@pytest.mark.parametrize(("name", "unpack"), [("out.jsonl.gz", gzip.decompress), ("out.jsonl.zst", zstd.decompress)])
def test_a_packed_file_holds_one_piece_for_each_batch_and_all_are_read_as_one(run, tmp_path, name, unpack):
    path = tmp_path / name
    opened = run(path).open()
    lengths = [0]
    for n in range(5):
        opened.write({"n": 2 * n}, {"n": 2 * n + 1})
        lengths.append(path.stat().st_size)
    data = path.read_bytes()
    pieces = [unpack(data[a:b]) for a, b in pairwise(lengths)]
    assert pieces == [b'{"n":%d}\n{"n":%d}\n' % (2 * n, 2 * n + 1) for n in range(5)]
    assert numbers(path) == list(range(10))


@PACKED
def test_a_packed_tail_larger_than_a_chunk_is_read_back(run, tmp_path, name):
    path = tmp_path / name
    large = [{"n": n, "text": "many words, easily packed " * 20_000} for n in range(6)]
    first = run(path).open().write({"n": -1})
    first.write(*large, recorded=False).crash()
    first.open().write(*large).finish()
    assert numbers(path) == [-1, *range(6)]


@PACKED
@pytest.mark.parametrize("how", ["plain", "cut", "tail"])
def test_nothing_is_appended_to_a_packed_file_that_is_not_complete(run, tmp_path, name, how):
    path = tmp_path / name
    pack = PACK[path.suffix]
    content = {"plain": b"plain text\n", "cut": pack(b"{}\n" * 50)[:-6], "tail": pack(b"{}\n") + b"x"}[how]
    path.write_bytes(content)
    with pytest.raises(SinkError, match=r"not a complete (gzip|Zstandard) file") as raised:
        run(path).open()
    assert "-O" in raised.value.hint
    assert path.read_bytes() == content
    run(path, overwrite=True).open().write({"n": 1}).finish()
    assert numbers(path) == [1]


def test_gz_of_the_same_lines_is_the_same():
    assert Gzip().pack(b"{}\n") == Gzip().pack(b"{}\n")


@given(st.lists(st.binary(max_size=300)), st.integers(1, 50))
@pytest.mark.parametrize("compression", [Plain, Gzip, Zstandard])
def test_what_is_packed_in_pieces_is_read_as_one_however_it_comes(compression, pieces, size):
    packed = b"".join(map(compression().pack, pieces))
    chunks = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert b"".join(compression().unpack(chunks)) == b"".join(pieces)
    with io.BytesIO() as out:
        with compression().packed(out) as file:
            for piece in pieces:
                file.write(piece)
        assert b"".join(compression().unpack([out.getvalue()])) == b"".join(pieces)


@pytest.mark.parametrize("compression", [Gzip, Zstandard])
def test_a_bomb_is_unpacked_in_bounded_pieces(compression):
    packed = compression().pack(bytes(64 << 20))
    assert max(map(len, compression().unpack([packed]))) <= 1 << 20
