"""Documentation that points at something points at something that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_docs


def test_every_relative_link_resolves() -> None:
    assert check_docs.broken_links(check_docs.ROOT) == []


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("missing.md", "no such file"),
        ("there.md#nothing", "no such heading"),
        ("../../elsewhere.md", "leads out of the project"),
    ],
)
def test_a_broken_link_is_found(tmp_path: Path, link: str, reason: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "there.md").write_text("# A heading\n")
    (tmp_path / "docs" / "page.md").write_text(f"[broken]({link}), [fine](there.md#a-heading), `[code](code.md)`\n")
    assert check_docs.broken_links(tmp_path) == [f"docs/page.md: {link}: {reason}"]


def test_links_to_other_hosts_and_in_code_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("[out](https://example.com/x)\n\n```\n[code](code.md)\n```\n")
    assert check_docs.broken_links(tmp_path) == []
