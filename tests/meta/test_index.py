"""Everything in the documentation is found from its index in two clicks."""

from __future__ import annotations

from pathlib import Path

import check_docs

DOCS = check_docs.ROOT / "docs"


def _linked(page: Path) -> set[Path]:
    found = set()
    for link in check_docs.links(page.read_text(encoding="utf-8")):
        target = (page.parent / link.partition("#")[0]).resolve()
        if target.suffix == ".md" and target.exists():
            found.add(target)
    return found


def _reached(start: Path, clicks: int) -> set[Path]:
    reached = {start}
    for _ in range(clicks):
        reached |= {target for page in reached for target in _linked(page)}
    return reached


def test_every_page_is_two_clicks_from_the_index_at_most() -> None:
    pages = set(DOCS.rglob("*.md"))
    # Each set has an index of its own, which the index links.
    deeper = {page for page in pages if page.parent.name in ("adr", "python")}
    assert sorted(map(str, pages - deeper - _reached(DOCS / "index.md", 2))) == []
    assert sorted(map(str, deeper - _reached(DOCS / "index.md", 3))) == []


def test_every_guide_is_on_the_index_itself() -> None:
    guides = {page for folder in ("tutorial", "how-to", "explanation") for page in (DOCS / folder).glob("*.md")}
    guides |= set(DOCS.glob("*.md")) - {DOCS / "index.md"}
    assert sorted(map(str, guides - _linked(DOCS / "index.md"))) == []
