"""Which code a reference may lead to."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.errors import UsageError
from skitter.model.import_ref import is_trusted_file, resolve

NAMES = ("ref_inside", "ref_outside", "ref_spread")


@pytest.fixture(autouse=True)
def import_state(tmp_path: Path) -> Iterator[None]:
    path = list(sys.path)
    for name in ("project", "other"):
        (tmp_path / name).mkdir()
    importlib.invalidate_caches()
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("place", "trusted", "answer"),
    [
        ("project/a.py", (), True),
        ("project/deep/er/a.py", (), True),
        ("project/../other/a.py", (), False),
        ("projects/a.py", (), False),
        ("other/a.py", (), False),
        ("other/a.py", ("../other",), True),
        ("other/a.py", ("../other/",), True),
        ("other/a.py", ("../other/a.py",), True),
        ("other/a.py", ("../oth", "../other/b.py", "a.py", "other"), False),
        ("project/.venv/lib/python3.13/site-packages/a.py", (), False),
        ("project/.venv/lib/python3.13/site-packages/a.py", (".venv",), True),
        ("project/to_other/a.py", (), False),
        ("to_project/a.py", (), True),
    ],
)
def test_files_are_trusted_where_they_really_are(tmp_path: Path, place: str, trusted: tuple[str], answer: bool) -> None:
    (tmp_path / "project" / "to_other").symlink_to(tmp_path / "other")
    (tmp_path / "to_project").symlink_to(tmp_path / "project")
    assert is_trusted_file(str(tmp_path / place), str(tmp_path / "project"), trusted) is answer


def test_a_project_in_the_folder_of_a_package_is_a_project(tmp_path: Path) -> None:
    home = tmp_path / "site-packages" / "mine"
    assert is_trusted_file(str(home / "a.py"), str(home), ())
    assert is_trusted_file("/etc/a.py", "/", ())


def test_modules_that_the_store_names_lie_in_the_project_or_are_named(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    (project / "ref_inside").mkdir()
    (project / "ref_inside" / "__init__.py").write_text("")
    (project / "ref_inside" / "deeper.py").write_text("import os\n\ndef f(): ...\n")
    (other / "ref_outside.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').close()\n\ndef f(): ...\n")
    sys.path.insert(0, str(other))
    assert callable(resolve("ref_inside.deeper:f", str(project), ()))
    with pytest.raises(UsageError, match=r"outside the project folder: ref_outside:f"):
        resolve("ref_outside:f", str(project), ("ref_out", "ref"))
    assert not (tmp_path / "mark").exists()
    assert callable(resolve("ref_outside:f", str(project), ("ref_outside",)))
    with pytest.raises(ModuleNotFoundError):
        resolve("ref_nowhere:f", str(project), ())
    # Of the standard library nothing, also not through a module that imports it.
    for reference in ("os:system", "ref_inside.deeper:os.system", "skitter.cli:main"):
        for trusted in (None, (), ("os", "skitter")):
            with pytest.raises(ImportError, match="not a module of your own"):
                resolve(reference, str(project), trusted)


def test_a_package_of_several_folders_is_trusted_if_all_are(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    for folder, name in ((project, "one"), (other, "two")):
        (folder / "ref_spread").mkdir()
        (folder / "ref_spread" / f"{name}.py").write_text("def f(): ...\n")
    sys.path.insert(0, str(other))
    with pytest.raises(UsageError):
        resolve("ref_spread.two:f", str(project), ())
    assert callable(resolve("ref_spread.two:f", str(project), ("../other",)))


def test_what_is_installed_comes_before_what_lies_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "project" / "ref_inside.py").write_text("def f(): ...\n")
    before = list(sys.path)
    resolve("ref_inside:f", str(tmp_path / "project"))
    assert sys.path == [*before, str(tmp_path / "project")]
