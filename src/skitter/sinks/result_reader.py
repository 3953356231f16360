"""Readers of results, record by record, for preview and export: of files, and of collections in MongoDB.

What a format has no form for is lost in it: bytes come back as base64 text, and all that a table of CSV holds is text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from skitter.errors import UsageError
from skitter.server_url import scheme_of
from skitter.sinks.compression import unpacked
from skitter.sinks.csv_table import column_fields
from skitter.sinks.durable_files import sink_errors
from skitter.sinks.file_targets import SUFFIXES, format_of
from skitter.sinks.targets import parse_target

_DATABASES = ("mongodb", "mongodb+srv", "mongodb+ring")
_decode = msgspec.json.Decoder(dict[str, Any]).decode
Records = Iterator[dict[str, Any]]


def records_of(name: str, *, password: str | None = None) -> Records:
    """Iterate over the records of a result file, or of a MongoDB, which may be a ring. Raises UsageError for another.

    ``password`` is for a URL that names a user and has no password.
    """
    if is_database(name):
        from skitter.sinks.databases import mongodb_records

        yield from mongodb_records(parse_target(name, password=password))
        return
    path = Path(name)
    suffix, form, compression = format_of(name)
    if not path.is_file():
        raise UsageError(f"no such results file: {name}", hint="give the path of a file that a crawl wrote")
    read = _table if suffix == ".csv" else _objects
    with sink_errors(name), path.open("rb") as file:
        try:
            yield from read(form.read(unpacked(file, compression) if compression.suffix else file))
        except ValueError as error:
            raise UsageError(
                f"cannot be read as results: {name}: {error}",
                hint="is it complete, and does its suffix match its format?",
            ) from error


def is_database(name: str) -> bool:
    """Return whether it is the URL of a database that ``records_of`` can read."""
    return scheme_of(name)[0] in _DATABASES


def is_readable(name: str) -> bool:
    """Return whether a target is an existing file that ``records_of`` can read."""
    return name.lower().endswith(SUFFIXES) and Path(name).is_file()


def _objects(lines: Iterator[bytes]) -> Records:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _decode(line)
            except msgspec.DecodeError as error:
                raise ValueError(f"line {number}: {error}") from error


def _table(lines: Iterator[bytes]) -> Records:
    rows = (msgspec.json.decode(line, type=list[str]) for line in lines)
    header = next(rows, None)
    if header is not None:
        names = column_fields(header)
        for row in rows:
            # An empty cell is a field that the item had not, or had empty: a table does not tell them apart.
            yield {name: cell for name, cell in zip(names, row, strict=True) if cell}
