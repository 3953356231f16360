"""No file names the machine or the package index that it was built with, and none has markers of a merge conflict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import check_docs

ROOT = Path(__file__).resolve().parents[2]

# Put together from pieces, so that this file does not contain what it looks for.
_HOSTS = ["pypi" + ".org", "pythonhosted" + ".org", "pypi" + ".python.org"]
_FOLDERS = ["work", "root", "Users"]
# A path begins where a word or a URL does not go on: "https://host.example/work/" is not one.
_NEEDLE = re.compile(
    "|".join(
        [
            *(re.escape(host) for host in _HOSTS),
            *(rf"(?<![\w.~%\-]){'/' + name}/" for name in _FOLDERS),
        ]
    )
)


def _found(text: str) -> list[str]:
    return [
        f"line {number}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        if _NEEDLE.search(line)
    ]


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    files = check_docs.project_files(ROOT)
    assert files
    found = {}
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        if lines := _found(text):
            found[str(path.relative_to(ROOT))] = lines
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        *_HOSTS,
        *(f"see /{name}/x" for name in _FOLDERS),
        f'path = "/{_FOLDERS[0]}/x"',
        f"file:///{_FOLDERS[1]}/x",
    ],
)
def test_such_names_are_recognised(text: str) -> None:
    assert _found(text) != []


def test_paths_of_urls_are_not_mistaken() -> None:
    assert _found(f"https://host.example/{_FOLDERS[0]}/page and docs/{_FOLDERS[0]}/page") == []


def test_no_file_has_a_marker_of_a_merge_conflict() -> None:
    assert check_docs.conflict_markers(ROOT) == []


@pytest.mark.parametrize("marker", ["<" * 7 + " HEAD", "|" * 7 + " base", ">" * 7 + " branch", ">" * 7])
def test_a_marker_of_a_merge_conflict_is_found(tmp_path: Path, marker: str) -> None:
    (tmp_path / "page.md").write_text(f"one side\n{marker}\nthe other\n")
    (tmp_path / "picture.png").write_bytes(b"\0\n" + marker.encode())
    assert check_docs.conflict_markers(tmp_path) == ["page.md:2"]


def test_other_lines_of_signs_are_not_mistaken(tmp_path: Path) -> None:
    (tmp_path / "page.rst").write_text("Heading\n=======\n\n" + ">" * 8 + "\n >>>>>>> quoted\n")
    assert check_docs.conflict_markers(tmp_path) == []
