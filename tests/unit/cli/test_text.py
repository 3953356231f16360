"""Text that came from the web does nothing to a terminal."""

from __future__ import annotations

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.cli import text

ANYTHING = st.text(alphabet=st.characters(codec=None, categories=None))


@given(ANYTHING)
def test_a_clean_line_has_no_control_characters(value: str) -> None:
    cleaned = text.clean(value)
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in cleaned)
    assert cleaned.isprintable() or not cleaned.isascii()


@given(ANYTHING)
def test_a_clean_block_has_only_line_breaks(value: str) -> None:
    assert not any(unicodedata.category(character) == "Cc" for character in text.clean_block(value).replace("\n", ""))


@given(st.text())
def test_clean_json_means_the_same(value: str) -> None:
    encoded = text.clean_json(msgspec.json.encode({"x": value}).decode())
    assert json.loads(encoded) == {"x": value}
    assert not any(unicodedata.category(character) == "Cc" for character in encoded)


@pytest.mark.parametrize(
    "dangerous", ["\x1b]0;title\x07", "\x9b31m", "\u202egnp.exe", "a\r\nb", "\u2066x", "tab\there", "\x00", "\ud800"]
)
def test_known_tricks_are_defused(dangerous: str) -> None:
    assert not set(text.clean(dangerous)) & set("\x1b\x07\x9b\u202e\r\n\u2066\t\x00\ud800")


@given(st.text(), st.integers(0, 40))
def test_shortened_text_fits(value: str, width: int) -> None:
    short = text.shorten(value, width)
    assert len(short) <= width
    assert short == value or len(value) > width


@given(st.integers(0, 10**15))
def test_a_figure_never_outgrows_its_cell(value: int) -> None:
    assert len(text.figure(value)) <= 7


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (text.size(0), "0 B"),
        (text.size(999), "999 B"),
        (text.size(1000), "1.0 kB"),
        (text.size(999_999), "1.0 MB"),
        (text.size(2.5e12), "2.5 TB"),
        (text.clock(3725), "1:02:05"),
        (text.clock(2 * 86_400 + 61), "2 d 0:01:01"),
        (text.duration(0.12), "120 ms"),
        (text.duration(0.9999), "1.0 s"),
        (text.duration(125), "0:02:05"),
        (text.count(1, "page"), "1 page"),
        (text.count(0, "page"), "0 pages"),
        (text.count(1200, "page"), "1,200 pages"),
        (text.figure(999_999), "999,999"),
        (text.figure(1_234_567), "1.235 M"),
        (text.rate(12.34), "12.3"),
        (text.rate(1234.5), "1,234"),
        (text.instant(0), "1970-01-01 00:00:00 UTC"),
        (text.first_line("one\ntwo"), "one"),
        (text.first_line("Traceback (most recent call last):\n  x\nValueError: y\n"), "ValueError: y"),
        (text.first_line(""), ""),
    ],
)
def test_figures_for_people(shown: str, expected: str) -> None:
    assert shown == expected
