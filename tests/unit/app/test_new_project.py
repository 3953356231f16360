"""``skitter new``: names that are refused, files that are never overwritten, and what is made works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rig.processes import HANG_SECONDS
from skitter.app.new_project import new_project, new_spider
from skitter.cli import main
from skitter.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "name", ["", "9lives", "../up", "a b", "a/b", "-x", "a" * 65, "naïve", "json", "class", "test"]
)
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    for make in (
        lambda: new_project(tmp_path, name, "https://a.example/"),
        lambda: new_spider(tmp_path, name, "https://a.example/"),
    ):
        with pytest.raises(UsageError):
            make()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    new_project(tmp_path, "shop", "https://a.example/")
    with pytest.raises(UsageError, match="it already exists: shop"):
        new_project(tmp_path, "shop", "https://a.example/")
    (tmp_path / "shop" / "tests" / "test_other.py").write_text("mine")
    with pytest.raises(UsageError, match=r"it already exists: test_other\.py"):
        new_spider(tmp_path / "shop", "other", "https://a.example/")
    assert not (tmp_path / "shop" / "spiders" / "other.py").exists(), "nothing was begun"
    (tmp_path / "empty").mkdir()
    new_project(tmp_path, "empty", "https://a.example/")
    with pytest.raises(UsageError):
        new_project(tmp_path, "other", "not a URL")


def test_a_project_passes_its_own_tests_and_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "project", "Book-Shop", "https://bücher.example:8443/it's?a=\"$b\\c#d"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        *(f"Book-Shop/{name}" for name in ("skitter.toml", "README.md", ".gitignore", "pytest.ini")),
        *(f"Book-Shop/{name}" for name in ("spiders/book_shop.py", "tests/test_book_shop.py")),
    ]
    monkeypatch.chdir(tmp_path / "Book-Shop")
    (tmp_path / "Book-Shop" / "skitter.toml").write_text('spiders = ["one.py", "parts/spiders"]\ndelay_seconds = 1')
    assert main(["new", "spider", "second", "http://[::1]:8080/"]) == 0
    assert (tmp_path / "Book-Shop" / "parts" / "spiders" / "second.py").exists()
    assert main(["check", "spiders/book_shop.py", "second"]) == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-W", "default"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert "4 passed" in ended.stdout, ended.stdout


def test_the_code_of_a_project_is_typed(tmp_path: Path) -> None:
    new_project(tmp_path, "shop", "https://a.example/")
    # What it knows of skitter itself is kept for the next time, which takes a tenth of the first one.
    strict = ["-m", "mypy", "--strict", "--explicit-package-bases"]
    command = [sys.executable, *strict, "--cache-dir", str(ROOT / "build" / "mypy-of-new-projects"), "."]
    folder = tmp_path / "shop"
    assert "`mypy --strict --explicit-package-bases .`" in (folder / "README.md").read_text()
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert ended.stdout == "Success: no issues found in 2 source files\n"


def test_a_spider_is_made_in_a_project_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "spider", "shop", "https://a.example/"]) == 2
    assert "error: not the folder of a project" in capsys.readouterr().err
    assert main(["new", "spider", "shop"]) == 2
    (tmp_path / "pyproject.toml").write_text("[tool.skitter]\ndelay_seconds = 1")
    assert main(["new", "spider", "shop", "https://a.example/", "--json"]) == 0
    assert capsys.readouterr().out == '{"created":["spiders/shop.py","tests/test_shop.py"]}\n'
