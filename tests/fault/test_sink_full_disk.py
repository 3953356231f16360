"""A full disk under a sink: the error says so, the target is as it was, and the run goes on when there is room."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from read_back import records

from rig.processes import HANG_SECONDS
from skitter.errors import SinkError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.model.url import canonical
from skitter.testing.outputs import file_sink
from skitter.testing.web import WebSpec, served

FORMATS = pytest.mark.parametrize(
    "name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out.json", "out.csv", "out.csv.gz", "out.parquet"]
)
SIZE_BYTES = 256 * 1024

_LIMITED = """
import random, resource, signal, sys
import msgspec
from skitter.errors import SinkError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.testing.outputs import file_sink

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sink = file_sink(sys.argv[1], overwrite=False)
sink.take()
mark = sink.open(SinkProgress())
chance = random.Random(1)
written = 0
try:
    for written in range(100):
        mark = sink.write([Item(written + 1, 1, 0, msgspec.msgpack.encode({"t": chance.randbytes(9000).hex()}))])
except SinkError as error:
    print(written, mark.decode(), error, error.hint, sep="|")
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def item(position: int) -> Item:
    # Random enough for gzip to need room too.
    return Item(position, position, 0, msgspec.msgpack.encode({"n": position, "t": str(hash((position, "x")) ** 40)}))


@FORMATS
def test_a_full_disk_is_said_and_nothing_is_lost(small_disk, name):
    target = small_disk / name
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(SIZE_BYTES * 3 // 4))
    sink = file_sink(str(target), overwrite=False)
    sink.take()
    progress = SinkProgress(0, sink.open(SinkProgress()))
    held = target if name.startswith("out.jsonl") else small_disk / f".{name}.spool.jsonl"
    error = None
    while error is None:
        first, committed = progress.position + 1, held.read_bytes()
        try:
            progress = SinkProgress(first + 9, sink.write([item(n) for n in range(first, first + 10)]))
        except SinkError as raised:
            error = raised
    assert "the disk is full" in str(error)
    assert "nothing is lost" in error.hint
    assert progress.position >= 10
    assert held.read_bytes() == committed, "the part of the batch that found room is gone"

    sink.close()
    ballast.unlink()
    again = file_sink(str(target), overwrite=False)
    again.take()
    again.open(progress)
    again.write([item(n) for n in range(progress.position + 1, progress.position + 11)])
    if held != target:
        # There is room for the spool or its rendering, not for both: completing fails, and can be repeated.
        ballast.write_bytes(bytes(SIZE_BYTES - sum(path.stat().st_size for path in small_disk.iterdir()) - 20_000))
        with pytest.raises(SinkError, match="the disk is full"):
            again.finish()
        assert not target.exists()
        ballast.unlink()
    again.finish()
    again.close(complete=True)
    assert [int(record["n"]) for record in records(target)] == list(range(1, progress.position + 11))
    assert [path.name for path in small_disk.iterdir()] == [name]


@FORMATS
def test_a_file_that_may_not_grow_is_said_and_cut_back(tmp_path, name):
    target = tmp_path / name
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(target)], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    written, mark, message, hint = done.stdout.strip().split("|")
    assert int(written) > 0
    assert message == f"cannot write results: {target}: File too large"
    assert "nothing is lost" in hint
    held = target if name.startswith("out.jsonl") else tmp_path / f".{name}.spool.jsonl"
    assert str(held.stat().st_size) in mark


def test_a_folder_of_parts_goes_on_when_there_is_room_again(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(SIZE_BYTES // 2))
    (small_disk / "parts").mkdir()
    target = f"{small_disk}/parts/{{part}}.jsonl?part_bytes=20000"
    sink = file_sink(target, overwrite=False)
    sink.take()
    progress = SinkProgress(0, sink.open(SinkProgress()))
    error = None
    while error is None:
        first = progress.position + 1
        try:
            progress = SinkProgress(first + 9, sink.write([item(n) for n in range(first, first + 10)]))
        except SinkError as raised:
            error = raised
    assert "the disk is full" in str(error)
    sink.close()
    there = [record["n"] for path in sorted((small_disk / "parts").glob("0*")) for record in records(path)]
    assert there == list(range(1, len(there) + 1)), "what can be seen is whole"
    assert there

    ballast.unlink()
    again = file_sink(target, overwrite=False)
    again.take()
    again.open(progress)
    again.write([item(n) for n in range(progress.position + 1, progress.position + 11)])
    again.finish()
    again.close(complete=True)
    there = [record["n"] for path in sorted((small_disk / "parts").iterdir()) for record in records(path)]
    assert there == list(range(1, progress.position + 11))


def test_a_crawl_whose_archive_finds_no_room_says_so_and_goes_on_later(skitter, small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(SIZE_BYTES * 9 // 10))
    with served(WebSpec.plain(hosts=2, pages_per_host=20)) as web:
        command = ("crawl", *web.urls, "-o", f"{small_disk}/pages.warc.gz", "--job", "x", "-q")
        failed = skitter.run(*command, code=3)
        assert "the disk is full" in failed.stderr
        assert "nothing is lost" in failed.stderr
        ballast.unlink()
        skitter.run(*command)
        expected = web.expected()
    with (small_disk / "pages.warc.gz").open("rb") as stream:
        kinds = WarcRecordType.response | WarcRecordType.revisit
        found = [each.headers["WARC-Target-URI"] for each in ArchiveIterator(stream, record_types=kinds)]
    assert Counter(map(canonical, found)) == Counter(expected.done)
    assert [path.name for path in small_disk.iterdir()] == ["pages.warc.gz"]
