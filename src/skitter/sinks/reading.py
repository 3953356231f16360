"""Results that lie in a file, read back record by record: for looking at them, and for writing them elsewhere.

What a format has no form for is lost in it: bytes come back as base64 text, and all that a table of CSV holds is text.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from skitter.errors import UsageError
from skitter.sinks.csv_table import CsvTable, column_fields
from skitter.sinks.disk import mapped
from skitter.sinks.json_array import JsonArray

_decode = msgspec.json.Decoder(dict[str, Any]).decode
Records = Iterator[dict[str, Any]]


def records_of(name: str) -> Records:
    """The records of a file of results, in order. UsageError for what is none."""
    path = Path(name)
    reader = _reader(name)
    if not path.is_file():
        raise UsageError(f"no such file of results: {name}", hint="give the path of a file that a crawl has written")
    with mapped(name):
        try:
            yield from reader(path)
        except (ValueError, csv.Error, EOFError, gzip.BadGzipFile) as error:
            raise UsageError(
                f"not readable as results: {name}: {error}", hint="is it whole, and of its format?"
            ) from error


def is_readable(name: str) -> bool:
    """Whether a target is a file that ``records_of`` reads, and it is there."""
    return any(name.lower().endswith(suffix) for suffix in READERS) and Path(name).is_file()


def _reader(name: str) -> Callable[[Path], Records]:
    for suffix, reader in READERS.items():
        if name.lower().endswith(suffix):
            return reader
    raise UsageError(
        f"no format for this file of results: {name}", hint=f"its name ends with one of {' '.join(READERS)}"
    )


def _plain_lines(path: Path) -> Records:
    with path.open("rb") as file:
        yield from _lines(file)


def _gzip_lines(path: Path) -> Records:
    with gzip.open(path) as file:
        yield from _lines(file)


def _lines(file: BinaryIO | gzip.GzipFile) -> Records:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield _decode(line)
            except msgspec.DecodeError as error:
                raise ValueError(f"line {number}: {error}") from error


def _json_array(path: Path) -> Records:
    yield from map(_decode, JsonArray().read(path))


def _csv_table(path: Path) -> Records:
    rows = (msgspec.json.decode(row, type=list[str]) for row in CsvTable().read(path))
    header = next(rows, None)
    if header is not None:
        names = column_fields(header)
        for row in rows:
            # An empty cell is a field that the item had not, or had empty: a table does not tell them apart.
            yield {name: cell for name, cell in zip(names, row, strict=True) if cell}


READERS: dict[str, Callable[[Path], Records]] = {
    ".jsonl": _plain_lines,
    ".ndjson": _plain_lines,
    ".jl": _plain_lines,
    ".jsonl.gz": _gzip_lines,
    ".ndjson.gz": _gzip_lines,
    ".jl.gz": _gzip_lines,
    ".json": _json_array,
    ".csv": _csv_table,
}
