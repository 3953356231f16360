"""Which characters never reach a terminal, derived from Unicode itself."""

from __future__ import annotations

import json
import sys
import unicodedata

from skitter.model.control_characters import visible, visible_json

DRAWN = {
    *range(0x600, 0x606),
    *(0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD),
}
"""Signs of category Cf that are drawn around or above the digits and letters that follow them."""
IGNORABLE = {
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0000, 0xE1000),
}
"""Default ignorable code points (DerivedCoreProperties.txt), whatever their category."""
EVERYTHING = range(sys.maxunicode + 1)
HIDDEN = {
    code for code in EVERYTHING if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
} - DRAWN | IGNORABLE


def test_no_character_that_is_obeyed_or_hidden_is_shown() -> None:
    assert {0x1B, 0x9B, 0xAD, 0x180E, 0x202E, 0x2066, 0xFEFF, 0xE0041, 0x1D173} <= HIDDEN
    assert [hex(code) for code in HIDDEN if visible(f"a{chr(code)}b") != "ab"] == []


def test_every_character_that_is_drawn_is_shown() -> None:
    drawn = "".join(chr(code) for code in EVERYTHING if code in DRAWN or unicodedata.category(chr(code))[0] in "LNPSM")
    gone = set(drawn) - set(visible(drawn))
    assert {ord(character) for character in gone} <= IGNORABLE
    assert (
        visible("Grüße, 你好, שלום, مرحبا, e\u0301, ①, \U0001f600")
        == "Grüße, 你好, שלום, مرحبا, e\u0301, ①, \U0001f600"
    )


def test_json_for_a_terminal_means_the_same_and_holds_none_of_them() -> None:
    value = {"text": "".join(chr(code) for code in sorted(HIDDEN) if not 0xD800 <= code < 0xE000) + "é😀"}
    shown = visible_json(json.dumps(value, ensure_ascii=False) + "\n")
    assert json.loads(shown) == value
    assert {ord(character) for character in shown} & HIDDEN == {0x0A}
    assert shown.endswith('é😀"}\n')
    assert visible_json('"\U000e0041\xad\u180e"') == '"\\udb40\\udc41\\u00ad\\u180e"'
