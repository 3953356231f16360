"""Text that came from the web does nothing to a terminal."""

from __future__ import annotations

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.cli import terminal_text

ANYTHING = st.text(alphabet=st.characters(codec=None, categories=None))


@given(ANYTHING)
def test_a_clean_line_has_no_control_characters(value: str) -> None:
    cleaned = terminal_text.clean(value)
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in cleaned)
    assert cleaned.isprintable() or not cleaned.isascii()


@given(ANYTHING)
def test_a_clean_block_has_only_line_breaks(value: str) -> None:
    assert not any(
        unicodedata.category(character) == "Cc" for character in terminal_text.clean_block(value).replace("\n", "")
    )


@given(st.text())
def test_clean_json_means_the_same(value: str) -> None:
    encoded = terminal_text.clean_json(msgspec.json.encode({"x": value}).decode())
    assert json.loads(encoded) == {"x": value}
    assert not any(unicodedata.category(character) == "Cc" for character in encoded)


@pytest.mark.parametrize(
    "dangerous", ["\x1b]0;title\x07", "\x9b31m", "\u202egnp.exe", "a\r\nb", "\u2066x", "tab\there", "\x00", "\ud800"]
)
def test_known_tricks_are_defused(dangerous: str) -> None:
    assert not set(terminal_text.clean(dangerous)) & set("\x1b\x07\x9b\u202e\r\n\u2066\t\x00\ud800")


@given(st.text(), st.integers(0, 40))
def test_shortened_text_fits(value: str, width: int) -> None:
    short = terminal_text.shorten(value, width)
    assert len(short) <= width
    assert short == value or len(value) > width


@given(st.integers(0, 10**15))
def test_a_figure_never_outgrows_its_cell(value: int) -> None:
    assert len(terminal_text.figure(value)) <= 7


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (terminal_text.size(0), "0 B"),
        (terminal_text.size(999), "999 B"),
        (terminal_text.size(1000), "1.0 kB"),
        (terminal_text.size(999_999), "1.0 MB"),
        (terminal_text.size(2.5e12), "2.5 TB"),
        (terminal_text.clock(3725), "1:02:05"),
        (terminal_text.clock(float("inf")), "?"),
        (terminal_text.duration(float("nan")), "?"),
        (terminal_text.clock(2 * 86_400 + 61), "2 d 0:01:01"),
        (terminal_text.duration(0.12), "120 ms"),
        (terminal_text.duration(0.9999), "1.0 s"),
        (terminal_text.duration(125), "0:02:05"),
        (terminal_text.count(1, "page"), "1 page"),
        (terminal_text.count(0, "page"), "0 pages"),
        (terminal_text.count(1200, "page"), "1,200 pages"),
        (terminal_text.figure(999_999), "999,999"),
        (terminal_text.figure(1_234_567), "1.235 M"),
        (terminal_text.rate(12.34), "12.3"),
        (terminal_text.rate(1234.5), "1,234"),
        (terminal_text.instant(0), "1970-01-01 00:00:00 UTC"),
        (terminal_text.first_line("one\ntwo"), "one"),
        (terminal_text.first_line("Traceback (most recent call last):\n  x\nValueError: y\n"), "ValueError: y"),
        (terminal_text.first_line(""), ""),
    ],
)
def test_figures_for_people(shown: str, expected: str) -> None:
    assert shown == expected
