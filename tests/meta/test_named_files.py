"""Files that the documentation names exist, and the page on the architecture has every package."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "skitter"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`([\w/.]+(?:\.py|\.lua|/))`", TEXT)))
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
NAMED = sorted(set(re.findall(r"((?:`\w+`(?:, | and )?)+) in ((?:`[\w/.]+\.(?:py|lua)`(?:, )?)+)", TEXT)))


def test_a_named_file_exists() -> None:
    assert len(PATHS) > 100
    assert [path for path in PATHS if not (SOURCE / path).exists()] == []


def test_a_name_that_is_said_to_be_in_a_file_is_there() -> None:
    assert len(NAMED) > 30
    missing = []
    for names, paths in NAMED:
        sources = "".join((SOURCE / path).read_text(encoding="utf-8") for path in re.findall(r"`([^`]+)`", paths))
        named = re.findall(r"`(\w+)`", names)
        missing += [name for name in named if not re.search(rf"\b(?:def|class|function) {name}\b", sources)]
    assert missing == []


def test_every_package_has_a_row() -> None:
    assert [package for package in PACKAGES if not re.search(rf"^\| .*`{package}/`", TEXT, re.MULTILINE)] == []


def test_at_least_thirty_rules_are_located() -> None:
    rules = TEXT.partition("## Where each rule is")[2]
    assert len(re.findall(r"^\| [^*|-].*`[\w/.]+\.(?:py|lua)`", rules, re.MULTILINE)) >= 30


def _files_named_in(page: Path) -> list[str]:
    """Paths of ours: with a folder of this project, or a test by its name alone; not what its samples write."""
    folders = "|".join(["src", "tests", "bench", "scripts", *PACKAGES])
    pattern = rf"`((?:(?:{folders})/[\w./-]+|test_\w+)\.(?:py|lua))`"
    text = page.read_text(encoding="utf-8")
    written = re.findall(r"^```python\n# (\S+)$", text, re.MULTILINE)
    return [name for name in re.findall(pattern, text) if name not in written]


def test_a_page_names_no_file_that_is_gone() -> None:
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    gone = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for name in _files_named_in(page)
        if name not in tests and not (ROOT / name).exists() and not (SOURCE / name).exists()
    ]
    assert gone == []
