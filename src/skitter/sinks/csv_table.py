"""The ``.csv`` file format: its columns are the union of all fields, in the order they were first seen.

Texts that a spreadsheet would run as a formula get an apostrophe in front; numbers that are
numbers stay. Lists and objects are cells of JSON text. Lines end as RFC 4180 has it, which also
makes the csv module quote a lone carriage return (before Python 3.13 it only quotes what ends a line).

In the spool, items are objects. Rows that the target had before are lists, the header first, and
are written again unchanged: reading them as text and escaping that would turn -5 into '-5.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

_ENCODER = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(dict[str, Any] | list[str]).decode
_BIGGEST_CELL_BYTES = (1 << 31) - 1

# Spreadsheets skip white space, invisible characters and quotes before they look for a formula, and
# some take the full-width forms of the four characters for the characters.
_FORMULA = re.compile(r'[\t\r\n]|[\s\x00-\x20\u200b-\u200f\u2060\ufeff"]*[=+\-@\uff1d\uff0b\uff0d\uff20]')


class CsvTable:
    """The file format of a ``.csv`` target."""

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        csv.field_size_limit(_BIGGEST_CELL_BYTES)  # of the whole process; its default is 128 KB
        try:
            with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                rows = csv.reader(text, strict=True)
                header = next((row for row in rows if row), [])
                if header:
                    yield _ENCODER.encode(header) + b"\n"
                for row in rows:
                    if row and len(row) != len(header):
                        raise ValueError(f"line {rows.line_num} has {len(row)} cells, the first {len(header)}")
                    if row:
                        yield _ENCODER.encode(row) + b"\n"
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"it is not a table: {error}") from error

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        columns, index_of, old = _columns(map(_decode, lines()))
        if not columns:
            return
        text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=False)
        writer = csv.writer(text)
        writer.writerow(columns)
        for number, row in enumerate(map(_decode, lines())):
            if isinstance(row, dict):
                cells: list[Any] = [""] * len(columns)
                for name, value in row.items():
                    cells[index_of[name]] = cell(value)
                writer.writerow(cells)
            elif number:  # the first one is the header
                writer.writerow(row + [""] * (len(columns) - old))
        text.flush()
        text.detach()


def _columns(rows: Iterator[dict[str, Any] | list[str]]) -> tuple[list[str], dict[str, int], int]:
    """Return the header's cells, the column index of each field, and the number of columns that existed before."""
    columns: list[str] = []
    index_of: dict[str, int] = {}
    old = 0
    for row in rows:
        if isinstance(row, list):
            if not old:
                columns, old = row, len(row)
                # From the right, so that of two columns with one name the first is used.
                index_of = {_field(name): number for number, name in reversed(list(enumerate(row)))}
        elif not row.keys() <= index_of.keys():
            for name in row:
                if name not in index_of:
                    index_of[name] = len(columns)
                    columns.append(escape_formula(name))
    return columns, index_of, old


def cell(value: Any) -> str | int | float:
    """Convert a value for the csv module."""
    if isinstance(value, str):
        return escape_formula(value)
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return _ENCODER.encode(value).decode()


def escape_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula."""
    return "'" + text if _FORMULA.match(text) else text


def _field(column: str) -> str:
    """Return the field that was written under this column name."""
    return column[1:] if column[:1] == "'" and escape_formula(column[1:]) == column else column


def column_fields(header: list[str]) -> list[str]:
    """Return the fields that the columns of a table were written from."""
    return [_field(column) for column in header]
