"""Decisions can be found: each has a row in the index, under the title that it has itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROWS = dict(re.findall(r"^\| \[\d{4}\]\(adr/([\w.-]+)\) \| (.+) \|$", (DOCS / "index.md").read_text(), re.MULTILINE))
PAGES = sorted(path.name for path in (DOCS / "adr").glob("*.md"))


@pytest.mark.parametrize("name", PAGES)
def test_a_decision_is_listed_under_its_title(name: str) -> None:
    heading = (DOCS / "adr" / name).read_text(encoding="utf-8").partition("\n")[0]
    number, _, title = heading.partition(": ")
    assert number == f"# {name[:4]}"
    assert ROWS[name].startswith(title)


def test_the_index_lists_no_decision_twice() -> None:
    assert sorted(ROWS) == PAGES
