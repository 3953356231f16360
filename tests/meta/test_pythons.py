"""The Pythons that the workflow tests with, the classifiers and the page on installation are the same ones."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import pythons
from rig import processes

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))


def test_the_workflow_runs_every_python_that_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    versions = [line.rpartition(" ")[2] for line in declared if re.search(r":: 3\.\d+$", line)]
    assert WORKFLOW["jobs"]["pythons"]["strategy"]["matrix"]["python"] == versions
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| (3\.[\d., ]+) \|", page, re.MULTILINE)
    assert [version for row in named for version in row.split(", ")] == versions


def test_the_workflow_runs_the_suite_as_an_ordinary_user() -> None:
    commands = [step.get("run", "") for step in WORKFLOW["jobs"]["ordinary-user"]["steps"]]
    assert "scripts/services --install" in commands
    assert re.search(r"runuser -u tester .* make test$", commands[-1].strip())


@pytest.mark.parametrize(
    ("told", "mirror"),
    [
        (
            "http://a.example/debian/\nhttp://a.example/debian/\nhttp://a.example/security/\n",
            "a.example/debian/",
        ),
        ("https://tools.example/apt/\nhttp://b.example/debian\n", "b.example/debian"),
        ("http://archive.example/ubuntu/\n", None),
    ],
)
def test_a_system_comes_from_the_mirror_that_apt_uses(
    told: str, mirror: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIRROR", raising=False)
    monkeypatch.setattr(pythons, "run", lambda *words: told)
    assert pythons.mirror() == ([f"http://{mirror}"] if mirror else [])
    monkeypatch.setenv("MIRROR", "http://own.example/debian")
    assert pythons.mirror() == ["http://own.example/debian"]


def test_a_python_whose_popen_is_unknown_starts_interpreters_in_place_of_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"stdout": subprocess.PIPE, "text": True}
    for known in (True, False):
        monkeypatch.setattr(processes, "POPEN_IS_KNOWN", known)
        process = processes.start_skitter(["--version"], [sys.executable], **options)
        assert isinstance(process, processes.ForkedProcess) == known
        assert process.communicate()[0].startswith("skitter ")
