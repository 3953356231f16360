"""README.zh-CN.md says what README.md says: sections, code, tables, figures and links agree."""

from __future__ import annotations

import re
from pathlib import Path

import check_docs

ROOT = Path(__file__).resolve().parents[2]
ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
CHINESE_PAGES = {
    "README.md": "README.zh-CN.md",
    "docs/tutorial/first-crawl.md": "docs/zh/first-crawl.md",
    "docs/tutorial/first-cluster.md": "docs/zh/first-cluster.md",
    "docs/troubleshooting.md": "docs/zh/troubleshooting.md",
    "docs/glossary.md": "docs/zh/glossary.md",
    "docs/how-to/migrate-from-feapder.md": "docs/zh/migrate-from-feapder-crawlo.md",
    "docs/how-to/migrate-from-crawlo.md": "docs/zh/migrate-from-feapder-crawlo.md",
}
"""Pages that the Chinese README links in Chinese."""
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")


def _headings(text: str) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", _FENCE.sub("", text), re.MULTILINE)]


def _rows(text: str) -> list[list[str]]:
    return [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]


def _figures(text: str) -> str:
    return text.partition("<!-- begin figures -->")[2].partition("<!-- end figures -->")[0]


def test_the_sections_are_the_same() -> None:
    assert _headings(CHINESE) == _headings(ENGLISH)
    assert [len(row) for row in _rows(CHINESE)] == [len(row) for row in _rows(ENGLISH)]


def test_the_code_is_the_same() -> None:
    assert _FENCE.findall(CHINESE) == _FENCE.findall(ENGLISH)


def test_the_links_are_the_same_in_the_other_language() -> None:
    wanted = [CHINESE_PAGES.get(link, link) for link in check_docs.links(ENGLISH) if not link.startswith("#")]
    found = [link for link in check_docs.links(CHINESE) if not link.startswith("#")]
    back = {"README.md": "README.zh-CN.md"}
    assert [back.get(link, link) for link in found] == wanted


def test_the_figures_are_the_same_and_those_of_the_benchmarks() -> None:
    chinese, english = _rows(_figures(CHINESE)), _rows(_figures(ENGLISH))
    assert [row[1:] for row in chinese[1:]] == [row[1:] for row in english[1:]]
    measured = {row[0].strip(): row[1] for row in _rows(BENCHMARKS.partition("### Small pages")[0]) if len(row) == 6}
    for name, speed, _ in english[2:]:
        assert _NUMBER.findall(speed)[0] == _NUMBER.findall(measured[name.strip()])[0], name


def test_numbers_of_the_text_are_the_same() -> None:
    def numbers(text: str) -> list[str]:
        prose = _FENCE.sub("", text)
        return sorted(_NUMBER.findall(re.sub(r"\]\([^)]*\)", "]", prose)))

    assert numbers(CHINESE) == numbers(ENGLISH)


def test_the_comparison_has_the_figures_of_the_readme() -> None:
    page = (ROOT / "docs" / "explanation" / "comparison.md").read_text(encoding="utf-8")
    rows = _rows(page.partition("## Measured")[2].partition("\n## ")[0])
    compared = {re.split(r" \d| \(", row[0].strip())[0]: [cell.strip() for cell in row[1:]] for row in rows[2:]}
    wanted = {
        row[0].strip(): [_NUMBER.findall(cell)[0] for cell in row[1:]]
        for row in _rows(_figures(ENGLISH))[2:]
        if row[0].strip() != "bare parts"
    }
    assert compared == wanted
