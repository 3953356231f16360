"""Decisions can be found: the index lists each page once, under its own title, with its status and its date."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADR = ROOT / "docs" / "adr"
INDEX = (ADR / "index.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \[(\d{4})\]\(([\w.-]+)\) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
MERGED = re.compile(r"^\| (\d{4}(?:, \d{4})*) \| \[(\d{4})\]\(([\w.-]+)\) \|$", re.MULTILINE)
REFERENCE = re.compile(r"\b(?:adr/|ADR )(\d{4})(-[\w-]+\.md)?")
"""What code and prose name a decision by: the path of its page, or its number."""
PAGES = sorted(path.name for path in ADR.glob("*.md") if path.name != "index.md")


def _head(name: str, field: str) -> str:
    """The value of a line such as ``Status: accepted`` before the first section of a page."""
    head = (ADR / name).read_text(encoding="utf-8").partition("\n## ")[0]
    found = re.findall(rf"^{field}: (.+)$", head, re.MULTILINE)
    assert len(found) == 1, f"one line `{field}: …` below the title"
    return str(found[0])


@pytest.mark.parametrize("name", PAGES)
def test_a_decision_is_listed_with_its_title_status_and_date(name: str) -> None:
    heading = (ADR / name).read_text(encoding="utf-8").partition("\n")[0]
    number, _, title = heading.removeprefix("# ").partition(": ")
    assert number == name[:4]
    rows = [row for row in ROW.findall(INDEX) if row[1] == name]
    assert rows == [(number, name, title, _head(name, "Status"), _head(name, "Date"))]
    date.fromisoformat(_head(name, "Date"))


@pytest.mark.parametrize("name", PAGES)
def test_a_decision_is_accepted_or_names_the_page_that_supersedes_it(name: str) -> None:
    status = _head(name, "Status")
    if status != "accepted":
        link = re.fullmatch(r"superseded by \[(\d{4})\]\(([\w.-]+)\)", status)
        assert link, "the status is `accepted` or `superseded by [NNNN](NNNN-name.md)`"
        assert link[2].startswith(link[1])
        assert link[2] in PAGES


def test_the_index_lists_every_decision_once_and_no_other() -> None:
    assert sorted(row[1] for row in ROW.findall(INDEX)) == PAGES


def test_a_number_is_used_once_also_that_of_a_merged_page() -> None:
    merged = [number for numbers, _, _ in MERGED.findall(INDEX) for number in numbers.split(", ")]
    used = merged + [name[:4] for name in PAGES]
    assert len(used) == len(set(used))


def test_a_merged_number_leads_to_a_page() -> None:
    for _, number, name in MERGED.findall(INDEX):
        assert name.startswith(number)
        assert name in PAGES


def test_code_and_prose_refer_to_decisions_that_exist() -> None:
    files = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")]
    for folder in ("src", "tests", "docs", "deploy", "bench", "examples", "scripts"):
        files += [
            path for path in (ROOT / folder).rglob("*") if path.suffix in {".md", ".py", ".lua", ".toml", ".yaml"}
        ]
    numbers = {name[:4] for name in PAGES}
    gone = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in files
        for found in REFERENCE.finditer(path.read_text(encoding="utf-8"))
        if found[1] not in numbers or (found[2] and found[1] + found[2] not in PAGES)
    ]
    assert gone == []
