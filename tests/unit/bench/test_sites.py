"""The small pages: all reachable, all alike, and the same ones every time."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
import sites


@pytest.mark.parametrize("pages", [1, 2, 19, 300, 2500])
def test_every_page_can_be_reached_from_the_first(pages: int) -> None:
    seen, queue = {0}, deque([0])
    while queue:
        for target in sites.links_of(queue.popleft(), pages):
            if target not in seen:
                seen.add(target)
                queue.append(target)
    assert seen == set(range(pages))


def test_every_page_has_twenty_links() -> None:
    assert {len(set(sites.links_of(page, 2500))) for page in range(2500)} == {sites.LINKS}


def test_pages_are_written_alike_every_time(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        sites.write_small_pages(tmp_path / folder, 1200)
    files = sorted((tmp_path / "one").rglob("*.html"))
    assert len(files) == 1200
    for file in files:
        text = file.read_text()
        assert text == (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_text()
        assert len(text) == pytest.approx(sites.PAGE_BYTES, rel=0.05)
        assert text.count("<a href=") == sites.LINKS
    assert (tmp_path / "one" / sites.path_of(1199)[1:]).read_text().count("<title>Page 1199</title>") == 1


def test_a_folder_without_its_first_page_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<a href=x>x</a>")
    assert sites.documentation(tmp_path, "index.html")[0][:2] == (tmp_path.resolve(), "/index.html")
    with pytest.raises(SystemExit, match="error: no such page"):
        sites.documentation(tmp_path, "/start.html")
