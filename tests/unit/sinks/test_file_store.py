"""Where files of a crawl are stored, and what a killed process has left there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from skitter.errors import SinkError
from skitter.sinks.file_store import PARTIAL, open_file_store

PNG = b"\x89PNG\r\n\x1a\n" + b"p" * 500


@pytest.mark.parametrize("target", ["s3:///x", "s3://bucket/x?format=jsonl"])
def test_what_is_no_place_for_files_is_an_error(target: str) -> None:
    with pytest.raises(SinkError, match=r"not a location for files|target") as caught:
        open_file_store(target)
    assert caught.value.hint


def test_a_file_that_a_killed_process_left_half_is_completed(tmp_path: Path) -> None:
    checksum = hashlib.sha256(PNG).hexdigest()
    name = f"{checksum[:2]}/{checksum}.png"
    half = tmp_path / PARTIAL / Path(name).name
    half.parent.mkdir()
    half.write_bytes(PNG[:7] + bytes(1000))
    open_file_store(str(tmp_path)).put(name, PNG, "image/png")
    assert (tmp_path / name).read_bytes() == PNG
    assert not half.exists()
