"""Commands that are printed for the user begin with how this program is called from the same shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skitter.cli.arguments import Parser
from skitter.cli.job_ref import JobRef, locate, program_words
from skitter.cli.retry import configure


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment in the current folder, which the path does not have."""
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    script = folder / "skitter"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "prefix", str(folder.parent))
    return script


@pytest.mark.parametrize("typed", [".venv/bin/skitter", "src/skitter/__main__.py"])
def test_a_script_that_the_path_lacks_is_called_by_its_place(
    script: Path, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [typed, "crawl"])
    assert program_words() == [".venv/bin/skitter"]
    assert JobRef("sqlite:x.db", "x").command("status") == ".venv/bin/skitter status --frontier sqlite:x.db"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program_words() == ["skitter"]


def test_from_another_folder_the_place_is_absolute(
    script: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert program_words() == [str(script)]


def test_without_a_script_the_module_is_called(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.unlink()
    monkeypatch.setattr(sys, "argv", ["src/skitter/__main__.py"])
    assert program_words() == [sys.executable, "-P", "-m", "skitter"]


def test_a_program_that_calls_the_command_line_is_not_named(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert program_words() == ["skitter"]


@pytest.mark.parametrize(
    ("place", "jobs", "shortest"),
    [
        (JobRef("sqlite:.skitter/x.db", "x"), ["x"], "skitter retry http://a.example/"),
        (JobRef("sqlite:.skitter/x.db", "x"), ["x", "y"], "skitter retry x http://a.example/"),
        (JobRef("sqlite:.skitter/x.db", "x"), [], "skitter retry x http://a.example/"),
        (
            JobRef("sqlite:.skitter/y.db", "x"),
            ["y"],
            "skitter retry x http://a.example/ --frontier sqlite:.skitter/y.db",
        ),
        (JobRef("sqlite:x.db", "x"), ["x"], "skitter retry http://a.example/ --frontier sqlite:x.db"),
        (JobRef("redis://h", "x"), ["x"], "skitter retry x http://a.example/ --frontier redis://h"),
        (JobRef("redis://h", "a.py"), [], "skitter retry --job a.py http://a.example/ --frontier redis://h"),
    ],
)
def test_a_command_that_is_printed_is_the_shortest_that_finds_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: JobRef, jobs: list[str], shortest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    (tmp_path / ".skitter").mkdir()
    for job in jobs:
        (tmp_path / ".skitter" / f"{job}.db").touch()
    printed = place.command("retry", "http://a.example/")
    assert printed == shortest
    parser = Parser(prog="skitter retry", description="")
    configure(parser)
    assert locate(parser.parse(printed.split()[2:]), must_exist=False) == place
