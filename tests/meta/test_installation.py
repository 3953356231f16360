"""The page on installation and pyproject.toml agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXT = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| `(\w+)` \| .+? \| (.*?) ?\|$", TEXT.partition("## Extras")[2].partition("\n## ")[0], re.MULTILINE
)


def test_every_extra_is_listed_with_its_packages() -> None:
    wanted = {
        name: sorted(re.split(r"[>=;\[ ]", package)[0] for package in packages if not package.startswith("skitter"))
        for name, packages in PROJECT["optional-dependencies"].items()
    }
    assert {name: sorted(filter(None, packages.split(", "))) for name, packages in ROWS} == wanted


def test_the_oldest_python_is_named() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert f"**Python {oldest} or newer**" in TEXT
    named = re.findall(r"^\| (3\.[\d., ]+) \|", TEXT, re.MULTILINE)
    classified = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert set(classified) <= {version for row in named for version in row.split(", ")}
