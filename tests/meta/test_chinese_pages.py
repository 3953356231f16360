"""The Chinese pages are complete where they are to be: groups of settings, requirements with their proof, commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ZH = ROOT / "docs" / "zh"
SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
REQUIREMENTS = [
    line
    for line in (ZH / "requirements.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| 需求"))
]
_FENCE = re.compile(r"^```(?:bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_group_of_settings_is_explained() -> None:
    explained = re.findall(r"\.\./reference/settings\.md#(\w+)", (ZH / "settings.md").read_text(encoding="utf-8"))
    assert sorted(set(explained)) == sorted(re.findall(r"^## (\w+)$", SETTINGS, re.MULTILINE))


def test_settings_that_are_explained_exist() -> None:
    known = set(re.findall(r"^\| `(\w+)` \|", SETTINGS, re.MULTILINE))
    rows = re.findall(r"^\| (`.+?) \|", (ZH / "settings.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(named) > 30
    assert named <= known


@pytest.mark.parametrize("row", REQUIREMENTS, ids=lambda row: row.split("|")[1].strip())
def test_a_requirement_has_a_page_and_a_test_that_exists(row: str) -> None:
    _, _, pages, tests, _ = row.split("|")
    assert re.search(r"\]\([^)]+\)", pages)
    names = re.findall(r"`(tests/[\w/.]+\.py)`", tests)
    assert names
    for name in names:
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize("name", ["first-crawl.md", "first-cluster.md"])
def test_a_tutorial_has_no_command_that_the_english_one_lacks(name: str) -> None:
    """Which is the one that is run."""

    def lines(text: str) -> set[str]:
        return {line.strip() for block in _FENCE.findall(text) for line in block.splitlines() if line.strip()}

    english = (ROOT / "docs" / "tutorial" / name).read_text(encoding="utf-8")
    assert lines((ZH / name).read_text(encoding="utf-8")) <= lines(english)
