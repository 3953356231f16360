"""The configuration of the rendered site: every page has a place in it, and nothing is loaded from elsewhere.

The build itself is strict and part of ``make check``.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import build_site
import check_docs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))


def test_every_page_has_one_place_in_the_sidebar(site: dict[str, Any]) -> None:
    shown = [page for _, pages in site["navigation"]() for page in pages]
    shown += [child for page in list(shown) for child in site["children"](page)]
    there = [path.relative_to(ROOT).with_suffix("").as_posix() for path in check_docs.markdown_files(ROOT)]
    expected = [page for page in there if page.startswith("docs/") and page != "docs/index"]
    assert sorted(page for page in shown if page.startswith("docs/")) == sorted(expected)
    assert len(shown) == len(set(shown))
    assert {"README", "CHANGELOG"} < set(shown)


def test_the_order_of_the_sidebar_is_that_of_the_index(site: dict[str, Any]) -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (pages,) = [pages for title, pages in site["navigation"]() if title == "Reference"]
    places = [index.find(f"({page.removeprefix('docs/')}.md") for page in pages]
    assert [place for place in places if place >= 0] == sorted(place for place in places if place >= 0)


def test_the_version_is_that_of_the_package(site: dict[str, Any]) -> None:
    from skitter._version import __version__

    assert site["version"] == build_site.version() == __version__


@pytest.mark.parametrize(
    ("html", "is_foreign"),
    [
        ('<script src="https://cdn.example/x.js"></script>', True),
        ('<img alt="" src="//cdn.example/x.png">', True),
        ('<link rel="stylesheet" href="https://fonts.example/css">', True),
        ('<link href="https://fonts.example/css" rel="stylesheet">', True),
        ('<script src="_static/x.js"></script><a href="https://example.com/">a link</a>', False),
        ('<link rel="canonical" href="https://example.com/">', False),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(tmp_path: Path, html: str, is_foreign: bool) -> None:
    (tmp_path / "page.html").write_text(html)
    assert build_site.foreign_resources(tmp_path) == (["page.html"] if is_foreign else [])


def test_versions_are_listed_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("0.9.1", "0.10.0", "0.2.0"):
        (tmp_path / name / "docs").mkdir(parents=True)
        (tmp_path / name / "docs" / "index.html").touch()
    (tmp_path / "unfinished").mkdir()
    monkeypatch.setattr(build_site, "SITE", tmp_path)
    assert build_site.versions() == {name: ["docs/index.html"] for name in ("0.10.0", "0.9.1", "0.2.0")}
