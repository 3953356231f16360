"""No file names the machine or the package index that it was built with, and none has marks of an unfinished merge."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

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
            "^(?:<{7}|>{7}) ",
        ]
    )
)


def _files() -> list[Path]:
    """The files of the project: what git tracks or would track; without git, all but hidden folders."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        command = [git, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]
    hidden = {".ci"}
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(
            (part.startswith(".") and part not in hidden) or part in {"build", "dist", "__pycache__"}
            for part in path.relative_to(ROOT).parts[:-1]
        )
    ]


def _found(text: str) -> list[str]:
    return [
        f"line {number}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        if _NEEDLE.search(line)
    ]


def test_no_file_names_a_registry_or_a_path_of_one_machine_or_is_half_merged() -> None:
    files = _files()
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
        "<" * 7 + " HEAD",
        ">" * 7 + " branch",
    ],
)
def test_such_names_are_recognised(text: str) -> None:
    assert _found(text) != []


def test_paths_of_urls_are_not_mistaken() -> None:
    assert _found(f"https://host.example/{_FOLDERS[0]}/page and docs/{_FOLDERS[0]}/page") == []
