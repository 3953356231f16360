"""What stands in a file of results, read by other programs than the one that wrote it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def content(path: Path) -> bytes:
    """Unpacked, if it is packed."""
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        return gzip.decompress(data) if data else b""
    return zstd.decompress(data) if path.name.endswith(".zst") else data


def records(path: Path) -> list[dict[str, Any]]:
    """Every record, in order. Cells of a table are text."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".json"):
        return json.loads(content(path))
    if name.endswith(".parquet"):
        return pyarrow.parquet.read_table(path).to_pylist()
    if name.endswith(".csv"):
        return list(csv.DictReader(io.StringIO(content(path).decode(), newline=""), strict=True))
    lines = content(path).decode().split("\n")
    assert lines.pop() == ""
    return [json.loads(line) for line in lines]
