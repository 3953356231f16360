"""The public names are few, and they change on purpose only."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import skitter

PACKAGES = ("skitter", "skitter.testing", "skitter.cluster", "skitter.dedup")
MYPY_CACHE = Path(__file__).parents[2] / "build" / "mypy-of-new-projects"


def test_public_names() -> None:
    classes = (
        "Answer AsyncClient Ban Click Client CloseSummary Drop DropItem Failure FetchError Fill Hooks ItemStream"
        " JavaScript JobInfo Priority RejectItem Request Response Retry Rule Screenshot Scroll Session SkitterError"
        " Spider Stats Summary WaitFor"
    )
    functions = "acrawl aget connect crawl get stream"
    assert skitter.__all__ == [*classes.split(), *functions.split()]


@pytest.mark.parametrize("name", skitter.__all__)
def test_public_name_exists(name: str) -> None:
    assert getattr(skitter, name).__name__ == name
    assert name in dir(skitter)


def test_other_names_do_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Spdier'"):
        skitter.Spdier  # noqa: B018  asking is the test


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_lists_each_name_of_a_package(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))


def test_a_misspelt_name_is_an_error_of_mypy(tmp_path: Path) -> None:
    lines = [f"import {package}" for package in PACKAGES]
    for package in PACKAGES:
        lines += [f"{package}.{importlib.import_module(package).__all__[0]}", f"{package}.Mispelt"]
    (tmp_path / "names.py").write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", "--cache-dir", str(MYPY_CACHE)]
    ended = subprocess.run([*command, "names.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [line.partition(":")[2] for line in ended.stdout.splitlines()]
    expected = [f'{6 + 2 * n}: error: Module has no attribute "Mispelt"  [attr-defined]' for n in range(len(PACKAGES))]
    assert found == [*expected, *found[-1:]], ended.stdout
