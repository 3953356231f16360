"""What a bench writes stands between its marks, and nothing else on the page changes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import report


def test_a_section_replaces_the_one_of_its_name(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Top\n\n<!-- begin one -->\n<!-- end one -->\n\nkept\n")
    for text in ("first", r"second \1"):
        report.write_section("one", "make", text, page)
    written = page.read_text()
    assert written.startswith("# Top\n\n<!-- begin one -->\n\nsecond \\1\n\nMade by `make` (")
    assert written.endswith(".\n\n<!-- end one -->\n\nkept\n")


def test_a_section_that_is_not_there_yet_comes_last(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Top\n")
    report.write_section("one", "make", "text", page)
    assert page.read_text().startswith("# Top\n\n<!-- begin one -->\n\ntext\n")


def test_a_column_of_words_stands_to_the_left() -> None:
    assert report.table([{"who": "one", "value": 1}]) == "| who | value |\n| --- | --: |\n| one | 1 |"
    assert report.table([{"workers": 1, "value": 2}]) == "| workers | value |\n| --: | --: |\n| 1 | 2 |"


def test_bars_are_as_long_as_their_medians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PLOTS", tmp_path)
    shown = report.bars("speed", "Pages & more", {"skitter, <one>": (400, 300, 500), "other": (100, 100, 100)})
    assert shown == "![Pages & more](plots/speed.svg)"
    tree = ET.parse(tmp_path / "speed.svg")
    background, one, other = tree.getroot().findall("{*}rect")
    assert float(one.get("width", "")) == pytest.approx(4 * float(other.get("width", "")), rel=0.01)
    assert one.get("fill") != other.get("fill") != background.get("fill")
    texts = [text.text for text in tree.getroot().findall("{*}text")]
    assert texts == ["Pages & more", "skitter, <one>", "400", "other", "100"]
