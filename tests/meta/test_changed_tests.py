"""``make test CHANGED=1`` chooses the tests that a change can reach, and always the promises of the core."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from changed_tests import CORE, FOR_ALL_TESTS, ROOT, Choice, Tree, changed_files

FILES = {
    "src/skitter/__init__.py": "",
    "src/skitter/errors.py": "",
    "src/skitter/sinks/__init__.py": "",
    "src/skitter/sinks/rows.py": "import skitter.errors",
    "src/skitter/sinks/parquet.py": "from skitter.sinks.rows import Rows",
    "src/skitter/sinks/lua/add.lua": "",
    "src/skitter/app/outputs.py": "def make():\n    from skitter.sinks import parquet",
    "src/skitter/cli/export.py": "from skitter.app.outputs import make",
    "src/skitter/web/server.py": "KIND = 'skitter.app.outputs:make'",
    "scripts/services_list.py": "",
    "tests/conftest.py": "pytest_plugins = ['rig.costs']",
    "tests/rig/costs.py": "",
    "tests/rig/rows.py": "from skitter.sinks import rows",
    "tests/rig/unused.py": "",
    "tests/unit/sinks/conftest.py": "",
    "tests/unit/sinks/test_kinds.py": "",
    "tests/unit/app/test_outputs.py": "from skitter.app.outputs import make",
    "tests/unit/web/test_server.py": "from skitter.web.server import KIND",
    "tests/unit/cli/test_export.py": "from skitter.cli.export import main",
    "tests/unit/data/words.json": "",
    "tests/unit/data/test_words.py": "",
    "tests/integration/streams/test_kafka.py": "from rig.rows import rows",
    "tests/acceptance/test_export.py": "START = 'services_list.py'",
    "tests/acceptance/test_login.py": "",
    "tests/acceptance/test_crawl.py": "",
    "tests/fault/test_sink_kill.py": "",
    "tests/docs/test_samples.py": "",
    "tests/meta/test_index.py": "",
}
ALWAYS = {"tests/acceptance/test_crawl.py", "tests/meta/test_index.py"}
"""What the made-up tree has of the core."""


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("src/skitter/cli/export.py", {"tests/unit/cli/test_export.py", "tests/acceptance/test_export.py"}),
        (
            "src/skitter/sinks/rows.py",
            {
                "tests/unit/sinks/test_kinds.py",  # its folder
                "tests/unit/app/test_outputs.py",  # imports it lazily over another module
                "tests/integration/streams/test_kafka.py",  # over the rig
                "tests/fault/test_sink_kill.py",  # named after the room
            },
        ),
        (
            "src/skitter/sinks/lua/add.lua",
            {
                "tests/unit/sinks/test_kinds.py",
                "tests/unit/app/test_outputs.py",
                "tests/integration/streams/test_kafka.py",
                "tests/fault/test_sink_kill.py",
            },
        ),
        (
            "src/skitter/app/outputs.py",
            {
                "tests/unit/app/test_outputs.py",
                "tests/unit/web/test_server.py",  # by the name in a string
                "tests/unit/cli/test_export.py",
            },
        ),
        ("tests/rig/rows.py", {"tests/integration/streams/test_kafka.py"}),
        ("tests/rig/unused.py", set()),
        ("tests/unit/sinks/conftest.py", {"tests/unit/sinks/test_kinds.py"}),
        ("tests/unit/data/words.json", {"tests/unit/data/test_words.py"}),
        ("tests/acceptance/test_login.py", {"tests/acceptance/test_login.py"}),
        ("scripts/services_list.py", {"tests/acceptance/test_export.py"}),
        ("docs/formats.md", {"tests/docs/test_samples.py"}),
        ("src/skitter/gone.py", set()),
    ],
)
def test_a_change_chooses_what_it_reaches_and_the_core(made_up: Path, changed: str, chosen: set[str]) -> None:
    choice = Choice(Tree(made_up), [changed])
    assert not choice.all_because
    assert set(choice.reasons) == chosen | ALWAYS


@pytest.mark.parametrize(
    "changed", ["pyproject.toml", "requirements-dev.lock", "tests/conftest.py", "tests/rig/costs.py"]
)
def test_what_belongs_to_all_tests_chooses_all(made_up: Path, changed: str) -> None:
    assert Choice(Tree(made_up), ["src/skitter/errors.py", changed]).all_because == f"{changed} belongs to all tests"


def test_of_a_module_that_most_tests_import_the_unit_tests_are_chosen(
    made_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(made_up)
    assert "tests/integration/streams/test_kafka.py" in Choice(tree, ["src/skitter/sinks/rows.py"]).reasons
    monkeypatch.setattr("changed_tests.MANY", 0)
    chosen = Choice(tree, ["src/skitter/sinks/rows.py"]).reasons
    assert "tests/integration/streams/test_kafka.py" not in chosen
    assert "tests/unit/app/test_outputs.py" in chosen


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, name: str) -> None:
    (folder / name).write_text("")
    git(folder, "add", name)
    git(folder, "commit", "-m", name)


def test_the_changes_of_a_branch_of_the_tree_or_of_the_last_commit_count(tmp_path: Path) -> None:
    git(tmp_path, "init", "-b", "main")
    for name in ("one", "two"):
        commit(tmp_path, name)
    assert changed_files(tmp_path, "1") == ["two"]
    (tmp_path / "three").write_text("")
    assert changed_files(tmp_path, "1") == ["three"]
    git(tmp_path, "checkout", "-b", "branch")
    commit(tmp_path, "four")
    assert changed_files(tmp_path, "1") == ["four", "three"]
    assert changed_files(tmp_path, "main~1") == ["four", "two", "three"]


def test_the_real_tree_has_the_core_and_its_modules_reach_their_tests() -> None:
    tree = Tree(ROOT)
    for core in CORE:
        assert any(test.startswith(core) for test in tree.tests), core
    for pattern in FOR_ALL_TESTS:
        assert list(ROOT.glob(pattern)), pattern
    chosen = Choice(tree, ["src/skitter/sinks/parquet.py", "src/skitter/policy/retry.py"])
    assert {"tests/unit/sinks/test_parquet.py", "tests/unit/test_retry.py"} <= set(chosen.reasons)
    assert len(chosen.reasons) < len(tree.tests) / 4
    assert Choice(tree, ["tests/rig/costs.py"]).all_because
